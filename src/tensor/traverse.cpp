#include "tensor/traverse.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "tensor/order.h"

namespace tw::tensor {
namespace {

// Evaluates a map on destination coordinates that step along one axis.
class Mapper {
 public:
  Mapper(const CoordMap& map, std::uint32_t step_axis) : map_(map), step_axis_(step_axis) {}

  void source_of(const Coord& dst, Coord& src) const {
    for (std::size_t s = 0; s < map_.axes.size(); ++s) {
      std::uint32_t at = map_.axes[s].offset;
      for (const CoordTerm& t : map_.axes[s].terms) at += value(t, dst[t.axis]) * t.mul;
      src[s] = at;
    }
  }

  // How many steps along the step axis, `dst` included, move only source axis `moving`, by one each.
  std::uint32_t linear_length(const Coord& dst, std::uint32_t moving) const {
    std::uint32_t length = UINT32_MAX;
    bool moves = false;
    for (std::size_t s = 0; s < map_.axes.size(); ++s) {
      for (const CoordTerm& t : map_.axes[s].terms) {
        if (t.axis != step_axis_ || t.mod == 1 || t.mul == 0) continue;
        const std::uint32_t at = dst[t.axis];
        if (s == moving) {
          if (t.div != 1 || t.mul != 1 || moves) return 1;
          moves = true;
          if (t.mod != UINT32_MAX) length = std::min(length, t.mod - at % t.mod);
        } else {
          length = std::min(length, t.div - at % t.div);
        }
      }
    }
    return moves ? length : 1;
  }

 private:
  static std::uint32_t value(const CoordTerm& t, std::uint32_t at) {
    if (t.div != 1) at /= t.div;
    return t.mod == UINT32_MAX ? at : at % t.mod;
  }
  const CoordMap& map_;
  std::uint32_t step_axis_;
};

// Source shards looked up so far.
class Boxes {
 public:
  explicit Boxes(const ResolvedLayout& layout) : layout_(layout), boxes_(layout.owners()) {}
  const Box& of(std::uint32_t owner) {
    if (!boxes_[owner]) boxes_[owner] = std::make_unique<Box>(box_of(layout_, owner));
    return *boxes_[owner];
  }

 private:
  const ResolvedLayout& layout_;
  std::vector<std::unique_ptr<Box>> boxes_;
};

// Logical elements left along `axis` from `at` in a source shard.
std::uint32_t left_on_axis(const Box& box, std::uint32_t axis, std::uint32_t at) {
  return box.linear ? UINT32_MAX : box.start[axis] + box.logical[axis] - at;
}

// Elements by which a piece that ends a destination granule at its logical end grows to a whole word through
// padding that both shards have: odd F16 tails (compiler.md 14, item 12). 0 when one side has no such
// padding.
std::uint32_t tail_elements(std::uint64_t dst_end_bytes, std::uint32_t eb, std::uint32_t dst_room,
                            std::uint32_t src_room) {
  const auto odd = static_cast<std::uint32_t>(dst_end_bytes % 4);
  const std::uint32_t wanted = odd == 0 ? 0 : (4 - odd) / eb;
  return wanted <= std::min(dst_room, src_room) ? wanted : 0;
}

// Finds the runs of one destination shard.
class Tracer {
 public:
  Tracer(const ResolvedLayout& dst, std::uint32_t dst_owner, const CoordMap& map, const ResolvedLayout& src)
      : src_(src),
        eb_(bytes_of(dst.type().encoding.precision)),
        box_(box_of(dst, dst_owner)),
        step_(box_.linear ? box_.rank - 1 : box_.direction()),
        granule_(box_.linear ? 0 : granule_elements(box_)),
        src_rank_(static_cast<std::uint32_t>(map.axes.size())),
        moving_(packs_rows(src.type().layout.order.kind) ? src_rank_ - 2 : src_rank_ - 1),
        mapper_(map, step_),
        boxes_(src) {
    TW_CHECK(dst.type().encoding.precision == src.type().encoding.precision, "a copy keeps the precision");
    TW_CHECK(map.axes.size() == src.type().shape.size(), "one map axis per source axis");
  }

  std::vector<Run> trace(bool with_padding) {
    for_each_granule(box_, [&](std::uint64_t storage, const Coord& first, std::uint32_t logical) {
      data(storage, first, logical);
      if (with_padding && logical < granule_) padding(storage, first, logical);
    });
    std::vector<Run> list;
    list.reserve(list_.size());
    for (const Piece& p : list_)
      if (p.data) list.push_back(p.run);
    return list;
  }

 private:
  struct Piece {
    Run run;
    bool data = true;
  };

  void data(std::uint64_t storage, const Coord& first, std::uint32_t logical) {
    Coord at = first, from{};
    // Inside a granule of AccOut the columns are consecutive, so one walk serves every order.
    for (std::uint32_t done = 0; done < logical;) {
      mapper_.source_of(at, from);
      const std::span<const std::uint32_t> coord(from.data(), src_rank_);
      const std::uint32_t owner = src_.owner_of(coord);
      const Box& shard = boxes_.of(owner);
      const std::uint32_t room = shard.contiguous_from(coord),
                          left = left_on_axis(shard, moving_, from[moving_]);
      const std::uint32_t n = std::min({logical - done, mapper_.linear_length(at, moving_), room, left});
      std::uint32_t tail = 0;
      if (done + n == logical && logical < granule_ && left == n && room > n)
        tail = tail_elements((storage + logical) * eb_, eb_, granule_ - logical, room - n);
      append(owner, shard.index(coord), storage + done, n + tail, true);
      done += n;
      at[step_] += n;
    }
  }

