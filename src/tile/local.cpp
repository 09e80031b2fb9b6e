// Kernel calls of Local steps (docs/kernels.md) from the extents of the owners' shards.
#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "numeric/formats.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

using kernel::Code;
using plan::LocalKind;
using tensor::Order;
using tensor::Precision;

// One owner of a Local step: its operands' shards and the step's parameters.
struct Site {
  Lowering& lowering;
  const plan::Local& local;
  TileId tile;
  std::vector<View> in, out;

  const tensor::TensorType& in_type(std::size_t i) const { return lowering.tensor(local.inputs[i]).type; }
  const tensor::TensorType& out_type(std::size_t i) const { return lowering.tensor(local.outputs[i]).type; }
  Order in_order() const { return in_type(0).layout.order.kind; }
  Order out_order() const { return out_type(0).layout.order.kind; }
  void call(Code code, std::initializer_list<Arg> args, std::vector<std::uint32_t> spec = {}) const {
    lowering.call(tile, code, std::move(spec), std::span(args.begin(), args.size()));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::UnsupportedOp,
                fmt::format("{} of {} ({}) to {} ({}): {}", name_of(local.kind),
                            lowering.tensor(local.inputs[0]).name, to_string(in_type(0)),
                            lowering.tensor(local.outputs[0]).name, to_string(out_type(0)), why));
  }
  void require(bool condition, const char* why) const {
    if (!condition) refuse(why);
  }
  bool to_f8() const { return out_type(0).encoding.precision == Precision::F8; }
  // The result is the F8 panels of the first input's rows.
  bool f8_panels() const {
    return in_order() == Order::Row && out_order() == Order::AmpLeft && in[0].cols == in[0].logical_cols &&
           in[0].flat_rows() == out[0].flat_rows() && in[0].cols <= out[0].cols;
  }
};

std::uint32_t scale_word(const tensor::Encoding& e) { return static_cast<std::uint32_t>(e.scale) & 0x3F; }

void cast(const Site& s) {
  const View &in = s.in[0], &out = s.out[0];
  const Precision from = s.in_type(0).encoding.precision, to = s.out_type(0).encoding.precision;
  const bool row_to_row = s.in_order() == Order::Row && s.out_order() == Order::Row;
  if (from == Precision::F16 && to == Precision::F8) {
    const Arg scale = scalar(scale_word(s.out_type(0).encoding));
    if (s.out_order() == Order::AmpLeft && in.flat_rows() == out.flat_rows()) {
      const std::uint32_t rows = in.flat_rows();
      if (s.in_order() == Order::AmpLeft)
        return s.call(Code::RepackF8Left, {at(out.buffer), at(in.buffer), scalar(rows), scalar(in.cols),
                                           scalar(out.cols), scale});
      if (s.in_order() == Order::Row)
        return s.call(Code::PackRowToF8Left, {at(out.buffer), at(in.buffer), scalar(rows), scalar(in.cols),
                                              scalar(in.logical_cols), scalar(out.cols), scale});
    }
    s.require(row_to_row && in.elements() == out.elements(), "no kernel for this pair of orders");
    return s.call(Code::CastF16ToF8, {at(out.buffer), at(in.buffer), scalar(in.elements()), scale});
  }
  s.require(row_to_row && in.elements() == out.elements(), "no kernel for this pair of orders");
  if (from == Precision::F16 && to == Precision::F32)
    return s.call(Code::CastF16ToF32, {at(out.buffer), at(in.buffer), scalar(in.elements())});
  if (from == Precision::F8 && to == Precision::F16)
    return s.call(Code::CastF8ToF16, {at(out.buffer), at(in.buffer), scalar(in.elements()),
                                      scalar(scale_word(s.in_type(0).encoding))});
  s.require(from == Precision::F32 && to == Precision::F16, "no kernel for this pair of precisions");
  s.call(Code::CastF32ToF16, {at(out.buffer), at(in.buffer), scalar(in.elements())});
}

