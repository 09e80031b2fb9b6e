// The command line of `tilewright` (cli.md) as one value.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "inspect/inspect.h"
#include "tools/calibrate.h"
#include "tools/fit.h"
#include "tools/help.h"
#include "tools/pipeline.h"
#include "tools/problem.h"
#include "tools/recipe.h"

namespace tw::tools {

enum class Command {
  Compile,
  Run,
  E2e,
  Compare,
  Fit,
  Calibrate,
  Inspect,
  Problem,
  Check,
  Report,
  Completion,
  Man
};

struct Invocation {
  Command command = Command::E2e;
  Recipe recipe;
  std::string calibration;  // compile, e2e, fit, run, compare: --calibration
  CalibrateOptions calibrate;
  RunOptions run;
  std::string package;  // run, compare, inspect, report: FILE.ipuexe; compile: -o
  std::string folder;   // report: -o; man: DIR
  std::string shell;    // completion
  std::string trace;    // report: --trace
  std::string other;    // report: --compare
  std::vector<std::uint32_t> trace_tiles;
  std::string target;  // --target
  std::string json;    // --json FILE, "-" = standard output
  inspect::Selection inspect;
  bool inspect_assembly = false;
  ProblemChoice problem;
  std::string problem_file;     // problem: -o; check: FILE.json
  std::string unplaced_folder;  // compile: --dump-problems
  std::string report;           // compile, e2e: --report DIR
  FitOptions fit;
  unsigned threads = 0;
  ProgressMode progress = ProgressMode::Auto;
  bool quiet = false;
  std::string log_level = "warn";
};

// What it accepts.
CommandTable tilewright_table();
// Parses; on --help or --version prints and returns nullopt. Error{Usage} names the option.
std::optional<Invocation> parse(int argc, const char* const* argv);

}  // namespace tw::tools
