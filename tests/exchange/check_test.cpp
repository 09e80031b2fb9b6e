// The checker must notice every change of a good set of rows.
#include <gtest/gtest.h>

#include "base/error.h"
#include "exchange/reading.h"
#include "support.h"
#include "target/isa.h"

namespace tw::exchange::test {
namespace {

struct Phase {
  Device device = c600();
  Problem problem;
  Rows rows;
};

// Multicasts, cut-overs, full duplex, moving sources.
Phase sample() {
  Phase p;
  p.problem.iterations = 3;
  std::mt19937 rng(5);
  std::vector<PhysId> tiles;
  for (std::uint32_t i = 0; i < 6; ++i) tiles.push_back(tile(37 * i));
  Problem made = random_problem(rng, tiles, 40, 50, false);
  p.problem.transfers = made.transfers;
  p.problem.receivers = made.receivers;
  for (std::size_t i = 0; i < p.problem.transfers.size(); i += 3)
    p.problem.transfers[i].source_stride = 0x400;
  p.rows = encode(p.device, schedule(p.device, p.problem));
  return p;
}

bool complains(const Phase& p, const Rows& rows) { return !check(p.device, p.problem, rows).empty(); }

TEST(Mutations, EveryFlippedAddressBitIsNoticed) {
  const Phase p = sample();
  ASSERT_FALSE(complains(p, p.rows));
  for (std::size_t r = 0; r < p.rows.rows.size(); ++r) {
    for (const Site& s : p.rows.rows[r].sites) {
      Rows bad = p.rows;
      bad.rows[r].words[s.word] ^= s.mask & (~s.mask + 1);
      EXPECT_TRUE(complains(p, bad)) << "row " << r << " word " << s.word;
    }
  }
}

TEST(Mutations, EveryChangedDurationIsNoticed) {
  const Phase p = sample();
  for (std::size_t r = 0; r < p.rows.rows.size(); ++r) {
    const auto& words = p.rows.rows[r].words;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      auto instr = isa::decode(words[i], words[i + 1]);
      ASSERT_TRUE(instr);
      Rows bad = p.rows;
      instr->n += instr->n > 1 ? -1u : 1u;
      bad.rows[r].words[i] = isa::encode(*instr).word0;
      EXPECT_TRUE(complains(p, bad)) << "row " << r << " word " << i;
      if (instr->op == isa::Op::SendPicP) ++i;
    }
  }
}

TEST(Mutations, WrongStepsAreNoticed) {
  const Phase p = sample();
  for (std::size_t r = 0; r < p.rows.rows.size(); ++r) {
    for (std::size_t i = 0; i < p.rows.rows[r].sites.size(); ++i) {
      Rows bad = p.rows;
      bad.rows[r].sites[i].step += 8;
      EXPECT_TRUE(complains(p, bad)) << "row " << r << " site " << i;
    }
  }
}

TEST(Mutations, MissingAndAdditionalDeliveriesAreNoticed) {
  const Phase p = sample();
  Problem more = p.problem;
  add(more, tile(0), 0x60000, 1, {{tile(37), 0xD0000}});
  EXPECT_FALSE(check(p.device, more, p.rows).empty());
  Problem fewer = p.problem;
  fewer.transfers.pop_back();
  EXPECT_FALSE(check(p.device, fewer, p.rows).empty());
}

// Rows that decode, whose stores or reads break a rule.
std::string fault_of(const Problem& p, const std::vector<std::uint32_t>& starts) {
  const Device device = c600();
  return first(check(device, p, encode(device, timed(p, starts))));
}

TEST(Hazards, AReadSixEventsBehindAStoreIsFree) {  // decision 14
  Problem p;
  const PhysId a = tile(0), b = tile(1), c = tile(2);
  add(p, a, 0x60000, 10, {{b, 0x70000}});
  add(p, b, 0x71000, 10, {{c, 0x70000}});
  const auto last_store = static_cast<std::uint32_t>(40 + topology::lambda(a, b) + 9);
  EXPECT_EQ(fault_of(p, {40, last_store + 6}), "");
  EXPECT_NE(fault_of(p, {40, last_store + 5}), "");
  p.transfers[1].source_address = 0x74000;  // the next element
  EXPECT_EQ(fault_of(p, {40, last_store + 5}), "");
}

TEST(Hazards, ReadAfterWriteIsComparedInOrder) {
  Problem p;
  const PhysId a = tile(0), b = tile(90), c = tile(700);
  add(p, a, 0x60000, 10, {{b, 0x70000}});
  add(p, b, 0x70000, 10, {{c, 0x70000}});
  const auto stored = static_cast<std::uint32_t>(100 + topology::lambda(a, b) + 10);
  EXPECT_EQ(fault_of(p, {100, stored + 5}), "");
  EXPECT_NE(fault_of(p, {100, 80}), "");
}

TEST(Reading, RefusesWhatDoesNotBelongInARow) {
  using Words = std::vector<std::uint32_t>;
  EXPECT_FALSE(read_row(Words{0x40a00016, 0x784c0001}).faults.empty());              // no return
  EXPECT_FALSE(read_row(Words{0x40a00016, 0x19800001, 0x43a00000}).faults.empty());  // setzi
  EXPECT_FALSE(read_row(Words{0x70000002, 0x43a00000}).faults.empty());  // sendoff without a stream
  EXPECT_FALSE(
      read_row(Words{0x40a00016, 0xf6600000, 0x03014048, 0x43a00000}).faults.empty());  // misaligned pair
  EXPECT_TRUE(read_row(Words{0x40a00016, 0x784c0001, 0x43a00000}).faults.empty());
}

}  // namespace
}  // namespace tw::exchange::test
