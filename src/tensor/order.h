// Element orders as arithmetic (compiler.md 2.3): index of a coordinate inside a shard, and the walk over a
// shard's granules in storage order. A granule is a maximal piece that is contiguous in storage and runs
// along one axis: a row of Row, 32 bytes of a packed order, two elements of AccOut. Internal to tensor/.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "tensor/layout.h"

namespace tw::tensor {

inline constexpr std::size_t kMaxRank = 8;
using Coord = std::array<std::uint32_t, kMaxRank>;

// One shard: where it starts, its extents, its order. Linear ownership: flat range [flat_begin, flat_end).
struct Box {
  ElementOrder order;
  std::uint32_t rank = 0, mu = 1;
  Coord start{}, logical{}, physical{};  // logical, physical: extents from start
  std::uint64_t outer = 1;               // O of compiler.md 2.3
  std::uint32_t rows = 1, cols = 1;      // R, C
  bool linear = false;
  std::uint64_t flat_begin = 0, flat_end = 0;
  Coord shape{};

  std::uint64_t index(std::span<const std::uint32_t> coord) const;
  // Elements that follow in storage along direction() from `coord` on, itself included; physical extents
  // bound it.
  std::uint32_t contiguous_from(std::span<const std::uint32_t> coord) const;
  std::uint32_t direction() const;  // axis along which granules run
};
Box box_of(const ResolvedLayout& layout, std::uint32_t owner);

// Position of column k in the accumulator drain: storage sequence 0,1,8,9,2,3,10,11,...
constexpr std::uint32_t drain_position(std::uint32_t k) { return 4 * (k / 2 % 4) + 2 * (k / 8) + k % 2; }
constexpr std::uint32_t drain_pair_column(std::uint32_t pair) { return pair % 2 * 8 + pair / 2 * 2; }

bool packs_rows(Order order);  // granules run along the rows axis

namespace detail {

// Calls fn(outer index, row, column) for every granule of one (o, R, C) block set in storage order.
template <class Fn>
void walk_matrix(const Box& b, Fn&& fn) {
  const std::uint64_t O = b.outer;
  const std::uint32_t R = b.rows, C = b.cols, mu = b.mu, rb = b.order.row_block, cb = b.order.col_block;
  switch (b.order.kind) {
    case Order::Row:
      for (std::uint64_t o = 0; o < O; ++o)
        for (std::uint32_t r = 0; r < R; ++r) fn(o, r, 0U);
      break;
    case Order::AmpLeft:
      for (std::uint32_t c = 0; c < C; c += mu)
        for (std::uint64_t o = 0; o < O; ++o)
          for (std::uint32_t r = 0; r < R; ++r) fn(o, r, c);
      break;
    case Order::AmpLeftT:
      for (std::uint64_t o = 0; o < O; ++o)
        for (std::uint32_t r = 0; r < R; r += mu)
          for (std::uint32_t c = 0; c < C; ++c) fn(o, r, c);
      break;
    case Order::AmpRight:
      for (std::uint64_t o = 0; o < O; ++o)
        for (std::uint32_t r = 0; r < R; r += 16)
          for (std::uint32_t c = 0; c < C; c += mu)
            for (std::uint32_t i = 0; i < 16; ++i) fn(o, r + i, c);
      break;
    case Order::BlockMajor:
      for (std::uint64_t o = 0; o < O; ++o)
        for (std::uint32_t r = 0; r < R; r += rb)
          for (std::uint32_t c = 0; c < C; c += cb)
            for (std::uint32_t i = 0; i < rb; i += mu)
              for (std::uint32_t j = 0; j < cb; ++j) fn(o, r + i, c + j);
      break;
    case Order::BlockMajorT:
      for (std::uint64_t o = 0; o < O; ++o)
        for (std::uint32_t c = 0; c < C; c += rb)
          for (std::uint32_t r = 0; r < R; r += cb)
            for (std::uint32_t i = 0; i < rb; i += mu)
              for (std::uint32_t j = 0; j < cb; ++j) fn(o, r + j, c + i);
      break;
    case Order::AccOut:
      for (std::uint32_t c = 0; c < C; c += 16)
        for (std::uint64_t o = 0; o < O; ++o)
          for (std::uint32_t r = 0; r < R; ++r)
            for (std::uint32_t p = 0; p < 8; ++p) fn(o, r, c + drain_pair_column(p));
      break;
    case Order::AccOutT:
      for (std::uint64_t o = 0; o < O; ++o)
        for (std::uint32_t r = 0; r < R; r += 16)
          for (std::uint32_t c = 0; c < C; ++c)
            for (std::uint32_t p = 0; p < 8; ++p) fn(o, r + drain_pair_column(p), c);
      break;
  }
}

}  // namespace detail

// Length in elements of a granule of a rectangular shard.
std::uint32_t granule_elements(const Box& box);

// Calls fn(storage index, coordinate of the first element, logical elements) for each granule in storage
// order. Logical elements: 0 for a granule that is padding altogether. Linear ownership: one granule per
// touched row.
template <class Fn>
void for_each_granule(const Box& box, Fn&& fn) {
  Coord coord{};
  if (box.linear) {
    const std::uint32_t cols = box.shape[box.rank - 1];
    for (std::uint64_t flat = box.flat_begin; flat < box.flat_end;) {
      std::uint64_t rest = flat;
      for (std::uint32_t axis = box.rank; axis-- > 0;) {
        coord[axis] = static_cast<std::uint32_t>(rest % box.shape[axis]);
        rest /= box.shape[axis];
      }
      const std::uint64_t n = std::min<std::uint64_t>(cols - coord[box.rank - 1], box.flat_end - flat);
      fn(flat - box.flat_begin, coord, static_cast<std::uint32_t>(n));
      flat += n;
    }
    return;
  }
  const std::uint32_t length = granule_elements(box), last = box.rank - 1;
  const bool along_rows = packs_rows(box.order.kind);
  std::uint64_t storage = 0, current = UINT64_MAX;
  bool outer_logical = true;
  if (length == 0) return;
  detail::walk_matrix(box, [&](std::uint64_t o, std::uint32_t r, std::uint32_t c) {
    if (o != current) {
      current = o;
      outer_logical = true;
      std::uint64_t rest = o;
      for (std::uint32_t axis = box.rank < 2 ? 0 : box.rank - 2; axis-- > 0;) {
        const auto local = static_cast<std::uint32_t>(rest % box.physical[axis]);
        rest /= box.physical[axis];
        coord[axis] = box.start[axis] + local;
        outer_logical = outer_logical && local < box.logical[axis];
      }
    }
    const std::uint32_t row_limit = box.rank < 2 ? 1 : box.logical[last - 1], col_limit = box.logical[last];
    if (box.rank >= 2) coord[last - 1] = box.start[last - 1] + r;
    coord[last] = box.start[last] + c;
    std::uint32_t n = 0;
    if (outer_logical && r < row_limit && c < col_limit)
      n = std::min(length, along_rows ? row_limit - r : col_limit - c);
    fn(storage, coord, n);
    storage += length;
  });
}

}  // namespace tw::tensor
