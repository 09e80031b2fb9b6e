#include "tensor/traverse.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "base/error.h"
#include "oracle.h"

namespace tw::tensor {
namespace {

using oracle::Coordinate;

Coordinate mapped(const CoordMap& map, const Coordinate& dst) {
  Coordinate src;
  for (const CoordAxis& axis : map.axes) {
    std::uint32_t at = axis.offset;
    for (const CoordTerm& t : axis.terms) at += dst[t.axis] / t.div % t.mod * t.mul;
    src.push_back(at);
  }
  return src;
}

// Expands the runs byte by byte and compares with every element of the destination.
void check_runs(const TensorType& dst, const CoordMap& map, const TensorType& src) {
  const ResolvedLayout to(dst), from(src);
  const std::uint32_t eb = bytes_of(dst.encoding.precision);
  std::vector<std::map<Coordinate, std::uint64_t>> held(from.owners());
  for (std::uint32_t t = 0; t < from.owners(); ++t) held[t] = oracle::bytes_of_elements(src, t);
  std::vector<std::set<std::uint64_t>> logical(from.owners());  // bytes that hold elements
  for (std::uint32_t t = 0; t < from.owners(); ++t)
    for (const auto& [coord, byte] : held[t])
      for (std::uint32_t i = 0; i < eb; ++i) logical[t].insert(byte + i);
  for (std::uint32_t t = 0; t < to.owners(); ++t) {
    std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> got, want;
    std::uint32_t end = 0;
    const Run* previous = nullptr;
    const std::vector<Run> list = runs(to, t, map, from);
    for (const Run& run : list) {
      RC_ASSERT(run.bytes > 0);
      RC_ASSERT(run.dst_offset >= end);
      RC_ASSERT(from.canonical_owner(run.src_owner) == run.src_owner);
      if (previous != nullptr)  // maximal
        RC_ASSERT(!(previous->src_owner == run.src_owner && end == run.dst_offset &&
                    previous->src_offset + previous->bytes == run.src_offset));
      end = run.dst_offset + run.bytes;
      previous = &run;
      for (std::uint32_t i = 0; i < run.bytes; ++i)
        got[run.dst_offset + i] = {run.src_owner, run.src_offset + i};
    }
    for (const auto& [coord, byte] : oracle::bytes_of_elements(dst, t)) {
      const Coordinate source = mapped(map, coord);
      for (std::uint32_t owner = 0; owner < from.owners(); ++owner) {
        const auto at = held[owner].find(source);
        if (at == held[owner].end()) continue;
        for (std::uint32_t i = 0; i < eb; ++i) want[byte + i] = {owner, at->second + i};
        break;
      }
    }
    // Beyond the elements only padding up to the next word, on both sides.
    for (auto it = got.begin(); it != got.end();) {
      if (want.contains(it->first)) {
        ++it;
        continue;
      }
      RC_ASSERT(it->first % 4 != 0);
      RC_ASSERT(!logical[it->second.first].contains(it->second.second));
      RC_ASSERT(it->first < to.shard_bytes(t));
      RC_ASSERT(it->second.second < from.shard_bytes(it->second.first));
      it = got.erase(it);
    }
    RC_ASSERT(got == want);
  }
}

RC_GTEST_PROP(Runs, identity_between_random_layouts, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const Precision precision = std::array{Precision::F8, Precision::F16, Precision::F32}[gen.pick(0, 2)];
  const Shape shape = gen.shape();
  const TensorType dst = gen.type(shape, precision), src = gen.type(shape, precision);
  check_runs(dst, identity_map(shape.size()), src);
}

RC_GTEST_PROP(Runs, slices, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const Shape whole = gen.shape();
  const std::uint32_t axis = gen.pick(0, static_cast<std::uint32_t>(whole.size()) - 1);
  Shape part = whole;
  part[axis] = gen.pick(1, whole[axis]);
  const std::uint32_t start = gen.pick(0, whole[axis] - part[axis]);
  check_runs(gen.type(part, Precision::F16), slice_map(whole.size(), axis, start),
             gen.type(whole, Precision::F16));
}

RC_GTEST_PROP(Runs, heads, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const std::uint32_t batch = gen.pick(1, 2), heads = gen.pick(1, 3), rows = gen.pick(1, 20),
                      width = gen.pick(1, 24);
  const Shape joined = {batch, rows, heads * width}, split = {batch * heads, rows, width};
  const TensorType a = gen.type(joined, Precision::F16), b = gen.type(split, Precision::F16);
  check_runs(b, split_heads_map(heads, width), a);
  check_runs(a, merge_heads_map(heads, width), b);
}

RC_GTEST_PROP(Runs, broadcast_over_a_leading_axis, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const Shape src = {gen.pick(1, 20), gen.pick(1, 20)}, dst = {3, src[0], src[1]};
  CoordMap map;
  map.axes.resize(2);
  map.axes[0].terms = {{.axis = 1}};
  map.axes[1].terms = {{.axis = 2}};
  check_runs(gen.type(dst, Precision::F16), map, gen.type(src, Precision::F16));
}

// What comes along with the padding: everything that runs() has, and beyond it only padding to padding.
RC_GTEST_PROP(Runs, with_padding_only_padding_comes_along, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const Precision precision = std::array{Precision::F8, Precision::F16, Precision::F32}[gen.pick(0, 2)];
  const Shape shape = gen.shape();
  const TensorType dst = gen.type(shape, precision), src = gen.type(shape, precision);
  const ResolvedLayout to(dst), from(src);
  const std::uint32_t eb = bytes_of(precision);
  const auto bytes_with_data = [eb](const TensorType& type, std::uint32_t t) {
    std::set<std::uint64_t> bytes;
    for (const auto& [coord, byte] : oracle::bytes_of_elements(type, t))
      for (std::uint32_t i = 0; i < eb; ++i) bytes.insert(byte + i);
    return bytes;
  };
  std::vector<std::set<std::uint64_t>> logical;
  for (std::uint32_t t = 0; t < from.owners(); ++t) logical.push_back(bytes_with_data(src, t));
  for (std::uint32_t t = 0; t < to.owners(); ++t) {
    std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> plain, wide;
    const std::set<std::uint64_t> data = bytes_with_data(dst, t);
    for (const auto& run : runs(to, t, identity_map(shape.size()), from))
      for (std::uint32_t i = 0; i < run.bytes; ++i)
        plain[run.dst_offset + i] = {run.src_owner, run.src_offset + i};
    std::uint32_t end = 0;
    for (const auto& run : runs_with_padding(to, t, identity_map(shape.size()), from)) {
      RC_ASSERT(run.dst_offset >= end);
      end = run.dst_offset + run.bytes;
      RC_ASSERT(end <= to.shard_bytes(t));
      RC_ASSERT(run.src_offset + run.bytes <= from.shard_bytes(run.src_owner));
      bool has_data = false;
      for (std::uint32_t i = 0; i < run.bytes; ++i) {
        wide[run.dst_offset + i] = {run.src_owner, run.src_offset + i};
        const bool here = data.contains(run.dst_offset + i);
        has_data = has_data || here;
        RC_ASSERT(here == logical[run.src_owner].contains(run.src_offset + i));
      }
      RC_ASSERT(has_data);
    }
    for (const auto& [byte, source] : plain) {
      RC_ASSERT(wide.contains(byte));
      RC_ASSERT(wide[byte] == source);
    }
  }
}

TEST(Runs, equal_shards_with_padding_are_one_piece) {
  // Keys of a head: AR [729,72] padded to 736 x 80, from one owner to two replicas.
  TensorType src{{729, 72}, {Precision::F16, 0}, {}};
  src.layout.order.kind = Order::AmpRight;
  src.layout.tiling = {1,
                       1,
                       {{.axis = 0, .block = 16, .padding = Padding::Zero},
                        {.axis = 1, .block = 16, .padding = Padding::Zero}},
                       0};
  TensorType dst = src;
  dst.layout.tiling.replicas = dst.layout.tiling.tile_count = 2;
  const auto plain = runs(ResolvedLayout(dst), 1, identity_map(2), ResolvedLayout(src));
  EXPECT_EQ(plain.size(), 45U * 16 + 4 + 9);  // the last panel of every 16 rows falls apart
  const auto whole = runs_with_padding(ResolvedLayout(dst), 1, identity_map(2), ResolvedLayout(src));
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].bytes, 736U * 80 * 2);
}

