// Coordinate maps of movements that any model may contain.
#include "base/error.h"
#include "tensor/traverse.h"

namespace tw::tensor {
namespace {

struct Group {  // axes with extents above 1 that hold the same elements on both sides
  std::vector<std::uint32_t> src, dst;
};

std::vector<Group> groups(const Shape& src, const Shape& dst) {
  std::vector<Group> out;
  std::size_t i = 0, j = 0;
  while (i < src.size() || j < dst.size()) {
    Group g;
    std::uint64_t p = 1, q = 1;
    const auto take = [](const Shape& shape, std::size_t& at, std::uint64_t& product,
                         std::vector<std::uint32_t>& axes) {
      TW_CHECK(at < shape.size(), "reshape changes the number of elements");
      if (shape[at] > 1) axes.push_back(static_cast<std::uint32_t>(at));
      product *= shape[at++];
    };
    if (i < src.size()) take(src, i, p, g.src);
    if (j < dst.size()) take(dst, j, q, g.dst);
    while (p != q) p < q ? take(src, i, p, g.src) : take(dst, j, q, g.dst);
    out.push_back(std::move(g));
  }
  return out;
}

}  // namespace

CoordMap stepped_slice_map(std::size_t rank, std::uint32_t axis, std::uint32_t start, std::uint32_t step) {
  CoordMap map = slice_map(rank, axis, start);
  map.axes.at(axis).terms.at(0).mul = step;
  return map;
}

CoordMap transpose_map(std::span<const std::uint32_t> permutation) {
  CoordMap map;
  map.axes.resize(permutation.size());
  for (std::uint32_t i = 0; i < permutation.size(); ++i) map.axes.at(permutation[i]).terms = {{.axis = i}};
  return map;
}

CoordMap expand_map(const Shape& src, std::size_t dst_rank) {
  TW_CHECK(src.size() <= dst_rank, "expansion to fewer axes");
  CoordMap map;
  map.axes.resize(src.size());
  for (std::size_t i = 0; i < src.size(); ++i)
    if (src[i] > 1) map.axes[i].terms = {{.axis = static_cast<std::uint32_t>(dst_rank - src.size() + i)}};
  return map;
}

std::optional<CoordMap> reshape_map(const Shape& src, const Shape& dst) {
  CoordMap map;
  map.axes.resize(src.size());
  for (const Group& g : groups(src, dst)) {
    if (g.src.size() > 1 && g.dst.size() > 1) return {};
    std::uint32_t inner = 1;
    if (g.src.size() == 1) {  // merged from the destination's axes
      for (std::size_t d = g.dst.size(); d-- > 0; inner *= dst[g.dst[d]])
        map.axes[g.src[0]].terms.push_back({.axis = g.dst[d], .mul = inner});
      continue;
    }
    for (std::size_t s = g.src.size(); s-- > 0; inner *= src[g.src[s]]) {
      CoordTerm term{.axis = g.dst[0], .div = inner};
      if (s > 0) term.mod = src[g.src[s]];
      map.axes[g.src[s]].terms = {term};
    }
  }
  return map;
}

}  // namespace tw::tensor
