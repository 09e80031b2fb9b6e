#include "plan/attention.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::ElementOrder;
using tensor::MemoryClass;
using tensor::Order;
using tensor::Padding;
using tensor::TensorType;

constexpr std::uint32_t kKeyBlock = 64;
constexpr std::uint32_t kMicro = 16;              // F16 panel width
constexpr std::uint32_t kSplitSoftmaxKeys = 128;  // shortest row that may be split (5.4)
// Most bytes of complete keys or values on a tile: four pairs of elements of region 1; three under the
// capacity policy.
constexpr std::uint32_t kOperandBytes = 131072, kCapacityOperandBytes = 98304;

struct Shape3 {
  std::uint32_t streams, queries, keys, parts;  // parts of the query rows
};

// [S, rows, cols] on t = stream + S * row part; columns padded to panels.
TensorType query_type(const Shape3& s, std::uint32_t cols, std::uint32_t block, ElementOrder order) {
  TensorType type{.shape = {s.streams, s.queries, cols}, .encoding = {}, .layout = {}};
  type.layout.order = order;
  type.layout.tiling.tile_count = s.streams * s.parts;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1), axis_tiling(1, s.parts, s.streams),
                             axis_tiling(2, 1, 1, block, Padding::Zero)};
  return type;
}

// Owner grid of keys or values: per stream `blocks` parts of the key rows times `panels` parts of the
// columns.
struct KeyGrid {
  std::uint32_t blocks = 1, panels = 1, replicas = 1;
};

// [S, keys, cols] padded to whole key blocks and panels: t = stream + S * (block + blocks * panel).
TensorType key_type(const Shape3& s, std::uint32_t cols, const KeyGrid& g, ElementOrder order) {
  TensorType type{.shape = {s.streams, s.keys, cols}, .encoding = {}, .layout = {}};
  type.layout.order = order;
  type.layout.tiling.tile_count = s.streams * g.blocks * g.panels * g.replicas;
  type.layout.tiling.replicas = g.replicas;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1),
                             axis_tiling(1, g.blocks, s.streams, kKeyBlock, Padding::Zero),
                             axis_tiling(2, g.panels, s.streams * g.blocks, kMicro, Padding::Zero)};
  return type;
}

// The grid of packing owners with the smallest shard, then the fewest owners.
KeyGrid packing_grid(const Shape3& s, std::uint32_t cols, std::uint32_t tiles) {
  const std::uint32_t blocks = cd(s.keys, kKeyBlock), panels = cd(cols, kMicro);
  KeyGrid best;
  std::pair<std::uint32_t, std::uint32_t> best_score{UINT32_MAX, 0};
  for (std::uint32_t p = 1; p <= std::min(panels, tiles / s.streams); ++p) {
    const std::uint32_t b = std::min(blocks, tiles / (s.streams * p));
    const std::pair score{cd(panels, p) * cd(blocks, b), p * b};
    if (score < best_score) best_score = score, best = {.blocks = b, .panels = p, .replicas = 1};
  }
  return best;
}

// Packs keys or values once on a grid of panels, then sends the panels to every query owner. The complete
// operand is interleaved: wide loads, and it needs region 1 anyway.
TensorId pack_and_broadcast(Draft& draft, const std::string& name, const Held& x, const Shape3& s,
                            ElementOrder packed, ElementOrder complete) {
  const std::uint32_t width = x.shape[2];
  const KeyGrid grid = packing_grid(s, width, draft.tiles());
  const TensorId rows =
      gather(draft, name + ".rows", x, key_type(s, width, grid, {}), draft.all_tiles(), Role::Scratch);
  const TensorId panels = draft.add(name + ".packed", key_type(s, width, grid, packed), Role::Operand);
  draft.local({.kind = LocalKind::Reorder, .inputs = {rows}, .outputs = {panels}});
  TensorType type = key_type(s, width, {.blocks = 1, .panels = 1, .replicas = s.parts}, complete);
  type.layout.memory = MemoryClass::Interleaved;
  const TensorId operand = draft.add(name, std::move(type), Role::Operand);
  draft.copy_panels(operand, panels);
  return operand;
}

Local softmax_step(Draft& draft, TensorId scores, TensorId weights, TensorId state, float scale,
                   std::uint32_t keys) {
  Local softmax{.kind = LocalKind::Softmax, .inputs = {scores}, .outputs = {weights, state}, .scale = scale};
  if (keys < kSplitSoftmaxKeys) return softmax;
  Local split = softmax;
  split.split = true;
  Layouts layouts(draft.plan);
  return local_cycles(draft.plan, split, layouts) < local_cycles(draft.plan, softmax, layouts) ? split
                                                                                               : softmax;
}

constexpr ElementOrder kLeft{.kind = Order::AmpLeft}, kRight{.kind = Order::AmpRight};

// Statistics of a key block: [2, S, R] F32 beside the query rows.
TensorId add_state(Draft& draft, const std::string& name, const Shape3& s) {
  TensorType type{.shape = {2, s.streams, s.queries}, .encoding = {tensor::Precision::F32, 0}, .layout = {}};
  type.layout.tiling.tile_count = s.streams * s.parts;
  type.layout.tiling.axes = {axis_tiling(1, s.streams, 1), axis_tiling(2, s.parts, s.streams)};
  return draft.add(name, std::move(type), Role::Scratch);
}

