// The library calls behind compile, run and e2e: model + recipe -> package -> simulated calls -> checks.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compile/compile.h"
#include "package/package.h"
#include "sim/machine.h"
#include "tools/inputs.h"
#include "tools/recipe.h"

namespace tw::tools {

// Set by --target and --threads.
struct Host {
  Device device = c600();
  unsigned threads = 0;
  Progress* progress = nullptr;
};

struct Compiled {
  Source source;
  Recipe recipe;  // with the model's defaults filled in and the optimiser's choices
  compile::Result result;
  package::Package package;  // image, packed weights, side section (without the file's own figures)
};
// `source`: open_source(recipe).
Compiled compile_model(const Host& host, const Recipe& recipe, Source source,
                       const compile::OnUnplaced& on_unplaced = {});

// What `run` checks against: fp32 or exact, both, none.
struct Checks {
  bool fp32 = true, exact = false;
  double cosine_threshold = 0.99;   // strict
  std::string drop_group_rounding;  // test switch of plan/exact
  bool blas_yardstick = true;       // time OpenBLAS on the same products
};
struct RunOptions {
  std::uint32_t calls = 1;
  std::vector<std::filesystem::path> images;       // empty: the same random input in every call
  InputFiles inputs;                               // of an ONNX model, by name; others are drawn
  std::shared_ptr<const import::Fixture> fixture;  // a case per call: inputs, and what is expected
  std::string outputs;                             // folder for the outputs of the last call; empty: none
  Checks checks;
  sim::Options sim;
};

// How well FP32 evaluation of the graph agrees with what a fixture expects: whether its names and layouts
// were understood (models.md C.5 "Independent check of the mapping").
struct Mapping {
  std::string case_name;
  double cosine_min = 0, max_abs_error = 0;
  bool pass = false;
};
struct CallReport {
  std::uint32_t index = 0;
  sim::CallStats stats;
  // Against the fixture's expected output; else FP32; else exact, when only that is asked for.
  std::optional<double> cosine_min, max_abs_error;
  std::optional<Mapping> mapping;             // of a fixture's case
  std::optional<std::uint32_t> same_as_call;  // first earlier call with equal output bytes
  std::optional<bool> exact;                  // equal to the exact interpreter, every bit
  bool pass = false;
};
struct RunReport {
  std::vector<CallReport> calls;
  std::optional<sim::Fault> fault;
  std::optional<bool> exact_match;
  std::uint64_t fp8_clips = 0;
  double seconds_simulate = 0, seconds_reference = 0, seconds_exact = 0, openblas_seconds = 0;
  std::uint64_t macs = 0;                               // of all products, one call
  std::vector<std::uint8_t> first_input, first_output;  // bytes of call 0, row-major, one after the other
  bool pass = false;
};
// `source`: the recipe's.
RunReport run_package(const Host& host, const Recipe& recipe, const Source& source,
                      const package::Package& package, const RunOptions& options);

std::uint64_t peak_rss_bytes();

}  // namespace tw::tools
