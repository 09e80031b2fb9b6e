#include "tensor/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "oracle.h"

namespace tw::tensor {
namespace {

TensorType rows_over(const Shape& shape, std::uint32_t owners) {
  TensorType type{shape, {Precision::F16, 0}, {}};
  type.layout.tiling.tile_count = owners;
  type.layout.tiling.axes = {{.axis = static_cast<std::uint32_t>(shape.size()) - 2, .parts = owners}};
  return type;
}

RC_GTEST_PROP(ResolvedLayout, agrees_with_the_text_on_every_owner, (std::uint64_t seed)) {
  oracle::Generator gen(seed);
  const Precision precision = std::array{Precision::F8, Precision::F16, Precision::F32}[gen.pick(0, 2)];
  const TensorType type = gen.type(gen.shape(), precision);
  const ResolvedLayout layout(type);
  std::map<oracle::Coordinate, std::vector<std::uint32_t>> holders;
  for (std::uint32_t t = 0; t < layout.owners(); ++t) {
    if (!layout.linear()) {
      const oracle::Shard s = oracle::shard(type, t);
      const std::vector<AxisSpan> bounds = layout.bounds(t);
      for (std::size_t axis = 0; axis < bounds.size(); ++axis) {
        RC_ASSERT(bounds[axis].start == s.start[axis]);
        RC_ASSERT(bounds[axis].logical_end == s.logical_end[axis]);
        RC_ASSERT(bounds[axis].physical_end == s.physical_end[axis]);
      }
    }
    RC_ASSERT(layout.shard_bytes(t) <= layout.max_shard_bytes());
    for (const auto& [coord, byte] : oracle::bytes_of_elements(type, t)) {
      RC_ASSERT(layout.index_in_shard(t, coord) * bytes_of(precision) == byte);
      RC_ASSERT(byte < layout.shard_bytes(t));
      holders[coord].push_back(t);
    }
  }
  RC_ASSERT(holders.size() == elements(type.shape));
  for (const auto& [coord, owners] : holders) {
    RC_ASSERT(owners.size() == type.layout.tiling.replicas);
    const std::uint32_t first = layout.owner_of(coord);
    for (std::uint32_t r = 0; r < owners.size(); ++r) {
      RC_ASSERT(layout.replica(first, r) == owners[r]);
      RC_ASSERT(layout.canonical_owner(owners[r]) == first);
    }
  }
}

TEST(ResolvedLayout, padding_groups_keep_head_boundaries) {
  // 16 heads of 72 columns padded to 80 (compiler.md 2.2).
  TensorType type{{4, 1152}, {Precision::F16, 0}, {}};
  type.layout.order.kind = Order::AmpLeft;
  type.layout.tiling = {
      16, 1, {{.axis = 1, .parts = 16, .groups = 16, .block = 16, .padding = Padding::Zero}}, 0};
  const ResolvedLayout layout(type);
  EXPECT_EQ(layout.bounds(3)[1], (AxisSpan{216, 288, 296}));
  EXPECT_EQ(layout.shard_bytes(3), 4U * 80 * 2);
}

TEST(ResolvedLayout, left_grid_owner_formula) {
  // t = col + Cp*(k + Kp*row) (compiler.md 2.4), Cp = 3, Kp = 2, Rp = 4.
  TensorType type{{8, 64}, {Precision::F16, 0}, {}};
  type.layout.order.kind = Order::AmpLeft;
  type.layout.tiling = {24, 3, {{.axis = 1, .parts = 2, .block = 32}, {.axis = 0, .parts = 4}}, 0};
  const ResolvedLayout layout(type);
  for (std::uint32_t col = 0; col < 3; ++col)
    for (std::uint32_t k = 0; k < 2; ++k)
      for (std::uint32_t row = 0; row < 4; ++row) {
        const auto b = layout.bounds(col + 3 * (k + 2 * row));
        EXPECT_EQ(b[0].start, row * 2);
        EXPECT_EQ(b[1].start, k * 32);
      }
}

TEST(ResolvedLayout, right_stage_has_replicas_outermost) {
  // BM(32,16), cols stride 1, K stride Cp, replicas Rp.
  TensorType type{{64, 48}, {Precision::F16, 0}, {}};
  type.layout.order = {Order::BlockMajor, 32, 16};
  type.layout.tiling = {
      12,
      2,
      {{.axis = 1, .parts = 3, .block = 16, .stride = 1}, {.axis = 0, .parts = 2, .block = 32, .stride = 3}},
      0};
  const ResolvedLayout layout(type);
  EXPECT_EQ(layout.canonical_owner(10), 4U);
  EXPECT_EQ(layout.replica(4, 1), 10U);
  EXPECT_EQ(layout.bounds(10)[0].start, 32U);
  EXPECT_EQ(layout.bounds(10)[1].start, 16U);
}

TEST(ResolvedLayout, empty_last_shard) {
  // 5 blocks over 6 parts: the last owner has nothing.
  TensorType type{{80, 16}, {Precision::F16, 0}, {}};
  type.layout.order = {Order::BlockMajor, 16, 16};
  type.layout.tiling = {6, 1, {{.axis = 0, .parts = 6, .block = 16, .padding = Padding::Zero}}, 0};
  const ResolvedLayout layout(type);
  EXPECT_EQ(layout.shard_bytes(5), 0U);
  EXPECT_EQ(layout.shard_bytes(4), 512U);
}

TEST(ResolvedLayout, refuses_what_breaks_a_rule) {
  const auto kind_of = [](const TensorType& type) {
    try {
      ResolvedLayout layout(type);
    } catch (const Error& e) {
      return e.kind == ErrorKind::Shape;
    }
    return false;
  };
  TensorType good = rows_over({1, 729, 1152}, 183);
  EXPECT_FALSE(kind_of(good));
  TensorType type = good;
  type.layout.tiling.tile_count = 182;
  EXPECT_TRUE(kind_of(type));
  type = good;
  type.layout.tiling.axes[0].block = 2;  // 729 is odd and the policy is Reject
  EXPECT_TRUE(kind_of(type));
  type = good;
  type.layout.tiling.axes.push_back({.axis = 1});
  EXPECT_TRUE(kind_of(type));
  type = good;
  type.layout.order.kind = Order::AmpRight;  // shard rows are no multiple of 16
  EXPECT_TRUE(kind_of(type));
  type = good;
  type.layout.tiling.axes[0].stride = 2;
  EXPECT_TRUE(kind_of(type));
  type = good;
  type.layout.tiling.axes.clear();
  type.layout.tiling.linear_grain = 5;
  EXPECT_TRUE(kind_of(type));
  type = good;
  type.layout.tiling.axes[0].groups = 2;
  EXPECT_TRUE(kind_of(type));
}

TEST(ResolvedLayout, text_form) {
  TensorType type{{2, 729, 1152}, {Precision::F8, -4}, {}};
  type.layout.order.kind = Order::AmpLeft;
  type.layout.tiling = {60, 6, {{.axis = 2, .parts = 10, .block = 32, .padding = Padding::Zero}}, 0};
  EXPECT_EQ(to_string(type), "[2,729,1152] F8{-4} AL Std tiles=60 replicas=6 2:P10,b32,Z");
}

}  // namespace
}  // namespace tw::tensor
