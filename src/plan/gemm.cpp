#include "plan/gemm.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "plan/canonical.h"

namespace tw::plan {
namespace {

using tensor::MemoryClass;
using tensor::Order;
using tensor::Padding;
using tensor::Precision;
using tensor::TensorType;

// Extents of the grid's largest shards and the axes of the operands.
struct Grid {
  std::uint32_t row_axis, col_axis, inner_block;
  std::uint32_t rows, cols, inner;
  std::uint32_t tiles() const { return rows * cols * inner; }
};

// t = col + Cp * (k + Kp * row), every column holds a copy.
TensorType left_type(const tensor::Shape& shape, const Grid& g, tensor::Encoding encoding,
                     tensor::ElementOrder order) {
  TensorType type{.shape = shape, .encoding = encoding, .layout = {}};
  type.layout.order = order;
  type.layout.tiling.tile_count = g.tiles();
  type.layout.tiling.replicas = g.cols;
  type.layout.tiling.axes = {axis_tiling(g.col_axis, g.inner, g.cols, g.inner_block, Padding::Zero),
                             axis_tiling(g.row_axis, g.rows, g.cols * g.inner)};
  return type;
}

TensorType right_type(const TensorType& home, const Grid& g, MemoryClass memory) {
  TensorType type{.shape = home.shape, .encoding = home.encoding, .layout = {}};
  type.layout.order = {.kind = Order::BlockMajor, .row_block = g.inner_block, .col_block = 16};
  type.layout.memory = memory;
  type.layout.tiling.tile_count = g.tiles();
  type.layout.tiling.replicas = g.rows;
  type.layout.tiling.axes = {axis_tiling(1, g.cols, 1, 16, Padding::Zero),
                             axis_tiling(0, g.inner, g.cols, g.inner_block, Padding::Zero)};
  return type;
}

TensorType partials_type(const tensor::Shape& out, const Grid& g) {
  TensorType type{.shape = {g.inner}, .encoding = {}, .layout = {}};
  type.shape.insert(type.shape.end(), out.begin(), out.end());
  type.layout.order.kind = Order::AmpLeft;
  type.layout.memory = MemoryClass::Interleaved;
  type.layout.tiling.tile_count = g.tiles();
  type.layout.tiling.axes = {axis_tiling(0, g.inner, g.cols),
                             axis_tiling(g.row_axis + 1, g.rows, g.cols * g.inner),
                             axis_tiling(g.col_axis + 1, g.cols, 1, 16, Padding::Zero)};
  return type;
}

TensorType result_type(const tensor::Shape& out, const Grid& g, const GemmCandidate& c) {
  const std::uint32_t rows = g.rows * c.result_rows, cols = g.cols * c.result_cols;
  TensorType type{.shape = out, .encoding = {}, .layout = {}};
  type.layout.order.kind = Order::AmpLeft;
  type.layout.memory = MemoryClass::Interleaved;
  type.layout.tiling.tile_count = rows * cols;
  type.layout.tiling.axes = {axis_tiling(g.col_axis, cols, c.rows_fast ? rows : 1, 16, Padding::Zero),
                             axis_tiling(g.row_axis, rows, c.rows_fast ? 1 : cols)};
  return type;
}

// x on its own owners in F8 panels, for an early cast.
TensorId cast_at_source(Draft& draft, const Held& x, tensor::Encoding encoding) {
  const auto last = static_cast<std::uint32_t>(x.shape.size() - 1);
  TensorId source;
  TensorType type = canonical_type(x.shape, draft.tiles(), draft.options.policy, Precision::F16);
  if (boundary_precision(x.shape) == Precision::F16) {
    source = canonical(draft, x);
    type = draft.at(source).type;
  } else {  // rows of whole words
    TensorType rows = type;
    rows.layout.tiling.axes.push_back(axis_tiling(last, 1, 1, 2, Padding::Zero));
    source = gather(draft, "x.half", x, std::move(rows), draft.all_tiles(), Role::Operand);
  }
  type.encoding = encoding;
  type.layout.order.kind = Order::AmpLeft;
  type.layout.tiling.axes.push_back(
      axis_tiling(last, 1, 1, tensor::mu_of(encoding.precision), Padding::Zero));
  const TensorId cast = draft.add("x.cast", std::move(type), draft.at(source).owners, Role::Operand);
  draft.local({.kind = LocalKind::Cast, .inputs = {source}, .outputs = {cast}});
  return cast;
}

TensorId pack_left(Draft& draft, TensorId staged, const TensorType& left) {
  const TensorId operand = draft.add("left", left, Role::Operand);
  const LocalKind kind = left.encoding.precision == Precision::F8 ? LocalKind::Cast : LocalKind::Reorder;
  draft.local({.kind = kind, .inputs = {staged}, .outputs = {operand}});
  return operand;
}

TensorId emit_left(Draft& draft, const Held& x, const Grid& g, tensor::Encoding encoding, bool early) {
  const TensorType left = left_type(x.shape, g, encoding, {.kind = Order::AmpLeft});
  if (early) {
    const TensorId cast = cast_at_source(draft, x, encoding);
    const TensorId operand = draft.add("left", left, Role::Operand);
    draft.copy_panels(operand, cast);
    return operand;
  }
  const TensorId staged =
      gather(draft, "x.rows", x, left_type(x.shape, g, {}, {}), draft.all_tiles(), Role::Scratch);
  return pack_left(draft, staged, left);
}

// Columns [start, start + length) of a matrix axis as a tensor of its own.
TensorId copy_slice(Draft& draft, const std::string& part, TensorType type, TensorId src, std::uint32_t axis,
                    std::uint32_t start) {
  const bool padded = has_padding(type);
  const TensorId slice = draft.add(part, std::move(type), Role::Operand);
  draft.step(Copy{.dst = slice,
                  .src = src,
                  .map = tensor::slice_map(draft.at(src).type.shape.size(), axis, start),
                  .clear_padding = padded,
                  .move_padding = false});
  return slice;
}

// Family B: the result's owners add K in steps, each with one slice of either operand in their memory.
TensorId emit_in_steps(Draft& draft, const Held& x, TensorId home, Grid g, const GemmCandidate& c,
                       const TensorType& out_type) {
  const TensorType weight = draft.at(home).type;
  const std::uint32_t micro = tensor::mu_of(weight.encoding.precision), inner = x.shape.back();
  const TensorId result = draft.add("result", out_type, Role::Activation);
  const TensorId cast = c.early_cast ? cast_at_source(draft, x, weight.encoding) : TensorId{};
  for (std::uint32_t start = 0; start < inner; start += c.k_step) {
    Held slice = x;
    slice.view = tensor::compose(x.view, tensor::slice_map(x.shape.size(), g.col_axis, start));
    slice.shape.back() = std::min(c.k_step, inner - start);
    TensorType part = weight;
    part.shape[0] = slice.shape.back();
    g.inner_block = up(slice.shape.back(), micro);
    const TensorType left = left_type(slice.shape, g, weight.encoding, {.kind = Order::AmpLeft});
    // Both movements stand side by side, so that they share a phase.
    const TensorId moved = c.early_cast ? copy_slice(draft, "left", left, cast, g.col_axis, start)
                                        : gather(draft, "x.rows", slice, left_type(slice.shape, g, {}, {}),
                                                 draft.all_tiles(), Role::Scratch);
    const TensorId right = copy_slice(draft, "right", right_type(part, g, c.right), home, 0, start);
    const TensorId operand = c.early_cast ? moved : pack_left(draft, moved, left);
    draft.step(Product{.left = operand, .right = right, .out = result, .accumulate = start > 0});
  }
  return result_to_canonical(draft, result);
}

}  // namespace

TensorId emit_gemm(Draft& draft, const Held& x, TensorId home, const GemmCandidate& c) {
  const TensorType weight = draft.at(home).type;
  const auto rank = static_cast<std::uint32_t>(x.shape.size());
  const std::uint32_t micro = tensor::mu_of(weight.encoding.precision);
  const Grid g{.row_axis = rank - 2,
               .col_axis = rank - 1,
               .inner_block = cd(cd(x.shape.back(), micro), c.inner) * micro,
               .rows = c.rows,
               .cols = c.cols,
               .inner = c.inner};
  tensor::Shape out_shape = x.shape;
  out_shape.back() = weight.shape.back();
  if (c.k_step > 0) return emit_in_steps(draft, x, home, g, c, result_type(out_shape, g, c));
  const TensorId left = emit_left(draft, x, g, weight.encoding, c.early_cast);
  const TensorId right = draft.add("right", right_type(weight, g, c.right), Role::Operand);
  draft.copy_panels(right, home);
  const bool split = c.inner > 1;
  const TensorId product =
      split ? draft.add("partials", partials_type(out_shape, g), Role::Partials)
            : draft.add("result", result_type(out_shape, g, {.rows = c.rows, .cols = c.cols}),
                        Role::Activation);
  draft.step(Product{.left = left, .right = right, .out = product, .k_parts = c.inner});
  if (!split) return result_to_canonical(draft, product);
  const TensorId result = draft.add("result", result_type(out_shape, g, c), Role::Activation);
  draft.step(Sum{.partials = product, .out = result});
  return result_to_canonical(draft, result);
}

}  // namespace tw::plan
