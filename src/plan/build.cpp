#include "plan/build.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/capacity.h"
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
  std::vector<tensor::Encoding> encodings{{options.precision, options.fp8_scale}};
  for (const auto& [role, encoding] : options.encodings) encodings.push_back(encoding);
  for (const tensor::Encoding& e : encodings) {
    if (e.scale < -16 || e.scale > 15)  // their sum has six bits
      throw Error(ErrorKind::Usage, fmt::format("the FP8 scale must be in -16..15, not {}", e.scale));
    if (e.precision == tensor::Precision::F32)
      throw Error(ErrorKind::UnsupportedOp, "dense products in F32 are not built");
  }
}

// Kernels count elements in 20 bits (kernels.md); so many on one tile never fit.
void check_counts(const Device& device, const Plan& plan) {
  for (const Tensor& tensor : plan.tensors) {
    const tensor::ResolvedLayout layout(tensor.type);
    if (layout.max_shard_bytes() < std::uint64_t{1 << 20} * tensor::bytes_of(tensor.type.encoding.precision))
      continue;
    CapacityDetail d;
    d.needed_bytes = layout.max_shard_bytes();
    d.available_bytes = data_budget(device);
    d.missing_bytes = d.needed_bytes - d.available_bytes;
    d.failing_tiles = layout.owners();
    d.live = {{fmt::format("'{}': its part on one tile", tensor.name), "tensor",
               tensor::to_string(tensor.type.shape), tensor::name_of(tensor.type.encoding.precision),
               d.needed_bytes, 0, 0, -1}};
    throw does_not_fit(ErrorKind::Contiguity, std::move(d));
  }
}

std::uint64_t operations(const graph::Graph& graph) {
  std::uint64_t count = graph.ops.size();
  for (const graph::Repeat& repeat : graph.repeats) count += repeat.body.size();
  return count;
}

// What does not hold tensors of a full-size model: six elements of code, rows and host buffers (both models),
// and a pair of elements for the holes between addresses.
constexpr std::uint64_t kUsualSupport = 6 * 16384 + 32768;

// Bytes that the busiest tile has beside what lives throughout: parameters and carried values.
std::uint64_t operator_room(const Device& device, const Plan& plan) {
  std::vector<std::uint64_t> load(plan.tiles, 0);
  for (const Tensor& tensor : plan.tensors) {
    if (tensor.role != Role::Parameter && tensor.role != Role::Carried) continue;
    const tensor::ResolvedLayout layout(tensor.type);
    for (std::uint32_t o = 0; o < layout.owners(); ++o) {
      load[tensor.owners.tile_of(o)] +=
          layout.shard_bytes(o) * std::max<std::size_t>(1, tensor.members.size());
    }
  }
  const std::uint64_t busiest = *std::ranges::max_element(load);
  return usual_budget(device) - std::min(usual_budget(device), busiest);
}

Plan walked(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress,
            std::uint64_t room) {
  progress.stage("plan", operations(graph));
  Draft draft(device, options);
  draft.operator_room = room;
  Walk(draft, graph, progress).run();
  rotate_homes(draft.plan);
  draft.plan.weight_rounding = options.weight_rounding;
  draft.plan.within_room = room != UINT64_MAX;
  Plan plan = fuse(device, std::move(draft.plan));
  check_counts(device, plan);
  const Metrics metrics = estimate(device, plan);
  plan.estimated_cycles = metrics.cycles;
  plan.estimated_tensor_bytes = metrics.total_bytes;
  return plan;
}

}  // namespace

std::uint64_t usual_budget(const Device& device) {
  return data_budget(device) - std::min(data_budget(device), kUsualSupport);
}

Plan build(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress) {
  check(device, options);
  Plan plan = walked(device, graph, options, progress, UINT64_MAX);
  const bool too_large = plan.estimated_tensor_bytes > usual_budget(device);
  if (!options.choices.empty() || !(too_large || options.within_room)) return plan;
  // Again, now that it is known how much room an operator has.
  Plan tight = walked(device, graph, options, progress, operator_room(device, plan));
  if (options.within_room) return tight;
  return tight.estimated_tensor_bytes < plan.estimated_tensor_bytes ? std::move(tight) : std::move(plan);
}

}  // namespace tw::plan
