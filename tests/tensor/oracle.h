// Slow per-element reading of compiler.md 2.2 and 2.3, written from the text and sharing no code with
// tensor/.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tensor/layout.h"

namespace tw::tensor::oracle {

using Coordinate = std::vector<std::uint32_t>;

struct Shard {
  Coordinate start, logical_end, physical_end;
};

inline Shard shard(const TensorType& type, std::uint32_t t) {
  Shard s;
  for (const std::uint32_t e : type.shape) {
    s.start.push_back(0);
    s.logical_end.push_back(e);
    s.physical_end.push_back(e);
  }
  std::uint32_t running = type.layout.tiling.replicas;
  for (const AxisTiling& a : type.layout.tiling.axes) {
    const std::uint32_t stride = a.stride ? a.stride : running;
    running *= a.parts;
    const std::uint32_t c = (t / stride) % a.parts, E = type.shape[a.axis], inside = E / a.groups;
    const std::uint32_t pm = a.pad_multiple ? a.pad_multiple : a.block;
    std::uint32_t padded = inside;
    while (padded % pm != 0) ++padded;
    const std::uint32_t ppg = a.parts / a.groups, g = c / ppg, i = c % ppg, n = padded / a.block;
    const std::uint32_t share = n / ppg, l = n % ppg;
    const std::uint32_t first = (i * share + (i < l ? i : l)) * a.block,
                        len = (share + (i < l ? 1 : 0)) * a.block;
    std::uint32_t width = len;
    while (width % a.shard_multiple != 0) ++width;
    s.start[a.axis] = g * inside + first;
    const std::uint32_t end = g * inside + (first + len < inside ? first + len : inside);
    s.logical_end[a.axis] = end > s.start[a.axis] ? end : s.start[a.axis];
    s.physical_end[a.axis] = s.start[a.axis] + width;
  }
  return s;
}

// Linear ownership: owner of every flat element by dealing out grains one owner after the other.
inline std::pair<std::uint64_t, std::uint64_t> flat(const TensorType& type, std::uint32_t t) {
  const std::uint64_t grain = type.layout.tiling.linear_grain, grains = elements(type.shape) / grain;
  std::uint64_t at = 0;
  for (std::uint32_t i = 0;; ++i) {
    const std::uint64_t n =
        grains / type.layout.tiling.tile_count + (i < grains % type.layout.tiling.tile_count ? 1 : 0);
    if (i == t) return {at * grain, (at + n) * grain};
    at += n;
  }
}

inline std::uint64_t index(const TensorType& type, const Shard& s, const Coordinate& coord) {
  const std::size_t rank = type.shape.size();
  std::uint64_t O = 1, o = 0;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    O *= s.physical_end[i] - s.start[i];
    o = o * (s.physical_end[i] - s.start[i]) + coord[i] - s.start[i];
  }
  std::uint64_t R = rank > 1 ? s.physical_end[rank - 2] - s.start[rank - 2] : 1;
  std::uint64_t C = s.physical_end[rank - 1] - s.start[rank - 1];
  std::uint64_t r = rank > 1 ? coord[rank - 2] - s.start[rank - 2] : 0,
                c = coord[rank - 1] - s.start[rank - 1];
  const std::uint64_t mu = type.encoding.precision == Precision::F8    ? 32
                           : type.encoding.precision == Precision::F16 ? 16
                                                                       : 8;
  const std::uint64_t rb = type.layout.order.row_block, cb = type.layout.order.col_block;
  static const int drain[16] = {0, 1, 8,  9,  2, 3, 10, 11,
                                4, 5, 12, 13, 6, 7, 14, 15};  // storage sequence of columns
  const auto p = [](std::uint64_t k) {
    for (std::uint64_t i = 0; i < 16; ++i)
      if (drain[i] == static_cast<int>(k)) return i;
    return std::uint64_t{99};
  };
  switch (type.layout.order.kind) {
    case Order::Row:
      return o * R * C + r * C + c;
    case Order::AmpLeft:
      return ((c / mu) * (O * R) + o * R + r) * mu + c % mu;
    case Order::AmpLeftT:
      return o * R * C + ((r / mu) * C + c) * mu + r % mu;
    case Order::AmpRight:
      return o * R * C + ((r / 16) * (C / mu) + c / mu) * 16 * mu + (r % 16) * mu + c % mu;
    case Order::BlockMajorT:
      std::swap(R, C);
      std::swap(r, c);
      [[fallthrough]];
    case Order::BlockMajor:
      return o * R * C + (((r / rb) * (C / cb) + c / cb) * (rb / mu) + (r % rb) / mu) * mu * cb +
             (c % cb) * mu + r % mu;
    case Order::AccOut:
      return ((c / 16) * (O * R) + o * R + r) * 16 + p(c % 16);
    case Order::AccOutT:
      return o * R * C + ((r / 16) * C + c) * 16 + p(r % 16);
  }
  return 0;
}

