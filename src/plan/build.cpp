#include "plan/build.h"

#include <fmt/core.h>

#include "base/error.h"
#include "plan/canonical.h"
#include "plan/cost.h"
#include "plan/draft.h"
#include "plan/fuse.h"
#include "plan/walk.h"

namespace tw::plan {
namespace {

void check(const Device& device, const Options& options) {
  if (options.tiles == 0 || options.tiles > device.tiles) {
    throw Error(ErrorKind::Usage, fmt::format("tiles must be in 1..{}, not {}", device.tiles, options.tiles));
  }
  if (options.fp8_scale < -16 || options.fp8_scale > 15) {
    throw Error(ErrorKind::Usage, fmt::format("the FP8 scale must be in -16..15, not {}", options.fp8_scale));
  }
  if (options.precision == tensor::Precision::F32) {
    throw Error(ErrorKind::UnsupportedOp, "dense products in F32 are not built");
  }
}

std::uint64_t operations(const graph::Graph& graph) {
  std::uint64_t count = graph.ops.size();
  for (const graph::Repeat& repeat : graph.repeats) count += repeat.body.size();
  return count;
}

}  // namespace

Plan build(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress) {
  check(device, options);
  progress.stage("plan", operations(graph));
  Draft draft(device, options);
  Walk(draft, graph, progress).run();
  rotate_homes(draft.plan);
  Plan plan = fuse(device, std::move(draft.plan));
  const Metrics metrics = estimate(device, plan);
  plan.estimated_cycles = metrics.cycles;
  plan.estimated_tensor_bytes = metrics.total_bytes;
  return plan;
}

}  // namespace tw::plan
