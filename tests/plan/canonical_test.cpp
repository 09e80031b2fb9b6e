// Worked vectors of compiler.md 2.5 (owners of boundary layouts) and 2.6 (compact homes).
#include "plan/canonical.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace tw::plan {
namespace {

using tensor::Precision;
using tensor::Shape;

std::uint32_t owners(const Shape& shape, Policy policy = Policy::Default,
                     Precision precision = Precision::F16) {
  return canonical_type(shape, 1472, policy, precision).layout.tiling.tile_count;
}

TEST(Canonical, DefaultOwnersOfTheWorkedVectors) {
  EXPECT_EQ(owners({1, 729, 1152}), 183U);
  EXPECT_EQ(owners({2, 729, 1152}), 365U);
  EXPECT_EQ(owners({1, 729, 3456}), 365U);
  EXPECT_EQ(owners({2, 729, 3456}), 729U);
  EXPECT_EQ(owners({1, 729, 4304}), 729U);
  EXPECT_EQ(owners({1, 577, 1024}), 73U);
  EXPECT_EQ(owners({2, 577, 1024}), 145U);
  EXPECT_EQ(owners({2, 577, 4096}), 577U);
  EXPECT_EQ(owners({2, 729, 1152}, Policy::Default, Precision::F8), 183U);
}

TEST(Canonical, CapacityTakesEveryRow) {
  EXPECT_EQ(owners({2, 729, 1152}, Policy::Capacity), 729U);
  EXPECT_EQ(owners({2, 577, 1024}, Policy::Capacity), 577U);
  EXPECT_EQ(owners({1, 4000, 64}, Policy::Capacity), 1472U);
}

TEST(Canonical, RowsStayTogetherAndBalanced) {
  const tensor::ResolvedLayout layout(canonical_type({2, 729, 1152}, 1472, Policy::Default));
  std::uint32_t rows = 0;
  for (std::uint32_t o = 0; o < layout.owners(); ++o) {
    const auto bounds = layout.bounds(o);
    EXPECT_EQ(bounds[0].physical(), 2U);     // both images
    EXPECT_EQ(bounds[2].physical(), 1152U);  // whole rows
    EXPECT_EQ(bounds[1].physical(), bounds[1].logical());
    EXPECT_LE(bounds[1].logical(), 2U);
    rows += bounds[1].logical();
  }
  EXPECT_EQ(rows, 729U);
}

TEST(Canonical, FewTilesStillHoldEveryRow) {
  for (const std::uint32_t tiles : {1U, 3U, 16U, 100U}) {
    const tensor::TensorType type = canonical_type({1, 729, 1152}, tiles, Policy::Default);
    EXPECT_LE(type.layout.tiling.tile_count, tiles);
  }
}

struct HomeCase {
  Shape shape;
  std::uint32_t rows, cols, bytes;
};

TEST(Homes, MatrixHomesOfBothModels) {
  const std::vector<HomeCase> cases{{{1152, 3456}, 6, 216, 3072}, {{1152, 1152}, 18, 72, 1024},
                                    {{1152, 4304}, 36, 40, 3584}, {{4304, 1152}, 20, 72, 3584},
                                    {{588, 1152}, 19, 72, 512},   {{1152, 2304}, 9, 144, 2048},
                                    {{1024, 3072}, 7, 192, 2560}, {{1024, 1024}, 16, 64, 1024},
                                    {{1024, 4096}, 17, 86, 3072}, {{4096, 1024}, 22, 64, 3072}};
  for (const HomeCase& c : cases) {
    const tensor::TensorType type =
        matrix_home(c600(), c.shape, {Precision::F8, -4}, tensor::MemoryClass::Standard, 1472, 24);
    const tensor::ResolvedLayout layout(type);
    EXPECT_EQ(type.layout.tiling.axes.at(0).parts, c.rows) << tensor::to_string(c.shape);
    EXPECT_EQ(type.layout.tiling.axes.at(1).parts, c.cols) << tensor::to_string(c.shape);
    EXPECT_EQ(layout.max_shard_bytes(), c.bytes) << tensor::to_string(c.shape);
  }
}

TEST(Homes, VectorsTakeChunksOf256Bytes) {
  for (const auto& [width, expected] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1152, 9}, {3456, 27}, {4304, 34}}) {
    EXPECT_EQ(vector_home(c600(), {1, 1, width}, 1472, 27, tensor::Precision::F16).layout.tiling.tile_count,
              expected)
        << width;
  }
}

TEST(Homes, TooManyCopiesAreRefused) {
  try {
    matrix_home(c600(), {4304, 1152}, {Precision::F8, -4}, tensor::MemoryClass::Standard, 1472, 1000);
    FAIL() << "3584000 bytes cannot fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::Capacity);
  }
}

// Sequences of the same size must not pile up on the first tiles: with four homes of one tile each on four
// tiles every tile ends up with one.
TEST(Homes, RotationSpreadsSmallHomes) {
  Plan plan;
  plan.tiles = 4;
  for (int i = 0; i < 4; ++i) {
    Tensor t;
    t.name = "p" + std::to_string(i);
    t.type = vector_home(c600(), {1, 1, 8}, 4, 1, tensor::Precision::F16);
    t.owners.domain = 4;
    t.role = Role::Parameter;
    t.members = {t.name};
    plan.tensors.push_back(t);
  }
  rotate_homes(plan);
  std::set<std::uint32_t> tiles;
  for (const Tensor& t : plan.tensors) tiles.insert(t.owners.tile_of(0));
  EXPECT_EQ(tiles.size(), 4U);
}

}  // namespace
}  // namespace tw::plan
