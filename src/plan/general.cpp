#include "plan/general.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "plan/attention_parts.h"
#include "plan/block.h"
#include "plan/canonical.h"

namespace tw::plan {
namespace {

using tensor::Precision;
using tensor::Shape;
using tensor::TensorType;

// Row kernels need rows: a vector is one.
Shape rows_of(const Shape& shape) { return shape.size() < 2 ? Shape{1, shape.at(0)} : shape; }

// The value as F32 rows.
TensorId single(Draft& draft, const Held& x) {
  const Held rows = reshaped(draft, x, rows_of(x.shape));
  TensorType type = canonical_type(rows.shape, draft.tiles(), draft.options.policy, Precision::F32);
  const Tensor& held = draft.at(rows.tensor);
  if (rows.direct(draft) && held.type == type && held.owners == draft.all_tiles()) return rows.tensor;
  return gather(draft, "single", rows, std::move(type), draft.all_tiles(), Role::Activation);
}

Held as_shape(Draft& draft, TensorId tensor, const Shape& shape) {
  Held held = reshaped(draft, whole(draft, tensor, true), shape);
  held.owned = true;
  return held;
}

TensorId result_like(Draft& draft, TensorId x) {
  return draft.add("result", draft.at(x).type, draft.at(x).owners, Role::Activation);
}

Held expanded(Draft& draft, const Held& x, const Shape& shape) {
  if (x.shape == shape) return x;
  return seen_through(draft, x, tensor::expand_map(x.shape, shape.size()), shape);
}

// The operand that repeats in `lead`, or one as large.
TensorId follower(Draft& draft, const Held& x, TensorId lead) {
  const Shape& shape = draft.at(lead).type.shape;
  const bool repeats = tensor::elements(x.shape) < tensor::elements(shape) &&
                       (tensor::elements(x.shape) == 1 || is_suffix(x.shape, shape));
  return repeats ? suffix_operand(draft, x, lead) : single(draft, expanded(draft, x, shape));
}

// [outer, extent of the axis, inner], whole along the axis.
TensorType join_type(const Shape& shape, std::uint32_t tiles) {
  TensorType type{.shape = shape, .encoding = {Precision::F32, 0}, .layout = {}};
  const std::uint32_t axis = shape[0] >= shape[2] ? 0 : 2, parts = std::min(shape[axis], tiles);
  type.layout.tiling.tile_count = parts;
  if (parts > 1) type.layout.tiling.axes = {axis_tiling(axis, parts, 1)};
  return type;
}

// Leading axes as one.
Held batched(Draft& draft, const Held& x, const Shape& outer) {
  Shape wide = outer;
  wide.insert(wide.end(), x.shape.end() - 2, x.shape.end());
  const Shape flat{static_cast<std::uint32_t>(tensor::elements(outer)), wide[wide.size() - 2], wide.back()};
  return reshaped(draft, expanded(draft, x, wide), flat);
}

}  // namespace

Held emit_unary(Draft& draft, const Held& x, numeric::Unary function) {
  const bool half = draft.at(x.tensor).type.encoding.precision == Precision::F16 && x.shape.size() > 1 &&
                    x.shape.back() % 2 == 0;
  const TensorId in = half ? canonical(draft, x) : single(draft, x);
  const TensorId out = result_like(draft, in);
  draft.local({.kind = LocalKind::Unary,
               .inputs = {in},
               .outputs = {out},
               .function = static_cast<std::uint32_t>(function)});
  return as_shape(draft, out, x.shape);
}

Held emit_binary(Draft& draft, const Held& a, const Held& b, const Shape& shape, numeric::Binary function) {
  const Shape rows = rows_of(shape);
  const bool swapped = a.shape != shape && b.shape == shape;
  const Held &first = swapped ? b : a, &second = swapped ? a : b;
  const TensorId lead = single(draft, expanded(draft, first, rows));
  const TensorId other = follower(draft, second, lead);
  const TensorId out = result_like(draft, lead);
  draft.local({.kind = LocalKind::Binary,
               .inputs = {lead, other},
               .outputs = {out},
               .function = static_cast<std::uint32_t>(function),
               .swapped = swapped});
  return as_shape(draft, out, shape);
}

Held emit_softmax_rows(Draft& draft, const Held& x) {
  const TensorId in = single(draft, x), out = result_like(draft, in);
  draft.local({.kind = LocalKind::SoftmaxRows, .inputs = {in}, .outputs = {out}});
  return as_shape(draft, out, x.shape);
}

Held emit_reduce(Draft& draft, const Held& x, numeric::Reduction function) {
  const TensorId in = single(draft, x);
  TensorType type = draft.at(in).type;
  type.shape.back() = 1;
  const TensorId out = draft.add("result", std::move(type), draft.at(in).owners, Role::Activation);
  draft.local({.kind = LocalKind::Reduce,
               .inputs = {in},
               .outputs = {out},
               .function = static_cast<std::uint32_t>(function)});
  Shape shape = x.shape;
  shape.back() = 1;
  return as_shape(draft, out, shape);
}

Held emit_norm_rows(Draft& draft, const Held& x, const Held& scale, const Held& bias, float epsilon) {
  const TensorId in = single(draft, x);
  const TensorId gamma = suffix_operand(draft, scale, in), beta = suffix_operand(draft, bias, in);
  const TensorId out = result_like(draft, in);
  draft.local(
      {.kind = LocalKind::NormRows, .inputs = {in, gamma, beta}, .outputs = {out}, .epsilon = epsilon});
  return as_shape(draft, out, x.shape);
}

Held emit_join(Draft& draft, const std::vector<Held>& parts, std::uint32_t axis, const Shape& shape) {
  const auto extent = [&](std::size_t first, std::size_t last) {
    return static_cast<std::uint32_t>(
        tensor::elements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first),
                               shape.begin() + static_cast<std::ptrdiff_t>(last))));
  };
  const std::uint32_t outer = extent(0, axis), inner = extent(axis + 1, shape.size());
  Local join{.kind = LocalKind::Join, .inputs = {}, .outputs = {}};
  for (const Held& part : parts) {
    const Shape flat{outer, part.shape[axis], inner};
    join.inputs.push_back(gather(draft, "part", reshaped(draft, part, flat), join_type(flat, draft.tiles()),
                                 draft.all_tiles(), Role::Operand));
  }
  const TensorId out =
      draft.add("result", join_type({outer, shape[axis], inner}, draft.tiles()), Role::Activation);
  join.outputs = {out};
  draft.local(std::move(join));
  return as_shape(draft, out, shape);
}