// Reorders of orders that keep matrices apart: one call per outer index.
void reorder_matrices(const Site& s) {
  const View &in = s.in[0], &out = s.out[0];
  s.require(in.outer == out.outer, "outer extents differ");
  for (std::uint32_t o = 0; o < in.outer; ++o) {
    const Arg to = at(out.buffer, 2ULL * o * out.rows * out.cols),
              from = at(in.buffer, 2ULL * o * in.rows * in.cols);
    if (s.in_order() == Order::BlockMajor) {
      s.call(Code::UnpackBlock, {to, from, scalar(std::min(out.rows, in.rows)),
                                 scalar(std::min(out.cols, in.cols)), scalar(out.cols), scalar(in.rows),
                                 scalar(in.cols), scalar(s.in_type(0).layout.order.row_block)});
    } else if (s.out_order() == Order::AmpRight) {
      s.call(Code::PackRowToRight, {to, from, scalar(in.logical_rows), scalar(in.cols),
                                    scalar(in.logical_cols), scalar(out.rows), scalar(out.cols)});
    } else {
      s.call(Code::PackRowToBlock,
             {to, from, scalar(in.logical_rows), scalar(in.cols), scalar(in.logical_cols), scalar(out.rows),
              scalar(out.cols), scalar(s.out_type(0).layout.order.row_block)});
    }
  }
}

void reorder(const Site& s) {
  const View &in = s.in[0], &out = s.out[0];
  s.require(s.in_type(0).encoding.precision == Precision::F16, "only F16 is reordered on a tile");
  if (s.in_order() == Order::Row && s.out_order() == Order::AmpLeft) {
    s.require(in.flat_rows() == out.flat_rows(), "physical rows differ");
    return s.call(Code::PackRowToLeft, {at(out.buffer), at(in.buffer), scalar(in.flat_rows()),
                                        scalar(in.cols), scalar(in.logical_cols), scalar(out.cols)});
  }
  if (s.in_order() == Order::AmpLeft && s.out_order() == Order::Row) {
    s.require(in.flat_rows() == out.flat_rows(), "physical rows differ");
    return s.call(Code::UnpackLeft, {at(out.buffer), at(in.buffer), scalar(in.flat_rows()), scalar(in.cols),
                                     scalar(std::min(in.cols, out.cols)), scalar(out.cols)});
  }
  const auto block16 = [](const tensor::TensorType& t) { return t.layout.order.col_block == 16; };
  const bool packs =
      s.in_order() == Order::Row &&
      (s.out_order() == Order::AmpRight || (s.out_order() == Order::BlockMajor && block16(s.out_type(0))));
  const bool unpacks =
      s.in_order() == Order::BlockMajor && block16(s.in_type(0)) && s.out_order() == Order::Row;
  s.require(packs || unpacks, "no kernel for this pair of orders");
  reorder_matrices(s);
}

void elementwise(const Site& s) {
  const View &x = s.in[0], &out = s.out[0];
  if (s.local.kind == LocalKind::Gelu && s.to_f8()) {
    s.require(s.f8_panels(), "F8 results are panels of whole shards in the Row order");
    return s.call(Code::GeluF8, {at(out.buffer), at(x.buffer), scalar(x.flat_rows()), scalar(x.cols),
                                 scalar(out.cols), scalar(scale_word(s.out_type(0).encoding))});
  }
  s.require(s.in_order() == s.out_order() && x.elements() == out.elements(), "shards differ");
  if (s.local.kind == LocalKind::Gelu)
    return s.call(Code::Gelu, {at(out.buffer), at(x.buffer), scalar(x.elements())});
  const View& b = s.in[1];
  s.require(!b.empty() && x.elements() % b.elements() == 0, "the second operand is no suffix of the first");
  s.require(b.elements() == x.elements() ? s.in_type(1).layout.order.kind == s.in_order()
                                         : s.in_order() == Order::Row,
            "orders of the operands");
  s.call(Code::Add,
         {at(out.buffer), at(x.buffer), at(s.in[1].buffer), scalar(x.elements()), scalar(b.elements())});
}

