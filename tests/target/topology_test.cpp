#include "target/topology.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/error.h"

namespace tw::topology {
namespace {

struct Route {
  std::uint32_t logical_s, logical_d, physical_s, physical_d;
  int displacement;
  std::uint32_t direction;
  int tau, lambda;
  bool early;  // the receiver is the member of its pair with the smaller tau
};

// hardware.md 2.2, unit-test vectors.
const Route kRoutes[] = {
    {0, 1, 0, 2, 2, 1, -28, 25, false},           {1, 0, 2, 0, 1, 1, -29, 24, true},
    {0, 2, 0, 64, 1, 1, -31, 24, true},           {2, 0, 64, 0, 1, 1, -27, 26, true},
    {0, 46, 0, 1409, 5, 1, -69, 28, false},       {0, 47, 0, 1411, 4, 1, -70, 27, true},
    {46, 0, 1409, 0, -5, 2, 19, 72, false},       {0, 736, 0, 32, 47, 1, -4, 49, false},
    {736, 0, 32, 0, -47, 2, 68, 121, false},      {0, 274, 0, 9, 17, 1, -23, 30, false},
    {0, 1286, 0, 53, 13, 1, -23, 30, true},       {1286, 0, 53, 0, -11, 2, 7, 60, false},
    {736, 100, 32, 260, -41, 2, 49, 110, false},  {100, 736, 260, 32, 41, 1, 1, 54, false},
    {1286, 1471, 53, 63, -10, 2, -14, 39, true},  {32, 0, 1024, 0, 1, 1, 3, 56, true},
    {1471, 0, 63, 0, 1, 1, -13, 40, true},        {700, 701, 1117, 1119, -2, 2, -28, 59, false},
    {701, 1300, 1119, 440, -37, 2, 47, 112, true}};

TEST(Topology, MatchesTheVectorsOfTheSpecification) {
  for (const Route& r : kRoutes) {
    SCOPED_TRACE(testing::Message() << r.logical_s << " -> " << r.logical_d);
    const PhysId s = physical(TileId(r.logical_s)), d = physical(TileId(r.logical_d));
    EXPECT_EQ(s.value, r.physical_s);
    EXPECT_EQ(d.value, r.physical_d);
    EXPECT_EQ(displacement(s, d), r.displacement);
    EXPECT_EQ(direction(s, d), r.direction);
    EXPECT_EQ(tau(s, d), r.tau);
    EXPECT_EQ(lambda(s, d), r.lambda);
    EXPECT_EQ(tau(s, d) < tau(s, PhysId(d.value ^ 2)), r.early);
  }
}

TEST(Topology, MapIsAPermutationWithTheKnownPoints) {
  const std::pair<std::uint32_t, std::uint32_t> points[] = {
      {0, 0},  {1, 2},  {2, 64},    {3, 66},  {44, 1408}, {45, 1410}, {46, 1409}, {47, 1411},
      {91, 3}, {92, 4}, {100, 260}, {274, 9}, {736, 32},  {1286, 53}, {1470, 61}, {1471, 63}};
  for (const auto& [l, p] : points) EXPECT_EQ(physical(TileId(l)).value, p) << l;
  std::vector<bool> seen(kTiles, false);
  for (std::uint32_t l = 0; l < kTiles; ++l) {
    const PhysId p = physical(TileId(l));
    ASSERT_LT(p.value, kTiles);
    EXPECT_FALSE(seen[p.value]);
    seen[p.value] = true;
    EXPECT_EQ(logical(p).value, l);
    EXPECT_EQ(physical(TileId(l ^ 1)).value, p.value ^ 2) << "pair partner of " << l;
  }
  EXPECT_THROW(physical(TileId(kTiles)), InternalError);
  EXPECT_THROW(logical(PhysId(kTiles)), InternalError);
}

TEST(Topology, WholeDeviceChecksumAndProperties) {
  std::uint32_t hash = 0, forward = 0;
  std::int64_t sum = 0;
  int min_tau = 1000, max_tau = -1000, min_lambda = 1000, max_lambda = -1000;
  for (std::uint32_t i = 0; i < kTiles; ++i)
    for (std::uint32_t j = 0; j < kTiles; ++j) {
      if (i == j) continue;
      const PhysId s = physical(TileId(i)), d = physical(TileId(j));
      const int t = tau(s, d);
      hash = hash * 1000003u + (static_cast<std::uint32_t>(t) & 0xffffu) * 4u + direction(s, d);
      sum += t;
      forward += direction(s, d) == 1 ? 1 : 0;
      min_tau = std::min(min_tau, t), max_tau = std::max(max_tau, t);
      min_lambda = std::min(min_lambda, lambda(s, d)), max_lambda = std::max(max_lambda, lambda(s, d));
      ASSERT_EQ(std::abs(t - tau(s, PhysId(d.value ^ 2))), 1);
    }
  EXPECT_EQ(hash, 0xA3151840u);
  EXPECT_EQ(sum, -21355040);
  EXPECT_EQ(forward, 1082656u);
  EXPECT_EQ(min_tau, -78);
  EXPECT_EQ(max_tau, 112);
  EXPECT_EQ(min_lambda, 19);
  EXPECT_EQ(max_lambda, 165);
}

TEST(Topology, SelfLatencyIs28Or29) {
  for (std::uint32_t p = 0; p < kTiles; ++p) {
    const int t = tau(PhysId(p), PhysId(p));
    EXPECT_TRUE(t == -28 || t == -29) << p;
  }
}

}  // namespace
}  // namespace tw::topology