Held emit_rope(Draft& draft, const Held& x, const Held& cosine, const Held& sine, bool interleaved) {
  const TensorId in = canonical(draft, x);
  const TensorId c = suffix_operand(draft, cosine, in), s = suffix_operand(draft, sine, in);
  const TensorId out = result_like(draft, in);
  draft.local({.kind = LocalKind::Rope, .inputs = {in, c, s}, .outputs = {out}, .interleaved = interleaved});
  return whole(draft, out, true);
}

Held emit_matmul(Draft& draft, const Held& x, const Held& y, const Shape& shape) {
  const Shape outer(shape.begin(), shape.end() - 2);
  const Held left = batched(draft, x, outer), right = batched(draft, y, outer);
  AttentionShape s{.streams = left.shape[0],
                   .queries = left.shape[1],
                   .keys = left.shape[2],
                   .width = left.shape[2],
                   .values = right.shape[2]};
  if (s.streams > draft.tiles()) {
    throw Error(ErrorKind::UnsupportedOp, fmt::format("{}: {} products at once, more than {} tiles",
                                                      draft.path, s.streams, draft.tiles()));
  }
  s.parts = std::min(s.queries, draft.tiles() / s.streams);
  const TensorId rows = gather(draft, "left.rows", left, query_type(s, s.keys, kKeyBlock, {}),
                               draft.all_tiles(), Role::Scratch);
  const TensorId panels = draft.add("left", query_type(s, s.keys, kKeyBlock, kLeftOrder), Role::Operand);
  draft.local({.kind = LocalKind::Reorder, .inputs = {rows}, .outputs = {panels}});
  const tensor::ElementOrder block{
      .kind = tensor::Order::BlockMajor, .row_block = kKeyBlock, .col_block = kPanel};
  tensor::ElementOrder complete = block;
  complete.row_block = up(s.keys, kKeyBlock);
  const TensorId operand = pack_and_broadcast(draft, "right", right, s, block, complete);
  TensorType type = query_type(s, s.values, kPanel, kLeftOrder);
  type.layout.memory = tensor::MemoryClass::Interleaved;
  const TensorId product = draft.add("product", std::move(type), Role::Activation);
  draft.step(Product{.left = panels, .right = operand, .out = product});
  return as_shape(draft, result_to_canonical(draft, product), shape);
}

}  // namespace tw::plan