TEST(Maps, heads_are_channel_contiguous_and_batch_is_outer) {
  const CoordMap split = split_heads_map(16, 72);
  EXPECT_EQ(mapped(split, {19, 5, 7}), (Coordinate{1, 5, 3 * 72 + 7}));
  EXPECT_EQ(mapped(merge_heads_map(16, 72), {1, 5, 3 * 72 + 7}), (Coordinate{19, 5, 7}));
}

TEST(Maps, composition_is_substitution) {
  const CoordMap slice = slice_map(3, 2, 1152), split = split_heads_map(16, 72),
                 merge = merge_heads_map(16, 72);
  const std::pair<CoordMap, CoordMap> pairs[] = {{slice, split},
                                                 {split, identity_map(3)},
                                                 {identity_map(3), merge},
                                                 {split, slice_map(3, 1, 4)},
                                                 {slice_map(3, 1, 4), split}};
  for (const auto& [outer, inner] : pairs)
    for (std::uint32_t a = 0; a < 32; ++a)
      for (std::uint32_t c = 0; c < 72; ++c) {
        const Coordinate at = {a, a + c, c};
        EXPECT_EQ(mapped(compose(outer, inner), at), mapped(outer, mapped(inner, at)));
      }
}

TEST(Maps, composition_that_leaves_the_form_is_refused) {
  CoordMap shifted = identity_map(1);
  shifted.axes[0].offset = 1;
  CoordMap halved = identity_map(1);
  halved.axes[0].terms[0].div = 2;
  EXPECT_THROW(compose(halved, shifted), InternalError);
}

