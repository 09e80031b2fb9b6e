// `ipu-e2e-test`: the seed's command line on the library calls behind `tilewright e2e` (cli.md "Programs",
// models.md C.3, C.6).
#pragma once
#include <optional>
#include <string>

#include "base/progress.h"
#include "tools/compare.h"
#include "tools/help.h"
#include "tools/pipeline.h"
#include "tools/recipe.h"

namespace tw::tools {

struct IpuE2e {
  Recipe recipe;
  RunOptions run;
  Sampling sampling;
  std::string device;       // description, TOML; empty: the built-in one
  std::string calibration;  // FP8 scales by role; empty: the recipe's
  std::string fixture;      // folder with parameters, inputs and expected outputs; empty: drawn or --weights
  std::string package, lock, memory_directory, save_directory, profile, json;
  bool reuse_package = false, reference = false, diagnostic = false, names_sdk = false;
  unsigned threads = 0;
  ProgressMode progress = ProgressMode::Auto;
};
// What the command line accepts.
CommandTable ipu_e2e_table();
// On --help or --version prints and returns nullopt. Error{Usage} names the option.
std::optional<IpuE2e> parse_ipu_e2e(int argc, const char* const* argv);

int ipu_e2e_test(int argc, const char* const* argv);

}  // namespace tw::tools
