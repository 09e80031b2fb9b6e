// Products and sums: one kernel call per owner of the result (compiler.md 3.8, 5.1).
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

using kernel::Code;
using tensor::MemoryClass;
using tensor::Precision;

void check_right_block(const Lowering& lowering, const plan::Product& p, const View& left, const View& right,
                       const View& out) {
  const plan::Tensor& t = lowering.tensor(p.right);
  const std::string where = fmt::format("product {} x {}", lowering.tensor(p.left).name, t.name);
  TW_CHECK((p.right_transposed ? right.cols : right.rows) == left.cols,
           where + ": inner extents of the shards");
  TW_CHECK((p.right_transposed ? right.rows : right.cols) == out.cols, where + ": columns of the shards");
  TW_CHECK(left.flat_rows() == out.flat_rows(), where + ": rows of the shards");
  if (!p.right_transposed)
    TW_CHECK(t.type.layout.order.row_block == right.rows, where + ": one K block per shard");
  if (right.outer > 1)
    throw Error(ErrorKind::UnsupportedOp, where + ": several streams on one tile are not supported");
}

// Scratch and seed of one replica of a Sum's owner.
struct SumPlace {
  TileId tile;
  BufferId out, remote;             // remote: invalid when every part is read in place
  std::uint32_t seed_part = kNone;  // kNone: none in place
  BufferId seed;
  std::uint32_t seed_offset = 0;
};

// The runs of all parts of one distinct owner of the result.
struct SumParts {
  std::uint32_t owner = 0;
  std::vector<std::vector<tensor::Run>> runs;          // per part
  std::vector<std::vector<tensor::ByteRange>> clears;  // per part, of its image in the scratch
};

tensor::CoordMap part_map(std::size_t rank, std::uint32_t part) {
  tensor::CoordMap map;
  map.axes.resize(rank + 1);
  map.axes[0].offset = part;
  for (std::size_t axis = 0; axis < rank; ++axis)
    map.axes[axis + 1].terms.push_back({.axis = static_cast<std::uint32_t>(axis)});
  return map;
}

class SumLowering {
 public:
  SumLowering(Lowering& lowering, const plan::Sum& sum)
      : lowering_(lowering),
        sum_(sum),
        to_(lowering.layout(sum.out)),
        from_(lowering.layout(sum.partials)),
        parts_(from_.type().shape[0]),
        mover_(lowering, sum.partials, movement_) {
    TW_CHECK(from_.type().shape.size() == to_.type().shape.size() + 1, "a sum drops the leading axis");
    TW_CHECK(to_.type().encoding.precision == Precision::F16, "sums are F16");
    TW_CHECK(to_.type().layout.order.kind == from_.type().layout.order.kind, "a sum keeps the order");
  }

  void run() {
    const std::vector<SumParts> all = find_parts();
    std::vector<SumPlace> places;
    for (const SumParts& parts : all) move_parts(parts, places);
    movement_.finish(lowering_);
    for (const SumPlace& place : places) add_call(place);
    lowering_.flush();
  }