RC_GTEST_PROP(Padding, is_the_complement_of_the_elements, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const Precision precision = std::array{Precision::F8, Precision::F16, Precision::F32}[gen.pick(0, 2)];
  const TensorType type = gen.type(gen.shape(), precision);
  const ResolvedLayout layout(type);
  for (std::uint32_t t = 0; t < layout.owners(); ++t) {
    std::vector<bool> covered(layout.shard_bytes(t), false);
    for (const auto& [coord, byte] : oracle::bytes_of_elements(type, t))
      for (std::uint32_t i = 0; i < bytes_of(precision); ++i) covered[byte + i] = true;
    std::vector<ByteRange> want;
    for (std::uint32_t i = 0; i < covered.size(); ++i) {
      if (covered[i]) continue;
      if (!want.empty() && want.back().end == i)
        ++want.back().end;
      else
        want.push_back({i, i + 1});
    }
    RC_ASSERT(padding_ranges(layout, t) == want);
  }
}

TEST(Runs, odd_tails_travel_as_whole_words) {
  // 729 keys in panels of 16: the last panel has 9 elements, and a K split elsewhere keeps its padding.
  TensorType src{{7, 729}, {Precision::F16, 0}, {}};
  src.layout.order.kind = Order::AmpLeft;
  src.layout.tiling = {1, 1, {{.axis = 1, .block = 64, .padding = Padding::Zero}}, 0};
  TensorType dst = src;
  dst.layout.tiling = {6, 1, {{.axis = 1, .parts = 6, .block = 128, .padding = Padding::Zero}}, 0};
  const auto list = runs(ResolvedLayout(dst), 5, identity_map(2), ResolvedLayout(src));
  ASSERT_EQ(list.size(), 7U);  // the whole panels go with the first row of the tail panel
  EXPECT_EQ(list.back().bytes, 20U);
  for (const auto& run : list) EXPECT_EQ(run.bytes % 4, 0U);
}

TEST(Runs, fp8_panels_are_32_wide) {
  // compiler.md 5.5: FP8 AL [2,729,1152], single-row owners -> 10 x 6 grid: the receiver gets one piece per
  // (row, panel, batch); 6 panels of a 192-column part, never 12.
  TensorType src{{2, 729, 1152}, {Precision::F8, 0}, {}};
  src.layout.order.kind = Order::AmpLeft;
  src.layout.tiling = {1458, 1, {{.axis = 1, .parts = 729}, {.axis = 0, .parts = 2}}, 0};
  TensorType dst = src;
  dst.layout.tiling = {
      60,
      1,
      {{.axis = 2, .parts = 6, .block = 32}, {.axis = 1, .parts = 10, .block = 2, .padding = Padding::Zero}},
      0};
  const auto list = runs(ResolvedLayout(dst), 0, identity_map(3), ResolvedLayout(src));
  EXPECT_EQ(list.size(), 2U * 74 * 6);  // 888
}

}  // namespace
}  // namespace tw::tensor
