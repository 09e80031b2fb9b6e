#include "tensor/order.h"

namespace tw::tensor {

bool packs_rows(Order order) {
  return order == Order::AmpLeftT || order == Order::BlockMajor || order == Order::AccOutT;
}

Box box_of(const ResolvedLayout& layout, std::uint32_t owner) {
  const TensorType& type = layout.type();
  Box box;
  box.order = type.layout.order;
  box.rank = static_cast<std::uint32_t>(type.shape.size());
  box.mu = mu_of(type.encoding.precision);
  for (std::uint32_t axis = 0; axis < box.rank; ++axis) box.shape[axis] = type.shape[axis];
  if (layout.linear()) {
    const ResolvedLayout::FlatRange range = layout.flat_range(owner);
    box.linear = true;
    box.flat_begin = range.begin;
    box.flat_end = range.end;
    return box;
  }
  const std::vector<AxisSpan> spans = layout.bounds(owner);
  for (std::uint32_t axis = 0; axis < box.rank; ++axis) {
    box.start[axis] = spans[axis].start;
    box.logical[axis] = spans[axis].logical();
    box.physical[axis] = spans[axis].physical();
    if (axis + 2 < box.rank) box.outer *= box.physical[axis];
  }
  box.cols = box.physical[box.rank - 1];
  if (box.rank >= 2) box.rows = box.physical[box.rank - 2];
  return box;
}

std::uint32_t Box::direction() const { return packs_rows(order.kind) ? rank - 2 : rank - 1; }

std::uint32_t granule_elements(const Box& box) {
  switch (box.order.kind) {
    case Order::Row:
      return box.cols;
    case Order::AccOut:
    case Order::AccOutT:
      return 2;
    default:
      return box.mu;
  }
}

std::uint32_t Box::contiguous_from(std::span<const std::uint32_t> coord) const {
  if (linear) {
    const std::uint64_t left = flat_end - flat_begin - index(coord);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(left, shape[rank - 1] - coord[rank - 1]));
  }
  const std::uint32_t axis = direction(), local = coord[axis] - start[axis];
  switch (order.kind) {
    case Order::Row:
      return cols - local;
    case Order::AccOut:
    case Order::AccOutT:
      return 2 - local % 2;
    default:
      return mu - local % mu;
  }
}

std::uint64_t Box::index(std::span<const std::uint32_t> coord) const {
  if (linear) {
    std::uint64_t flat = 0;
    for (std::uint32_t axis = 0; axis < rank; ++axis) flat = flat * shape[axis] + coord[axis];
    return flat - flat_begin;
  }
  std::uint64_t o = 0;
  for (std::uint32_t axis = 0; axis + 2 < rank; ++axis) o = o * physical[axis] + (coord[axis] - start[axis]);
  const std::uint64_t r = rank < 2 ? 0 : coord[rank - 2] - start[rank - 2],
                      c = coord[rank - 1] - start[rank - 1];
  const std::uint64_t R = rows, C = cols, rb = order.row_block, cb = order.col_block, matrix = o * R * C;
  switch (order.kind) {
    case Order::Row:
      return matrix + r * C + c;
    case Order::AmpLeft:
      return (c / mu * (outer * R) + o * R + r) * mu + c % mu;
    case Order::AmpLeftT:
      return matrix + (r / mu * C + c) * mu + r % mu;
    case Order::AmpRight:
      return matrix + (r / 16 * (C / mu) + c / mu) * 16 * mu + r % 16 * mu + c % mu;
    case Order::BlockMajor:
      return matrix + ((r / rb * (C / cb) + c / cb) * (rb / mu) + r % rb / mu) * mu * cb + c % cb * mu +
             r % mu;
    case Order::BlockMajorT:
      return matrix + ((c / rb * (R / cb) + r / cb) * (rb / mu) + c % rb / mu) * mu * cb + r % cb * mu +
             c % mu;
    case Order::AccOut:
      return (c / 16 * (outer * R) + o * R + r) * 16 + drain_position(static_cast<std::uint32_t>(c % 16));
    case Order::AccOutT:
      return matrix + (r / 16 * C + c) * 16 + drain_position(static_cast<std::uint32_t>(r % 16));
  }
  return 0;
}

}  // namespace tw::tensor