// Unnormalised probabilities of one key block and their PV product. `suffix` tells blocks apart.
struct Block {
  TensorId pv, state;
};
Block emit_block(Draft& draft, const std::string& suffix, TensorId q_left, const Held& k, const Held& v,
                 const Shape3& s, float scale) {
  const std::uint32_t padded_keys = up(s.keys, kKeyBlock), values = v.shape[2];
  const TensorId keys = pack_and_broadcast(draft, "k" + suffix, k, s, kRight, kRight);
  TensorType score_type = query_type(s, s.keys, kKeyBlock, kLeft);
  TensorType weight_type = score_type;
  score_type.layout.memory = MemoryClass::Interleaved;
  const TensorId scores = draft.add("scores" + suffix, score_type, Role::Scratch);
  draft.step(Product{.left = q_left, .right = keys, .out = scores, .right_transposed = true});
  const TensorId weights = draft.add("weights" + suffix, weight_type, Role::Operand);
  const TensorId state = add_state(draft, "state" + suffix, s);
  draft.local(softmax_step(draft, scores, weights, state, scale, s.keys));

  // Values arrive after the keys are dead, so that only one of the two is resident.
  const ElementOrder block{.kind = Order::BlockMajor, .row_block = kKeyBlock, .col_block = 16};
  const ElementOrder complete{.kind = Order::BlockMajor, .row_block = padded_keys, .col_block = 16};
  const TensorId v_right = pack_and_broadcast(draft, "v" + suffix, v, s, block, complete);
  TensorType pv_type = query_type(s, values, kMicro, kLeft);
  pv_type.layout.memory = MemoryClass::Interleaved;
  const TensorId pv = draft.add("pv" + suffix, pv_type, Role::Scratch);
  draft.step(Product{.left = weights, .right = v_right, .out = pv});
  return {pv, state};
}

// Streaming takes 64 keys at a time. Left alone, attention has one block unless its complete keys or values
// would take more than the policy allows; then as few equal blocks as do. Complete operands are the memory
// peak of both models. Measured at batch 2: PE's pooling head (128 columns) 419,896 B -> 362,168 B for 0.1 %
// more cycles; SigLIP's encoder (72) 485,512 B -> 433,408 B for 1.7 % more, hence under the capacity policy
// only.
std::uint32_t keys_at_a_time(const Options& options, std::uint32_t keys, std::uint32_t width) {
  if (options.attention == Attention::Streaming) return kKeyBlock;
  if (options.attention == Attention::Materialized) return keys;
  const std::uint32_t limit = options.policy == Policy::Capacity ? kCapacityOperandBytes : kOperandBytes;
  const std::uint32_t bytes = 2 * up(keys, kKeyBlock) * up(width, kMicro);
  return up(cd(keys, cd(bytes, limit)), kKeyBlock);
}

// Rows [start, start + length) of a value's key axis.
Held key_rows(const Held& x, std::uint32_t start, std::uint32_t length) {
  Held rows = x;
  rows.view = tensor::compose(x.view, tensor::slice_map(3, 1, start));
  rows.shape[1] = length;
  return rows;
}

// The running F32 accumulator: width + 2 columns, the last two hold maximum and denominator
// (compiler.md 3.5).
TensorId add_accumulator(Draft& draft, const std::string& name, const Shape3& s, std::uint32_t values) {
  TensorType type = query_type(s, values + 2, kMicro, {});
  type.encoding = {tensor::Precision::F32, 0};
  return draft.add(name, std::move(type), Role::Scratch);
}

}  // namespace

TensorId emit_attention(Draft& draft, const Held& q, const Held& k, const Held& v, float scale) {
  Shape3 s{.streams = q.shape[0], .queries = q.shape[1], .keys = k.shape[1], .parts = 1};
  if (s.streams > draft.tiles()) {
    throw Error(ErrorKind::UnsupportedOp,
                fmt::format("{}: attention has {} streams (batch x heads), more than {} tiles", draft.path,
                            s.streams, draft.tiles()));
  }
  s.parts = std::min(s.queries, draft.tiles() / s.streams);
  const std::uint32_t values = v.shape[2], all_keys = s.keys;
  const TensorId q_rows =
      gather(draft, "q.rows", q, query_type(s, q.shape[2], kMicro, {}), draft.all_tiles(), Role::Scratch);
  const TensorId q_left = draft.add("q", query_type(s, q.shape[2], kMicro, kLeft), Role::Operand);
  draft.local({.kind = LocalKind::Reorder, .inputs = {q_rows}, .outputs = {q_left}});

  // Several blocks merge online.
  const std::uint32_t step = keys_at_a_time(draft.options, all_keys, std::max(q.shape[2], values));
  TensorId accumulator;
  for (std::uint32_t start = 0; start < all_keys; start += step) {
    const std::string suffix = step < all_keys ? std::to_string(start / step) : "";
    s.keys = std::min(step, all_keys - start);
    const bool initial = start == 0, final = start + step >= all_keys;
    const Block block =
        emit_block(draft, suffix, q_left, key_rows(k, start, s.keys), key_rows(v, start, s.keys), s, scale);
    const TensorId out = final ? draft.add("result", query_type(s, values, kMicro, {}), Role::Activation)
                               : add_accumulator(draft, "accumulator" + suffix, s, values);
    Local merge{.kind = LocalKind::Merge, .inputs = {block.pv, block.state}, .outputs = {out}};
    if (!initial) merge.inputs.push_back(accumulator);
    merge.initial = initial;
    merge.final = final;
    draft.local(std::move(merge));
    accumulator = out;
  }
  return accumulator;
}

}  // namespace tw::plan
