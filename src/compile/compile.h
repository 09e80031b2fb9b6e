// The compiler's one entry: graph -> plan -> program -> placement -> exchange -> package, in the open.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "compile/operations.h"
#include "compile/unplaced.h"
#include "graph/graph.h"
#include "package/package.h"
#include "plan/build.h"
#include "target/device.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::compile {

struct Options {
  plan::Options plan;
  std::uint32_t table_budget = 81920, fragment_limit = 16384;
  std::uint32_t stream_words = 1024;
  std::uint32_t optimization_steps = 0;  // complete builds that optimise() may spend after the baseline
  bool relays = true;        // relay gathers where the scheduler says that they pay (compiler.md 10)
  bool checkpoints = false;  // diagnostic package: a trap after every completed operation
  bool check_rows = false;   // run exchange::check on every phase (debug, tests)
  unsigned threads = 0;
  OnUnplaced on_unplaced;  // called once, before the refusal is thrown
};

// What the optimiser tried (optimise.h).
struct ChangedChoice {
  std::string path;                // graph operation
  std::uint32_t from = 0, to = 0;  // candidates
};
struct OptimisationStep {
  std::vector<ChangedChoice> changes;
  double estimated = 0;             // cycles of a call
  std::optional<double> scheduled;  // nothing when it does not fit
  bool accepted = false;
};

// An FP8 parameter with finite values beyond its scale: they become the largest magnitude, 240 * 2^scale.
struct ClippedWeights {
  std::string name;
  int scale = 0;
  std::uint64_t values = 0, clipped = 0;
  float largest = 0;  // magnitude
};

struct Report {  // the figures of cli.md's `compile` object
  std::uint64_t peak_tensor_bytes = 0, peak_total_bytes = 0, budget_bytes = 0;
  std::uint32_t peak_tile = 0, peak_step = 0;
  std::string peak_step_path;  // operation of peak_step
  std::uint64_t peak_standard_bytes = 0, peak_interleaved_bytes = 0, parameter_bytes_total = 0,
                reserve_bytes = 0, estimated_tensor_bytes = 0;
  std::uint32_t phases = 0, table_bytes_max = 0, fragments_max = 0, relay_phases = 0;
  double table_bytes_mean = 0, horizon_over_bound_mean = 0, horizon_over_bound_worst = 0;
  double cycles_estimated = 0, cycles_scheduled = 0;
  std::vector<std::string> phase_operations;  // operation of each executed exchange phase of a call
  std::vector<OperationCycles> estimated_by_operation, scheduled_by_operation;
  std::vector<OptimisationStep> optimisation;   // complete builds after the baseline
  std::vector<ClippedWeights> clipped_weights;  // pack_weights'
  double seconds_plan = 0, seconds_lower = 0, seconds_place = 0, seconds_exchange = 0, seconds_emit = 0,
         seconds_total = 0;
};

struct Result {
  plan::Plan plan;
  tile::Program program;
  package::DeviceImage image;
  package::Side side;  // symbols, tensors, step names; json texts are the caller's
  std::vector<std::pair<std::uint32_t, TensorId>> checkpoints;  // trap index -> plan tensor
  Report report;
};

// Throws Error with the capacity message of cli.md when the model does not fit or exceeds a limit.
Result compile(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress);

// Packed weight data in the binding order of the image, from logical FP32 tensors by name; padding is zero.
// `clipped` gets the parameters that lose values, in that order.
std::vector<std::vector<std::uint8_t>> pack_weights(
    const Result& result, const std::function<const std::vector<float>&(const std::string&)>& host,
    unsigned threads, std::vector<ClippedWeights>* clipped = nullptr);

}  // namespace tw::compile