// Byte of each logical element of owner t, by coordinate.
inline std::map<Coordinate, std::uint64_t> bytes_of_elements(const TensorType& type, std::uint32_t t) {
  std::map<Coordinate, std::uint64_t> result;
  const std::uint32_t eb = bytes_of(type.encoding.precision);
  const std::uint64_t n = elements(type.shape);
  const bool linear = type.layout.tiling.linear_grain != 0;
  const Shard s = linear ? Shard{} : shard(type, t);
  for (std::uint64_t i = 0; i < n; ++i) {
    Coordinate coord(type.shape.size());
    std::uint64_t rest = i;
    for (std::size_t axis = coord.size(); axis-- > 0;) {
      coord[axis] = static_cast<std::uint32_t>(rest % type.shape[axis]);
      rest /= type.shape[axis];
    }
    if (linear) {
      const auto [begin, end] = flat(type, t);
      if (i >= begin && i < end) result[coord] = (i - begin) * eb;
      continue;
    }
    bool inside = true;
    for (std::size_t axis = 0; axis < coord.size(); ++axis)
      inside = inside && coord[axis] >= s.start[axis] && coord[axis] < s.logical_end[axis];
    if (inside) result[coord] = index(type, s, coord) * eb;
  }
  return result;
}

// A random type of a given shape and precision that obeys the rules; `word_safe` keeps shards free of odd
// tails.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}
  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }
  Shape shape(std::uint32_t max_rank = 3) {
    Shape s(pick(1, max_rank));
    for (std::size_t i = 0; i < s.size(); ++i) s[i] = i + 2 < s.size() ? pick(1, 3) : pick(1, 44);
    return s;
  }
  TensorType type(const Shape& shape, Precision precision, std::optional<Order> wanted = {}) {
    TensorType t{shape, {precision, 0}, {}};
    const std::uint32_t mu = mu_of(precision);
    std::vector<Order> orders = {Order::Row, Order::AmpLeft};
    if (shape.size() > 1)
      orders.insert(orders.end(), {Order::AmpLeftT, Order::AmpRight, Order::BlockMajor, Order::BlockMajorT});
    if (precision == Precision::F32) orders.push_back(Order::AccOut);
    const Order order = wanted ? *wanted : orders[pick(0, static_cast<std::uint32_t>(orders.size()) - 1)];
    t.layout.order.kind = order;
    if (order == Order::BlockMajor || order == Order::BlockMajorT)
      t.layout.order = {order, mu * pick(1, 2), pick(0, 1) ? 16U : 8U};
    if (order == Order::Row && pick(0, 5) == 0) {
      linear(t);
      return t;
    }
    std::uint32_t rows = 1, cols = 1;
    switch (order) {
      case Order::AmpLeft:
        cols = mu;
        break;
      case Order::AmpLeftT:
        rows = mu;
        break;
      case Order::AmpRight:
        rows = 16, cols = mu;
        break;
      case Order::BlockMajor:
        rows = t.layout.order.row_block, cols = t.layout.order.col_block;
        break;
      case Order::BlockMajorT:
        rows = t.layout.order.col_block, cols = t.layout.order.row_block;
        break;
      case Order::AccOut:
        cols = 16;
        break;
      default:
        break;
    }
    axes(t, rows, cols);
    return t;
  }

 private:
  void linear(TensorType& t) {
    const std::uint64_t n = elements(t.shape);
    std::uint32_t grain = pick(1, 8);
    while (n % grain != 0) --grain;
    t.layout.tiling.linear_grain = grain;
    t.layout.tiling.tile_count = pick(1, static_cast<std::uint32_t>(std::min<std::uint64_t>(n / grain, 6)));
  }
  void axes(TensorType& t, std::uint32_t rows, std::uint32_t cols) {
    const std::size_t rank = t.shape.size();
    Tiling& tiling = t.layout.tiling;
    tiling.replicas = pick(1, 3);
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < rank; ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::uint32_t axis : order) {
      const std::uint32_t multiple = axis + 1 == rank ? cols : axis + 2 == rank ? rows : 1;
      if (multiple == 1 && pick(0, 2) == 0) continue;
      AxisTiling a{.axis = axis};
      a.padding = Padding::Zero;
      if (multiple == 1) {
        a.block = pick(1, 3);
        a.shard_multiple = pick(1, 2);
      } else if (pick(0, 1)) {
        a.block = multiple * pick(1, 2);
      } else {
        a.shard_multiple = multiple;
      }
      if (pick(0, 3) == 0) a.pad_multiple = a.block * pick(1, 2);
      for (const std::uint32_t g : {4U, 3U, 2U})
        if (t.shape[axis] % g == 0 && pick(0, 2) == 0) a.groups = g;
      a.parts = a.groups * pick(1, 3);
      tiling.axes.push_back(a);
    }
    tiling.tile_count = tiling.replicas;
    for (const AxisTiling& a : tiling.axes) tiling.tile_count *= a.parts;
    if (pick(0, 1) &&
        !tiling.axes.empty()) {  // explicit strides: a mixed radix in another order, replicas outermost
      std::uint32_t running = 1;
      for (std::size_t i = tiling.axes.size(); i-- > 0;) {
        tiling.axes[i].stride = running;
        running *= tiling.axes[i].parts;
      }
    }
  }
  std::mt19937_64 random_;
};

}  // namespace tw::tensor::oracle