// BiasGelu and LayerNorm into F8 panels.
void rowwise_f8(const Site& s) {
  const View &x = s.in[0], &out = s.out[0];
  s.require(s.f8_panels(), "F8 results are panels of whole rows in the Row order");
  const Arg rows = scalar(x.flat_rows()), width = scalar(x.cols), columns = scalar(out.cols),
            exponent = scalar(scale_word(s.out_type(0).encoding));
  if (s.local.kind == LocalKind::BiasGelu)
    return s.call(Code::BiasGeluF8,
                  {at(out.buffer), at(x.buffer), at(s.in[1].buffer), rows, width, columns, exponent});
  s.require(s.local.kind == LocalKind::LayerNorm, "no kernel writes F8");
  s.call(
      Code::LayerNormF8,
      {at(out.buffer), at(x.buffer), at(s.in[1].buffer), at(s.in[2].buffer), rows, width, columns, exponent},
      {std::bit_cast<std::uint32_t>(s.local.epsilon)});
}

void rowwise(const Site& s) {
  const View &x = s.in[0], &out = s.out[0];
  const std::uint32_t epsilon = std::bit_cast<std::uint32_t>(s.local.epsilon);
  const Arg rows = scalar(x.flat_rows()), width = scalar(x.cols);
  if (s.to_f8()) return rowwise_f8(s);
  s.require(s.in_order() == Order::Row && s.out_order() == Order::Row, "whole rows in the Row order");
  switch (s.local.kind) {
    case LocalKind::BiasGelu:
      return s.call(Code::BiasGelu, {at(out.buffer), at(x.buffer), at(s.in[1].buffer), rows, width});
    case LocalKind::LayerNorm:
      return s.call(Code::LayerNorm,
                    {at(out.buffer), at(x.buffer), at(s.in[1].buffer), at(s.in[2].buffer), rows, width},
                    {epsilon});
    case LocalKind::AddLayerNorm:
      return s.call(Code::AddLayerNorm,
                    {at(out.buffer), at(x.buffer), at(s.in[1].buffer), at(s.in[2].buffer), at(s.in[3].buffer),
                     rows, width},
                    {epsilon});
    case LocalKind::AddMoments:
      s.require(s.out[1].elements() == 2 * x.flat_rows(), "statistics of every row");
      return s.call(Code::AddMoments,
                    {at(out.buffer), at(x.buffer), at(s.in[1].buffer), at(s.out[1].buffer), rows, width});
    case LocalKind::Moments:
      return s.call(Code::Moments, {at(out.buffer), at(x.buffer), rows, width});
    default:
      break;
  }
  const View& statistics = s.in[1];  // [P, rows.., 2]
  s.require(statistics.elements() == 2 * statistics.first * x.flat_rows(),
            "statistics of the rows of every part");
  s.call(Code::Apply,
         {at(out.buffer), at(x.buffer), at(statistics.buffer), at(s.in[2].buffer), at(s.in[3].buffer), rows,
          width, scalar(statistics.first)},
         {epsilon});
}

void softmax(const Site& s) {
  const View &scores = s.in[0], &state = s.out[1];
  const std::uint32_t rows = scores.flat_rows();
  s.require(s.out[0].elements() == scores.elements() && state.elements() == 2 * rows,
            "shards of weights and state");
  const Arg scratch =
      s.local.split ? at(s.lowering.add_scratch(s.local.outputs[0], s.tile, rows * 3 * 2 * 4)) : scalar(0);
  s.call(Code::Softmax,
         {at(s.out[0].buffer), at(scores.buffer), at(state.buffer), scalar(rows), scalar(scores.logical_cols),
          scalar(scores.cols), scalar(s.local.split ? 1 : 0), scratch},
         {numeric::f32_to_f16(s.local.scale)});
}