 private:
  std::vector<SumParts> find_parts() const {
    std::vector<SumParts> all;
    for (std::uint32_t o = 0; o < to_.owners(); ++o)
      if (to_.canonical_owner(o) == o && lowering_.buffer(sum_.out, o).valid()) all.push_back({o, {}, {}});
    parallel_for(all.size(), 4, lowering_.threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::vector<tensor::ByteRange> padding = tensor::padding_ranges(to_, all[i].owner);
        for (std::uint32_t p = 0; p < parts_; ++p) {
          const tensor::CoordMap map = part_map(to_.type().shape.size(), p);
          all[i].runs.push_back(movable_runs(lowering_, sum_.out, all[i].owner, map, sum_.partials,
                                             lowering_.clean_padding(sum_.partials)));
          all[i].clears.push_back(clear_ranges(uncovered(padding, all[i].runs.back())));
        }
      }
    });
    return all;
  }

  // Byte offset in the partial's shard at which part `p` stands as one contiguous image of the result's
  // shard, padding included; kNone when it does not.
  std::uint32_t image_offset(const SumParts& parts, std::uint32_t p) const {
    const std::vector<tensor::Run>& runs = parts.runs[p];
    if (runs.size() != 1 || runs.front().bytes != to_.shard_bytes(parts.owner)) return kNone;
    return runs.front().src_offset % 8 == 0 ? runs.front().src_offset : kNone;
  }

  void move_parts(const SumParts& parts, std::vector<SumPlace>& places) {
    const std::size_t first = places.size();
    const auto bytes = static_cast<std::uint32_t>(to_.shard_bytes(parts.owner));
    TW_CHECK(bytes % 16 == 0, "a sum takes a multiple of 8 elements");
    for (std::uint32_t r = 0; r < to_.type().layout.tiling.replicas; ++r)
      places.push_back(make_place(parts, to_.replica(parts.owner, r), bytes));
    std::vector<Target> targets;
    for (std::uint32_t p = 0; p < parts_; ++p) {
      targets.clear();
      for (std::size_t i = first; i < places.size(); ++i) {
        const SumPlace& place = places[i];
        if (p == place.seed_part) continue;
        const std::uint32_t slot = p - (place.seed_part < p ? 1 : 0);
        targets.push_back({place.tile, place.remote, slot * bytes});
        for (const tensor::ByteRange& c : parts.clears[p])
          lowering_.fill(place.tile, place.remote, slot * bytes + c.begin, slot * bytes + c.end);
      }
      for (const tensor::Run& run : parts.runs[p]) mover_.move(run, targets);
    }
  }

  SumPlace make_place(const SumParts& parts, std::uint32_t owner, std::uint32_t bytes) {
    SumPlace place;
    place.tile = lowering_.tile_of(sum_.out, owner);
    place.out = lowering_.buffer(sum_.out, owner);
    for (std::uint32_t p = 0; p < parts_ && place.seed_part == kNone; ++p) {
      const std::uint32_t offset = image_offset(parts, p);
      if (offset == kNone) continue;
      const std::uint32_t holder = mover_.holder_on(place.tile, parts.runs[p].front().src_owner);
      if (holder == kNone) continue;
      place.seed_part = p;
      place.seed = lowering_.buffer(sum_.partials, holder);
      place.seed_offset = offset;
    }
    const std::uint32_t remote = parts_ - (place.seed_part == kNone ? 0 : 1);
    if (remote > 0) place.remote = lowering_.add_scratch(sum_.out, place.tile, remote * bytes);
    return place;
  }

  void add_call(const SumPlace& place) {
    const bool seeded = place.seed_part != kNone;
    const BufferId remote =
        place.remote.valid() ? place.remote : place.seed;  // unread when nothing is remote
    const std::uint32_t n = lowering_.program.buffers[place.out.value].bytes / 2;
    const Arg args[] = {at(place.out),  seeded ? at(place.seed, place.seed_offset) : at(remote),
                        at(remote),     scalar(n),
                        scalar(parts_), scalar(seeded ? place.seed_part : parts_)};
    lowering_.call(place.tile, Code::Sum, {}, args);
  }

  Lowering& lowering_;
  const plan::Sum& sum_;
  const tensor::ResolvedLayout& to_;
  const tensor::ResolvedLayout& from_;
  std::uint32_t parts_;
  Movement movement_;
  Mover mover_;
};

}  // namespace

void lower_product(Lowering& lowering, const plan::Product& p) {
  const plan::Tensor& left_tensor = lowering.tensor(p.left);
  const bool f8 = left_tensor.type.encoding.precision == Precision::F8;
  const bool wide = lowering.tensor(p.right).type.layout.memory == MemoryClass::Interleaved;
  const std::uint32_t scale = f8 ? static_cast<std::uint32_t>(2 * left_tensor.type.encoding.scale) & 0x3F : 0;
  for (std::uint32_t owner = 0; owner < lowering.layout(p.out).owners(); ++owner) {
    const TileId tile = lowering.tile_of(p.out, owner);
    const View out = lowering.view(p.out, owner);
    if (out.empty()) continue;
    const View left = lowering.view(p.left, lowering.owner_on(p.left, tile, owner));
    if (left.empty()) {  // nothing to multiply: the part is zero
      if (!p.accumulate) lowering.fill(tile, out.buffer, 0, lowering.program.buffers[out.buffer.value].bytes);
      continue;
    }
    const View right = lowering.view(p.right, lowering.owner_on(p.right, tile, owner));
    check_right_block(lowering, p, left, right, out);
    const Arg args[] = {at(out.buffer),    at(left.buffer),  at(right.buffer), scalar(left.flat_rows()),
                        scalar(left.cols), scalar(out.cols), scalar(scale)};
    lowering.call(tile, f8 ? Code::GemmF8 : Code::GemmF16, {p.accumulate ? 1U : 0U, wide ? 1U : 0U}, args);
    lowering.separate(left.buffer, out.buffer);
  }
}

void lower_sum(Lowering& lowering, const plan::Sum& sum) { SumLowering(lowering, sum).run(); }

}  // namespace tw::tile
