// From layouts to bytes: which bytes of which source shards make up a destination shard.
// Depends on tensor/layout only; checked against a per-element oracle (tests/tensor).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/layout.h"

namespace tw::tensor {

// Source coordinate of a destination coordinate: for each source axis,
//   src[axis] = offset + sum over its terms of ((dst[t.axis] / t.div) % t.mod) * t.mul.
// Identity, slices, head splits and merges, broadcasts are all of this form.
struct CoordTerm {
  std::uint32_t axis = 0, div = 1, mod = UINT32_MAX, mul = 1;
  bool operator==(const CoordTerm&) const = default;
};
struct CoordAxis {
  std::uint32_t offset = 0;
  std::vector<CoordTerm> terms;
  bool operator==(const CoordAxis&) const = default;
};
struct CoordMap {
  std::vector<CoordAxis> axes;  // one per source axis
  bool operator==(const CoordMap&) const = default;
};
CoordMap identity_map(std::size_t rank);
CoordMap slice_map(std::size_t rank, std::uint32_t axis, std::uint32_t start);
// [B,R,h*c] -> [B*h,R,c] (split_heads) and its inverse [B*h,R,c] -> [B,R,h*c].
CoordMap split_heads_map(std::uint32_t heads, std::uint32_t width);
CoordMap merge_heads_map(std::uint32_t heads, std::uint32_t width);
CoordMap stepped_slice_map(std::size_t rank, std::uint32_t axis, std::uint32_t start, std::uint32_t step);
CoordMap transpose_map(std::span<const std::uint32_t> permutation);  // dst axis i is src axis permutation[i]
CoordMap expand_map(const Shape& src, std::size_t dst_rank);         // numpy broadcasting
// Row-major order kept. Empty when axes merge and split at once: go through the flat shape then.
std::optional<CoordMap> reshape_map(const Shape& src, const Shape& dst);
// first, then second: the map of copying through an intermediate with shape `middle`. `try_compose` is empty
// when the result is no map of this form; `compose` holds that against the caller.
std::optional<CoordMap> try_compose(const CoordMap& src_of_middle, const CoordMap& middle_of_dst);
CoordMap compose(const CoordMap& src_of_middle, const CoordMap& middle_of_dst);

// One contiguous piece: `bytes` bytes at src_offset of source owner src_owner (replica 0) stand at
// dst_offset.
struct Run {
  std::uint32_t src_owner = 0;
  std::uint32_t src_offset = 0, dst_offset = 0, bytes = 0;
  bool operator==(const Run&) const = default;
};
// Runs of owner `dst_owner`, in ascending destination offset, maximal. Precisions must be equal. A run that
// would end inside a word at the logical end of both shards takes the padding behind it along, up to the word
// (odd F16 tails, compiler.md 14, item 12).
std::vector<Run> runs(const ResolvedLayout& dst, std::uint32_t dst_owner, const CoordMap& map,
                      const ResolvedLayout& src);

// The same, and padding of dst that is padding at the mapped place of the same source shard comes along where
// it continues a run with data. For sources whose padding holds zeros: whole panels move as one piece
// (compiler.md 4.2 a).
std::vector<Run> runs_with_padding(const ResolvedLayout& dst, std::uint32_t dst_owner, const CoordMap& map,
                                   const ResolvedLayout& src);

struct ByteRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};
// Bytes of the shard that no logical element covers (padding), ascending, maximal.
std::vector<ByteRange> padding_ranges(const ResolvedLayout& layout, std::uint32_t owner);

// Host side: logical row-major floats -> the bytes of one shard (encoding applied, padding zero), and back.
std::vector<std::uint8_t> pack_shard(const ResolvedLayout& layout, std::uint32_t owner,
                                     std::span<const float> logical);
void unpack_shard(const ResolvedLayout& layout, std::uint32_t owner, std::span<const std::uint8_t> bytes,
                  std::span<float> logical);

}  // namespace tw::tensor
