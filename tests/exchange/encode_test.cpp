// Rows against the worked rows of hardware.md 3.10, at the start times given there.
#include <gtest/gtest.h>

#include "exchange/row.h"
#include "support.h"

namespace tw::exchange::test {
namespace {

using Words = std::vector<std::uint32_t>;

Rows rows_at(const Problem& p, const std::vector<std::uint32_t>& starts) {
  const Device device = c600();
  const Rows rows = encode(device, timed(p, starts));
  EXPECT_EQ(first(check(device, p, rows)), "");
  return rows;
}

TEST(WorkedRows, E1PointToPoint) {
  Problem p;
  add(p, tile(0), 0x60000, 3, {{tile(1286), 0x70000}});
  const Rows rows = rows_at(p, {23});
  EXPECT_EQ(row_of(rows, tile(0)).words, (Words{0x40a00016, 0x784c0001, 0x43a00000}));
  const Row& r = row_of(rows, tile(1286));
  EXPECT_EQ(r.words, (Words{0x64000000, 0x64008640, 0x6181c000, 0x40a00007, 0x43a00000}));
  EXPECT_EQ(r.horizon, 61u);
  EXPECT_EQ(r.receives, 1u);
  EXPECT_EQ(r.sites, (std::vector<Site>{{2, 0x3FFFF, 0}}));
  EXPECT_EQ(row_of(rows, tile(0)).sites, (std::vector<Site>{{1, 0x1FFFF8, 0}}));
}

TEST(WorkedRows, E2Multicast) {
  Problem p;
  add(p, tile(0), 0x60000, 3, {{tile(274), 0x70000}, {tile(1286), 0x71000}});
  const Rows rows = rows_at(p, {23});
  EXPECT_EQ(row_of(rows, tile(0)).words, (Words{0x40a00016, 0x784c0003, 0x43a00000}));
  EXPECT_EQ(row_of(rows, tile(274)).words,
            (Words{0x64000000, 0x64008640, 0x6181c000, 0x40a00007, 0x43a00000}));
  EXPECT_EQ(row_of(rows, tile(1286)).words,
            (Words{0x64000000, 0x64008640, 0x6181c400, 0x40a00007, 0x43a00000}));
}

Problem two_sources(std::uint32_t second) {
  Problem p;
  add(p, tile(10), 0x60000, 64, {{tile(100), 0x70000}});
  add(p, tile(20), 0x62000, 64, {{tile(100), second}});
  return p;
}

TEST(WorkedRows, E3CutOverAndCarriedPointer) {
  const Rows rows = rows_at(two_sources(0x70100), {26, 80});
  EXPECT_EQ(row_of(rows, tile(10)).words, (Words{0x40a00019, 0x7fec0001, 0x43a00000}));
  EXPECT_EQ(row_of(rows, tile(20)).words, (Words{0x40a0004f, 0x7fec4001, 0x43a00000}));
  const Row& r = row_of(rows, tile(100));
  EXPECT_EQ(r.words, (Words{0x64000140, 0x61d9c000, 0x6400c280, 0x640fc640, 0x40a00040, 0x43a00000}));
  EXPECT_EQ(r.horizon, 194u);
}

TEST(WorkedRows, E4FullDuplex) {
  Problem p = two_sources(0x72000);
  add(p, tile(100), 0x66000, 200, {{tile(500), 0x74000}});
  const Rows rows = rows_at(p, {26, 80, 57});
  EXPECT_EQ(row_of(rows, tile(100)).words, (Words{0x64000140, 0x40a00037, 0x784cc001, 0x7079c000, 0x77700280,
                                                  0x7079c800, 0x77f00640, 0x70004001, 0x43a00000}));
  EXPECT_EQ(row_of(rows, tile(100)).horizon, 257u);
  EXPECT_EQ(row_of(rows, tile(500)).words,
            (Words{0x64000104, 0x62d9d000, 0x641ac640, 0x40a00060, 0x43a00000}));
  EXPECT_EQ(row_of(rows, tile(500)).horizon, 298u);
}

TEST(WorkedRows, E5PairInsideMessage) {
  Row row;
  const std::vector<RowControl> controls = {
      {1, 320, false}, {60, 640, false}, {60, 0x1C800, true}, {140, 0x640, false}};
  ASSERT_TRUE(write_row({{10, 120, 0x66000, 12, 1}}, controls, 150, row));
  EXPECT_EQ(row.words, (Words{0x64000140, 0x40a00008, 0x780cc001, 0x75e00001, 0xf7ecc189, 0x0a01c800,
                              0x70c00001, 0x64024640, 0x40a00009, 0x43a00000}));
  // A moving source: both words that hold its address step by twice the stride (3.9).
  EXPECT_EQ(row.sites, (std::vector<Site>{{2, 0x1FFFF8, 24}, {4, 0x1FFFF8, 24}, {5, 0x3FFFF, 0}}));
}

TEST(WorkedRows, E6LongestMessage) {
  Problem p;
  add(p, tile(32), 0x60000, 4148, {{tile(0), 0x84000}});
  const Rows rows = rows_at(p, {0});
  EXPECT_EQ(row_of(rows, tile(32)).words, (Words{0x7fec0001, 0x766fc001, 0x43a00000}));
  EXPECT_EQ(row_of(rows, tile(0)).words, (Words{0x6400c400, 0x619a1000, 0x67ffc640, 0x40a00038, 0x43a00000}));
}

TEST(WorkedRows, VendorRowOfFourMessages) {
  Problem p;
  const PhysId to(0);
  const std::uint32_t sources[] = {130, 192, 194, 256}, pointers[] = {0x14048, 0x15000, 0x16000, 0x17000};
  std::vector<std::uint32_t> starts;
  for (std::uint32_t i = 0; i < 4; ++i) {
    add(p, PhysId(sources[i]), 0x70000, 52, {{to, 4 * pointers[i]}});
    starts.push_back(
        static_cast<std::uint32_t>(static_cast<int>(52 * i) - topology::tau(PhysId(sources[i]), to)));
  }
  EXPECT_EQ(row_of(rows_at(p, starts), to).words,
            (Words{0x64000082, 0x40a00032, 0xf6600000, 0x03014048, 0xf6600000, 0x03095000, 0xf6600000,
                   0x04016000, 0xf7200000, 0x19017000, 0x43a00000}));
}

// Alignment by decision 28: the delayxpic becomes a delay and a one-event control.
TEST(Alignment, SplitsAControlThatLastsLonger) {
  Row row;
  ASSERT_TRUE(write_row({}, {{5, 320, false}, {6, 640, false}, {6, 0x1C000, true}}, 20, row));
  EXPECT_EQ(row.words, (Words{0x40a00003, 0x64000140, 0xf1c00000, 0x0a01c000, 0x43a00000}));
}

TEST(Alignment, ReportsWhenThereIsNoSlack) {
  Row row;
  // Words: control @1, then the pair must start at event 1: one word, no event to split.
  EXPECT_FALSE(write_row({}, {{1, 320, false}, {2, 640, false}, {2, 0x1C000, true}}, 20, row));
}

TEST(Estimate, OnePairTakes24Bytes) {
  Problem p;
  add(p, PhysId(0), 0x60000, 3, {{PhysId(5), 0x70000}});
  add(p, PhysId(5), 0x60000, 65, {{PhysId(7), 0x70000}});
  add(p, PhysId(9), 0x60000, 8, {{PhysId(7), 0x70104}});
  const auto bytes = estimate_row_bytes(p, 16);
  EXPECT_EQ(bytes[0], 16u);
  EXPECT_EQ(bytes[5], 32u);  // 8 + 12 received + 12 sent
  EXPECT_EQ(bytes[7], 32u);  // 8 + 12 + 8: the second continues
  EXPECT_EQ(bytes[1], 0u);
}

}  // namespace
}  // namespace tw::exchange::test