  // Elements [logical, granule) of a granule, as far as they are padding of the source shard that holds the
  // nearest element.
  void padding(std::uint64_t storage, const Coord& first, std::uint32_t logical) {
    Coord at = first, near{}, from{};
    for (std::uint32_t axis = 0; axis < box_.rank; ++axis) {
      if (box_.logical[axis] == 0) return;
      near[axis] =
          std::min(first[axis] + (axis == step_ ? logical : 0), box_.start[axis] + box_.logical[axis] - 1);
    }
    mapper_.source_of(near, from);
    const std::uint32_t owner = src_.owner_of(std::span<const std::uint32_t>(from.data(), src_rank_));
    const Box& shard = boxes_.of(owner);
    if (shard.linear) return;
    for (std::uint32_t done = logical; done < granule_;) {
      at[step_] = first[step_] + done;
      mapper_.source_of(at, from);
      const std::span<const std::uint32_t> coord(from.data(), src_rank_);
      if (!is_padding(shard, coord)) return;
      const std::uint32_t n =
          std::min({granule_ - done, mapper_.linear_length(at, moving_), shard.contiguous_from(coord)});
      append(owner, shard.index(coord), storage + done, n, false);
      done += n;
    }
  }

  static bool is_padding(const Box& shard, std::span<const std::uint32_t> coord) {
    bool beyond = false;
    for (std::size_t axis = 0; axis < coord.size(); ++axis) {
      const std::uint32_t at = coord[axis] - shard.start[axis];
      if (coord[axis] < shard.start[axis] || at >= shard.physical[axis]) return false;
      beyond = beyond || at >= shard.logical[axis];
    }
    return beyond;
  }

  void append(std::uint32_t owner, std::uint64_t src, std::uint64_t dst, std::uint32_t elements, bool data) {
    Run run{owner, static_cast<std::uint32_t>(src * eb_), static_cast<std::uint32_t>(dst * eb_),
            elements * eb_};
    if (!list_.empty()) {
      Run& back = list_.back().run;
      const std::uint32_t overlap = back.dst_offset + back.bytes - run.dst_offset;  // a tail taken before
      if (back.src_owner == owner && back.dst_offset + back.bytes >= run.dst_offset && overlap <= run.bytes &&
          back.src_offset + back.bytes - overlap == run.src_offset) {
        back.bytes += run.bytes - overlap;
        list_.back().data = list_.back().data || data;
        return;
      }
    }
    list_.push_back({run, data});
  }

  const ResolvedLayout& src_;
  std::uint32_t eb_;
  Box box_;
  std::uint32_t step_, granule_, src_rank_, moving_;
  Mapper mapper_;
  Boxes boxes_;
  std::vector<Piece> list_;
};

}  // namespace

CoordMap identity_map(std::size_t rank) {
  CoordMap map;
  map.axes.resize(rank);
  for (std::size_t axis = 0; axis < rank; ++axis)
    map.axes[axis].terms.push_back({.axis = static_cast<std::uint32_t>(axis)});
  return map;
}

CoordMap slice_map(std::size_t rank, std::uint32_t axis, std::uint32_t start) {
  CoordMap map = identity_map(rank);
  map.axes[axis].offset = start;
  return map;
}

// [B,R,h*c] -> [B*h,R,c]: n = b*h + head, so b = n div h and source column = (n mod h)*c + column.
CoordMap split_heads_map(std::uint32_t heads, std::uint32_t width) {
  CoordMap map = identity_map(3);
  map.axes[0].terms = {{.axis = 0, .div = heads}};
  map.axes[2].terms = {{.axis = 0, .mod = heads, .mul = width}, {.axis = 2}};
  return map;
}

CoordMap merge_heads_map(std::uint32_t heads, std::uint32_t width) {
  CoordMap map = identity_map(3);
  map.axes[0].terms = {{.axis = 0, .mul = heads}, {.axis = 2, .div = width}};
  map.axes[2].terms = {{.axis = 2, .mod = width}};
  return map;
}

std::vector<Run> runs(const ResolvedLayout& dst, std::uint32_t dst_owner, const CoordMap& map,
                      const ResolvedLayout& src) {
  return Tracer(dst, dst_owner, map, src).trace(false);
}

std::vector<Run> runs_with_padding(const ResolvedLayout& dst, std::uint32_t dst_owner, const CoordMap& map,
                                   const ResolvedLayout& src) {
  return Tracer(dst, dst_owner, map, src).trace(true);
}

std::vector<ByteRange> padding_ranges(const ResolvedLayout& layout, std::uint32_t owner) {
  const Box box = box_of(layout, owner);
  std::vector<ByteRange> ranges;
  if (box.linear) return ranges;
  const std::uint32_t eb = bytes_of(layout.type().encoding.precision), length = granule_elements(box);
  for_each_granule(box, [&](std::uint64_t storage, const Coord&, std::uint32_t logical) {
    if (logical == length) return;
    const auto begin = static_cast<std::uint32_t>((storage + logical) * eb);
    const auto end = static_cast<std::uint32_t>((storage + length) * eb);
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  });
  return ranges;
}

}  // namespace tw::tensor
