#include "plan/attention_parts.h"

#include <algorithm>

#include "base/math.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::Padding;
using tensor::TensorType;

constexpr std::uint32_t kSplitSoftmaxKeys = 128;  // shortest row that may be split (5.4)

// Packing owners of a stream: `blocks` parts of the key rows times `panels` parts of the columns.
struct PackingGrid {
  std::uint32_t blocks = 1, panels = 1;
};

// The grid with the smallest shard, then the fewest owners.
PackingGrid packing_grid(const AttentionShape& s, std::uint32_t cols, std::uint32_t tiles) {
  const std::uint32_t blocks = cd(s.keys, kKeyBlock), panels = cd(cols, kPanel);
  PackingGrid best;
  std::pair<std::uint32_t, std::uint32_t> best_score{UINT32_MAX, 0};
  for (std::uint32_t p = 1; p <= std::min(panels, tiles / s.streams); ++p) {
    const std::uint32_t b = std::min(blocks, tiles / (s.streams * p));
    const std::pair score{cd(panels, p) * cd(blocks, b), p * b};
    if (score < best_score) best_score = score, best = {.blocks = b, .panels = p};
  }
  return best;
}

Local softmax_step(Draft& draft, TensorId scores, const Probabilities& out, float scale) {
  Local softmax{
      .kind = LocalKind::Softmax, .inputs = {scores}, .outputs = {out.weights, out.state}, .scale = scale};
  if (draft.at(scores).type.shape.back() < kSplitSoftmaxKeys) return softmax;
  Local split = softmax;
  split.split = true;
  Layouts layouts(draft.plan);
  return local_cycles(draft.plan, split, layouts) < local_cycles(draft.plan, softmax, layouts) ? split
                                                                                               : softmax;
}

}  // namespace

TensorType query_type(const AttentionShape& s, std::uint32_t cols, std::uint32_t block,
                      tensor::ElementOrder order) {
  TensorType type{.shape = {s.streams, s.queries, cols}, .encoding = {}, .layout = {}};
  type.layout.order = order;
  type.layout.tiling.tile_count = s.streams * s.parts;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1), axis_tiling(1, s.parts, s.streams),
                             axis_tiling(2, 1, 1, block, Padding::Zero)};
  return type;
}

TensorId pack_queries(Draft& draft, const Held& q, const AttentionShape& s) {
  const TensorId rows =
      gather(draft, "q.rows", q, query_type(s, s.width, kPanel, {}), draft.all_tiles(), Role::Scratch);
  const TensorId left = draft.add("q", query_type(s, s.width, kPanel, kLeftOrder), Role::Operand);
  draft.local({.kind = LocalKind::Reorder, .inputs = {rows}, .outputs = {left}});
  return left;
}

TensorId pack_keys(Draft& draft, const std::string& name, const Held& x, const AttentionShape& s,
                   tensor::ElementOrder packed) {
  const std::uint32_t cols = x.shape[2];
  const PackingGrid grid = packing_grid(s, cols, draft.tiles());
  TensorType type{.shape = {s.streams, s.keys, cols}, .encoding = {}, .layout = {}};
  type.layout.tiling.tile_count = s.streams * grid.blocks * grid.panels;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1),
                             axis_tiling(1, grid.blocks, s.streams, kKeyBlock, Padding::Zero),
                             axis_tiling(2, grid.panels, s.streams * grid.blocks, kPanel, Padding::Zero)};
  const TensorId rows = gather(draft, name + ".rows", x, type, draft.all_tiles(), Role::Scratch);
  const TensorId panels = draft.add(name + ".packed", with_order(type, packed), Role::Operand);
  draft.local({.kind = LocalKind::Reorder, .inputs = {rows}, .outputs = {panels}});
  return panels;
}

TensorId pack_and_broadcast(Draft& draft, const std::string& name, const Held& x, const AttentionShape& s,
                            tensor::ElementOrder packed, tensor::ElementOrder complete) {
  const TensorId panels = pack_keys(draft, name, x, s, packed);
  TensorType type{.shape = {s.streams, s.keys, x.shape[2]}, .encoding = {}, .layout = {}};
  type.layout.order = complete;
  type.layout.memory = tensor::MemoryClass::Interleaved;
  type.layout.tiling.tile_count = s.streams * s.parts;
  type.layout.tiling.replicas = s.parts;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1),
                             axis_tiling(1, 1, s.streams, kKeyBlock, Padding::Zero),
                             axis_tiling(2, 1, s.streams, kPanel, Padding::Zero)};
  const TensorId operand = draft.add(name, std::move(type), Role::Operand);
  draft.copy_panels(operand, panels);
  return operand;
}

Probabilities emit_softmax(Draft& draft, const std::string& suffix, TensorId scores, const AttentionShape& s,
                           float scale) {
  TensorType weights = draft.at(scores).type;
  weights.layout.memory = tensor::MemoryClass::Standard;
  TensorType state{.shape = {2, s.streams, s.queries}, .encoding = {tensor::Precision::F32, 0}, .layout = {}};
  state.layout.tiling.tile_count = s.streams * s.parts;
  state.layout.tiling.axes = {axis_tiling(1, s.streams, 1), axis_tiling(2, s.parts, s.streams)};
  const Probabilities out{draft.add("weights" + suffix, std::move(weights), Role::Operand),
                          draft.add("state" + suffix, std::move(state), Role::Scratch)};
  draft.local(softmax_step(draft, scores, out, scale));
  return out;
}

}  // namespace tw::plan
