#include "tensor/layout.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "tensor/order.h"

namespace tw::tensor {
namespace {

constexpr std::uint32_t kNoRecord = UINT32_MAX;

[[noreturn]] void refuse(const TensorType& type, const std::string& why) {
  throw Error(ErrorKind::Shape, fmt::format("layout of {}: {}", to_string(type), why));
}

const char* name_of(Order order) {
  switch (order) {
    case Order::Row:
      return "Row";
    case Order::AmpLeft:
      return "AL";
    case Order::AmpLeftT:
      return "ALT";
    case Order::AmpRight:
      return "AR";
    case Order::BlockMajor:
      return "BM";
    case Order::BlockMajorT:
      return "BMT";
    case Order::AccOut:
      return "AO";
    case Order::AccOutT:
      return "AOT";
  }
  return "?";
}

// The partitions of one axis record (compiler.md 2.2, "Shard bounds").
std::vector<AxisSpan> partition(const TensorType& type, const AxisTiling& a) {
  const std::uint32_t extent = type.shape[a.axis];
  const bool zero = a.padding == Padding::Zero;
  const std::uint32_t multiple = a.pad_multiple == 0 ? a.block : a.pad_multiple;
  if (a.parts == 0 || a.groups == 0 || a.block == 0 || a.shard_multiple == 0)
    refuse(type, "zero in an axis record");
  if (a.parts % a.groups != 0)
    refuse(type, fmt::format("axis {}: groups do not divide the partitions", a.axis));
  if (extent % a.groups != 0) refuse(type, fmt::format("axis {}: groups do not divide the extent", a.axis));
  const std::uint32_t group = extent / a.groups;
  if (!zero && group % multiple != 0)
    refuse(type, fmt::format("axis {}: {} is no multiple of {}", a.axis, group, multiple));
  const std::uint32_t padded = up(group, multiple);
  if (padded % a.block != 0)
    refuse(type,
           fmt::format("axis {}: padded extent {} is no multiple of block {}", a.axis, padded, a.block));
  const std::uint32_t per_group = a.parts / a.groups, blocks = padded / a.block;
  const std::uint32_t share = blocks / per_group, rest = blocks % per_group;
  std::vector<AxisSpan> spans(a.parts);
  for (std::uint32_t c = 0; c < a.parts; ++c) {
    const std::uint32_t g = c / per_group, i = c % per_group;
    const std::uint32_t first = (i * share + std::min(i, rest)) * a.block;
    const std::uint32_t length = (share + (i < rest ? 1 : 0)) * a.block;
    if (!zero && length % a.shard_multiple != 0)
      refuse(type,
             fmt::format("axis {}: shard of {} is no multiple of {}", a.axis, length, a.shard_multiple));
    AxisSpan& s = spans[c];
    s.start = g * group + first;
    s.logical_end = std::max(s.start, g * group + std::min(first + length, group));
    s.physical_end = s.start + up(length, a.shard_multiple);
  }
  return spans;
}

}  // namespace

std::uint64_t elements(const Shape& shape) {
  std::uint64_t n = 1;
  for (const std::uint32_t e : shape) n *= e;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", shape[i]);
  return text + "]";
}

const char* name_of(Precision p) { return p == Precision::F8 ? "F8" : p == Precision::F16 ? "F16" : "F32"; }

std::string to_string(const TensorType& type) {
  std::string text = fmt::format("{} {}", to_string(type.shape), name_of(type.encoding.precision));
  if (type.encoding.precision == Precision::F8) text += fmt::format("{{{}}}", type.encoding.scale);
  const ElementOrder& order = type.layout.order;
  text += fmt::format(" {}", name_of(order.kind));
  if (order.row_block != 0) text += fmt::format("({},{})", order.row_block, order.col_block);
  text += type.layout.memory == MemoryClass::Interleaved ? " Int" : " Std";
  const Tiling& tiling = type.layout.tiling;
  text += fmt::format(" tiles={}", tiling.tile_count);
  if (tiling.replicas != 1) text += fmt::format(" replicas={}", tiling.replicas);
  if (tiling.linear_grain != 0) text += fmt::format(" linear={}", tiling.linear_grain);
  for (const AxisTiling& a : tiling.axes) {
    text += fmt::format(" {}:P{}", a.axis, a.parts);
    if (a.groups != 1) text += fmt::format(",G{}", a.groups);
    text += fmt::format(",b{}", a.block);
    if (a.pad_multiple != 0) text += fmt::format(",pm{}", a.pad_multiple);
    if (a.shard_multiple != 1) text += fmt::format(",sp{}", a.shard_multiple);
    if (a.padding == Padding::Zero) text += ",Z";
    if (a.stride != 0) text += fmt::format(",s{}", a.stride);
  }
  return text;
}

PanelFamily family_of(Order order) {
  switch (order) {
    case Order::AmpLeft:
    case Order::AmpRight:
    case Order::BlockMajorT:
      return PanelFamily::RowsThenColumns;
    case Order::AmpLeftT:
    case Order::BlockMajor:
      return PanelFamily::ColumnsThenRows;
    default:
      return PanelFamily::None;
  }
}

ResolvedLayout::ResolvedLayout(const TensorType& type) : type_(type) {
  const Tiling& tiling = type_.layout.tiling;
  if (tiling.tile_count == 0 || tiling.replicas == 0) refuse(type_, "no owners");
  if (type_.shape.empty() || type_.shape.size() > kMaxRank) refuse(type_, "rank out of range");
  if (elements(type_.shape) == 0 || elements(type_.shape) > UINT32_MAX)
    refuse(type_, "element count out of range");
  axis_record_.assign(type_.shape.size(), kNoRecord);
  if (linear()) {
    if (!tiling.axes.empty() || tiling.replicas != 1)
      refuse(type_, "linear ownership has neither axes nor replicas");
    if (type_.layout.order.kind != Order::Row) refuse(type_, "linear ownership needs the Row order");
    if (elements(type_.shape) % tiling.linear_grain != 0)
      refuse(type_, "elements are no multiple of the grain");
    if (elements(type_.shape) / tiling.linear_grain < tiling.tile_count)
      refuse(type_, "more owners than grains");
    return;
  }
  std::uint64_t running = tiling.replicas;
  for (std::size_t i = 0; i < tiling.axes.size(); ++i) {
    const AxisTiling& a = tiling.axes[i];
    if (a.axis >= type_.shape.size()) refuse(type_, "axis out of range");
    if (axis_record_[a.axis] != kNoRecord) refuse(type_, fmt::format("axis {} is tiled twice", a.axis));
    axis_record_[a.axis] = static_cast<std::uint32_t>(i);
    spans_.push_back(partition(type_, a));
    strides_.push_back(a.stride != 0 ? a.stride : static_cast<std::uint32_t>(running));
    running *= a.parts;
    if (running > UINT32_MAX) refuse(type_, "owner count out of range");
    std::vector<std::uint32_t> part(type_.shape[a.axis]);
    for (std::uint32_t c = 0; c < a.parts; ++c)
      for (std::uint32_t e = spans_[i][c].start; e < spans_[i][c].logical_end; ++e) part[e] = c;
    part_of_.push_back(std::move(part));
  }
  if (running != tiling.tile_count) refuse(type_, "replicas times partitions is not the tile count");
  check_owners();
  check_order();
}

// Every combination of coordinates occurs exactly `replicas` times; remembers who they are.
void ResolvedLayout::check_owners() {
  const Tiling& tiling = type_.layout.tiling;
  const std::uint32_t combinations = tiling.tile_count / tiling.replicas;
  std::vector<std::uint32_t> seen(combinations, 0);
  owners_of_.assign(tiling.tile_count, 0);
  for (std::uint32_t t = 0; t < tiling.tile_count; ++t) {
    const std::uint32_t k = combination(t);
    if (seen[k] == tiling.replicas)
      refuse(type_, "owner strides do not give every coordinate `replicas` times");
    owners_of_[k * tiling.replicas + seen[k]++] = t;
  }
}

// Order constraints of compiler.md 2.3 on the physical extents of every partition of the last two axes.
void ResolvedLayout::check_order() const {
  const std::size_t rank = type_.shape.size();
  const ElementOrder& order = type_.layout.order;
  const std::uint32_t mu = mu_of(type_.encoding.precision);
  std::uint32_t row_multiple = 1, col_multiple = 1;
  switch (order.kind) {
    case Order::Row:
      return;
    case Order::AmpLeft:
      col_multiple = mu;
      break;
    case Order::AmpLeftT:
      row_multiple = mu;
      break;
    case Order::AmpRight:
      row_multiple = 16, col_multiple = mu;
      break;
    case Order::BlockMajor:
      row_multiple = order.row_block, col_multiple = order.col_block;
      break;
    case Order::BlockMajorT:
      row_multiple = order.col_block, col_multiple = order.row_block;
      break;
    case Order::AccOut:
      col_multiple = 16;
      break;
    case Order::AccOutT:
      row_multiple = 16;
      break;
  }
  if (order.kind == Order::BlockMajor || order.kind == Order::BlockMajorT) {
    if (order.row_block == 0 || order.col_block == 0 || order.row_block % mu != 0)
      refuse(type_, "block sizes");
  }
  if (rank < 2 && row_multiple != 1) refuse(type_, "the order needs rows");
  const auto check = [&](std::size_t axis, std::uint32_t multiple) {
    if (multiple == 1) return;
    if (axis_record_[axis] == kNoRecord) {
      if (type_.shape[axis] % multiple != 0)
        refuse(type_, fmt::format("axis {} is no multiple of {}", axis, multiple));
      return;
    }
    for (const AxisSpan& s : spans_[axis_record_[axis]])
      if (s.physical() % multiple != 0)
        refuse(type_,
               fmt::format("axis {}: shard extent {} is no multiple of {}", axis, s.physical(), multiple));
  };
  if (rank >= 2) check(rank - 2, row_multiple);
  check(rank - 1, col_multiple);
}

std::uint32_t ResolvedLayout::coordinate(std::uint32_t t, std::size_t record) const {
  return t / strides_[record] % type_.layout.tiling.axes[record].parts;
}

AxisSpan ResolvedLayout::span_of(std::size_t record, std::uint32_t c) const { return spans_[record][c]; }

std::uint32_t ResolvedLayout::combination(std::uint32_t t) const {
  std::uint32_t k = 0;
  for (std::size_t i = 0; i < spans_.size(); ++i)
    k = k * type_.layout.tiling.axes[i].parts + coordinate(t, i);
  return k;
}

std::vector<AxisSpan> ResolvedLayout::bounds(std::uint32_t t) const {
  TW_CHECK(t < owners() && !linear(), "bounds of an owner of a rectangular layout");
  std::vector<AxisSpan> result(type_.shape.size());
  for (std::size_t axis = 0; axis < result.size(); ++axis) {
    const std::uint32_t record = axis_record_[axis];
    result[axis] = record == kNoRecord ? AxisSpan{0, type_.shape[axis], type_.shape[axis]}
                                       : span_of(record, coordinate(t, record));
  }
  return result;
}

ResolvedLayout::FlatRange ResolvedLayout::flat_range(std::uint32_t t) const {
  TW_CHECK(t < owners() && linear(), "flat range of an owner of a linear layout");
  const std::uint64_t grain = type_.layout.tiling.linear_grain;
  const std::uint64_t grains = elements(type_.shape) / grain, share = grains / owners(),
                      rest = grains % owners();
  const auto begin_of = [&](std::uint64_t i) { return (i * share + std::min(i, rest)) * grain; };
  return {begin_of(t), begin_of(t + 1ULL)};
}

std::uint64_t ResolvedLayout::shard_elements(std::uint32_t t) const {
  if (linear()) {
    const FlatRange range = flat_range(t);
    return range.end - range.begin;
  }
  std::uint64_t n = 1;
  for (const AxisSpan& s : bounds(t)) n *= s.physical();
  return n;
}

std::uint64_t ResolvedLayout::max_shard_bytes() const {
  const std::uint32_t eb = bytes_of(type_.encoding.precision);
  if (linear()) return shard_elements(0) * eb;  // the first owners have the extra grain
  std::uint64_t n = eb;
  for (std::size_t axis = 0; axis < type_.shape.size(); ++axis) {
    std::uint32_t widest = type_.shape[axis];
    if (axis_record_[axis] != kNoRecord) {
      widest = 0;
      for (const AxisSpan& s : spans_[axis_record_[axis]]) widest = std::max(widest, s.physical());
    }
    n *= widest;
  }
  return n;
}

std::uint32_t ResolvedLayout::owner_of(std::span<const std::uint32_t> coord) const {
  if (linear()) {
    std::uint64_t flat = 0;
    for (std::size_t axis = 0; axis < coord.size(); ++axis) flat = flat * type_.shape[axis] + coord[axis];
    const std::uint64_t grain = type_.layout.tiling.linear_grain, at = flat / grain;
    const std::uint64_t grains = elements(type_.shape) / grain, share = grains / owners(),
                        rest = grains % owners();
    const std::uint64_t wide = rest * (share + 1);
    return static_cast<std::uint32_t>(at < wide ? at / (share + 1) : rest + (at - wide) / share);
  }
  std::uint32_t k = 0;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const AxisTiling& a = type_.layout.tiling.axes[i];
    k = k * a.parts + part_of_[i][coord[a.axis]];
  }
  return owners_of_[k * type_.layout.tiling.replicas];
}

std::uint32_t ResolvedLayout::replica(std::uint32_t first_owner, std::uint32_t r) const {
  if (linear()) return first_owner;
  return owners_of_[combination(first_owner) * type_.layout.tiling.replicas + r];
}

std::uint32_t ResolvedLayout::canonical_owner(std::uint32_t t) const {
  if (linear()) return t;
  return owners_of_[combination(t) * type_.layout.tiling.replicas];
}

std::uint64_t ResolvedLayout::index_in_shard(std::uint32_t t, std::span<const std::uint32_t> coord) const {
  const Box box = box_of(*this, t);
  return box.index(coord);
}

}  // namespace tw::tensor
