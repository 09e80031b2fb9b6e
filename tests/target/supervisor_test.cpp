#include "target/supervisor.h"

#include <gtest/gtest.h>

namespace tw::isa {
namespace {

Effect run(std::uint32_t word, Registers& m, std::uint32_t& target) {
  return apply(decode(word).value(), m, target);
}

TEST(Supervisor, WordsOfRegistersAndBranches) {
  Registers m{};
  std::uint32_t target = 0;
  EXPECT_EQ(run(setzi(3, 0xFFFFF), m, target), Effect::Done);
  EXPECT_EQ(m[3], 0xFFFFFU);
  EXPECT_EQ(run(add(3, 3, -1), m, target), Effect::Done);
  EXPECT_EQ(m[3], 0xFFFFEU);
  EXPECT_EQ(run(shl(4, 3, 4), m, target), Effect::Done);
  EXPECT_EQ(m[4], 0xFFFFE0U);
  EXPECT_EQ(run(setzi(15, 7), m, target), Effect::Done);
  EXPECT_EQ(value_of(m, 15), 0U);
  EXPECT_EQ(run(brz(3, 0x5C000), m, target), Effect::Done);
  EXPECT_EQ(run(brz(15, 0x5C000), m, target), Effect::Branch);
  EXPECT_EQ(target, 0x5C000U);
  EXPECT_EQ(run(br(4), m, target), Effect::Branch);
  EXPECT_EQ(target, 0xFFFFE0U);
  EXPECT_EQ(run(ld32(0, 0, 15, 0), m, target), Effect::Other);
  EXPECT_EQ(run(sync(3), m, target), Effect::Other);
}

// hardware.md 1.3 and decisions.md 11: six cycles a word, but the fixed words before a row are the phase's.
TEST(Supervisor, TheFixedWordsBeforeARowAreNotCharged) {
  SupervisorClock clock;
  for (const std::uint32_t w : {setzi(2, 0), ld32(6, kM11Stack, kM15Zero, 1), setzi(8, 0),
                                put(kIncomingBase, 8), put(kOutgoingBase, 6), call(kM7BarrierReturn, 0x5C000),
                                setzi(8, 1), put(kIncomingDcount, 8), sync(3)})
    clock.word(decode(w).value());
  EXPECT_EQ(clock.time, 9U * 6);
  clock.arrive();
  EXPECT_EQ(clock.time, 2U * 6);
}

TEST(Supervisor, AHostBatchAndItsDescriptorAreNotCharged) {
  SupervisorClock clock;
  for (const std::uint32_t w : {setzi(0, 1), setzi(2, 0x60000), call(kM10Return, 0x5C000)})
    clock.word(decode(w).value());
  clock.arrive_at_host_run();
  EXPECT_EQ(clock.time, 6U);
}

}  // namespace
}  // namespace tw::isa