void merge(const Site& s) {
  const View& pv = s.in[0];
  const bool initial = s.local.initial;
  s.require(initial || s.in.size() >= 3, "a later block needs the accumulator");
  s.require(s.in[1].elements() == 2 * pv.flat_rows(), "state of every row");
  s.call(Code::Merge,
         {at(s.out[0].buffer), at(pv.buffer), at(s.in[1].buffer), initial ? scalar(0) : at(s.in[2].buffer),
          scalar(pv.flat_rows()), scalar(pv.logical_cols), scalar(pv.cols)},
         {(initial ? 1U : 0U) | (s.local.final ? 2U : 0U)});
}

// Parts side by side along axis 1 of [outer, n, inner].
void join(const Site& s) {
  std::uint32_t at_word = 0;
  for (const View& part : s.in) {
    const std::uint32_t words = part.rows * part.cols, row = s.out[0].rows * s.out[0].cols;
    s.call(Code::CopyStrided32, {at(s.out[0].buffer, 4ULL * at_word), at(part.buffer), scalar(words),
                                 scalar(part.outer), scalar(4 * words), scalar(4 * row)});
    at_word += words;
  }
}

// General operations (docs/numerics.md).
void general(const Site& s) {
  const View &x = s.in[0], &out = s.out[0];
  const Arg to = at(out.buffer), from = at(x.buffer), rows = scalar(x.flat_rows()), width = scalar(x.cols);
  switch (s.local.kind) {
    case LocalKind::Unary: {
      const bool single = s.in_type(0).encoding.precision == Precision::F32;
      return s.call(Code::Unary, {to, from, scalar(x.elements())}, {s.local.function, single ? 1U : 0U});
    }
    case LocalKind::Binary:
      return s.call(Code::Binary,
                    {to, from, at(s.in[1].buffer), scalar(x.elements()), scalar(s.in[1].elements())},
                    {s.local.function, s.local.swapped ? 1U : 0U});
    case LocalKind::Reduce:
      return s.call(Code::Reduce, {to, from, rows, width}, {s.local.function});
    case LocalKind::SoftmaxRows:
      return s.call(Code::SoftmaxRows, {to, from, rows, width});
    case LocalKind::NormRows:
      return s.call(Code::NormRows, {to, from, at(s.in[1].buffer), at(s.in[2].buffer), rows, width},
                    {std::bit_cast<std::uint32_t>(s.local.epsilon)});
    case LocalKind::Rope: {
      const std::uint32_t table_rows = s.in[1].flat_rows();
      return s.call(Code::Rope,
                    {to, from, at(s.in[1].buffer), at(s.in[2].buffer), scalar(x.flat_rows() / table_rows),
                     scalar(table_rows), width},
                    {s.local.interleaved ? 1U : 0U});
    }
    default:
      return join(s);
  }
}

void bind(const Site& s) {
  switch (s.local.kind) {
    case LocalKind::Cast:
      return cast(s);
    case LocalKind::Reorder:
      return reorder(s);
    case LocalKind::Add:
    case LocalKind::Gelu:
      return elementwise(s);
    case LocalKind::BiasGelu:
    case LocalKind::LayerNorm:
    case LocalKind::AddLayerNorm:
    case LocalKind::AddMoments:
    case LocalKind::Moments:
    case LocalKind::Apply:
      return rowwise(s);
    case LocalKind::Softmax:
      return softmax(s);
    case LocalKind::Merge:
      return merge(s);
    default:
      return general(s);
  }
}

}  // namespace

void lower_local(Lowering& lowering, const plan::Local& local) {
  const TensorId lead = local.outputs.front();
  for (std::uint32_t owner = 0; owner < lowering.layout(lead).owners(); ++owner) {
    if (!lowering.buffer(lead, owner).valid()) continue;
    Site site{lowering, local, lowering.tile_of(lead, owner), {}, {}};
    for (const TensorId id : local.inputs)
      site.in.push_back(lowering.view(id, lowering.owner_on(id, site.tile, owner)));
    for (const TensorId id : local.outputs)
      site.out.push_back(lowering.view(id, lowering.owner_on(id, site.tile, owner)));
    bind(site);
  }
}

}  // namespace tw::tile
