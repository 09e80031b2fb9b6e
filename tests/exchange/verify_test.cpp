// The rules of messages, against the slow reading of the same rules and against the rows that come of them.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "support.h"

namespace tw::exchange::test {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

bool only_alignment(const std::vector<std::string>& faults) {
  return std::ranges::all_of(faults,
                             [](const std::string& f) { return f.find("(C2)") != std::string::npos; });
}

// Few messages at random times, so that legal and broken schedules are both frequent. Sources and
// destinations in other memory: the rules of elements do not matter.
RC_GTEST_PROP(VerifySchedule, AgreesWithTheSlowRulesAndWithTheRows, (std::uint32_t seed)) {
  std::mt19937 rng(seed);
  const Device device = c600();
  std::vector<PhysId> tiles;
  const std::uint32_t count = 2 + rng() % 3;
  for (std::uint32_t i = 0; i < count; ++i) tiles.push_back(tile(37 * i));
  const Problem p = random_problem(rng, tiles, 1 + rng() % 5, 1 + rng() % 30, false);
  std::vector<std::uint32_t> starts;
  for (std::size_t i = 0; i < p.transfers.size(); ++i) starts.push_back(20 + rng() % 80);
  const Schedule s = timed(p, starts);

  SlowRules rules(device, p);
  bool slow = true;
  for (std::uint32_t i = 0; i < p.transfers.size(); ++i) {
    slow = slow && rules.fits(i, starts[i]);
    rules.placed.push_back({i, starts[i]});
  }
  const std::vector<std::string> faults = verify(device, s);
  RC_CLASSIFY(slow, "legal");
  if (slow)
    RC_ASSERT(only_alignment(faults));  // the slow rules write controls that rows leave out, and know no C2
  if (faults.empty()) RC_ASSERT(check(device, p, encode(device, s)).empty());
  const auto names = [&](const char* rule) {
    return std::ranges::any_of(faults,
                               [&](const std::string& f) { return f.find(rule) != std::string::npos; });
  };
  if (names("(S1)") || names("(S2)") || names("(R1)") || names("(R4)")) RC_ASSERT(!slow);
}

TEST(VerifySchedule, NamesTheRule) {
  const Device device = c600();
  Problem p;  // 0 -> 1 and 0 -> 2, 10 words each; hardware.md 2.2: tau(0, 1) = -28, tau(0, 2) = -31
  add(p, tile(0), 0x60000, 10, {{tile(1), 0x90000}});
  add(p, tile(0), 0x61000, 10, {{tile(2), 0x90000}});
  EXPECT_THAT(verify(device, timed(p, {31, 41})), ElementsAre());
  EXPECT_THAT(verify(device, timed(p, {31, 40})),
              ElementsAre("tile 0: sends at [31, 41) and [40, 50) overlap (S1)"));
  EXPECT_THAT(
      verify(device, timed(p, {40, 30})),
      ElementsAre(
          "message 1: starts at cycle 30: tile 64 would have to select it at cycle 0, before its row (R4)"));
  EXPECT_THAT(verify(device, timed(p, {(1U << 24) + 1, 30})).front(),
              HasSubstr("the last possible is 16777216"));
  Problem meet;  // 1 and 2 -> 0: tau -29 and -27
  add(meet, tile(1), 0x60000, 10, {{tile(0), 0x90000}});
  add(meet, tile(2), 0x61000, 10, {{tile(0), 0x91000}});
  EXPECT_THAT(verify(device, timed(meet, {40, 40})),
              ElementsAre("tile 0: mux windows [12, 22) of tile 2 and [14, 24) of tile 64 overlap (R1)"));
  EXPECT_THAT(verify(device, timed(meet, {38, 46})), ElementsAre());  // cut over at 20
  Problem duplex;  // 1 -> 0 selects at 12 and lets go at 22, while 0 sends
  add(duplex, tile(1), 0x60000, 10, {{tile(0), 0x90000}});
  add(duplex, tile(0), 0x61000, 10, {{tile(2), 0x91000}});
  EXPECT_THAT(verify(device, timed(duplex, {50, 31})),
              ElementsAre("tile 0: a receive control at cycle 32, the second of the send at [31, 41) (S2)"));
  EXPECT_THAT(verify(device, timed(duplex, {49, 31})), ElementsAre());
}

TEST(VerifySchedule, MessagesMustBeTransfers) {
  const Device device = c600();
  Problem p;
  add(p, tile(0), 0x60000, 4149, {{tile(1), 0x90000}});
  EXPECT_THAT(verify(device, timed(p, {50})),
              ElementsAre("message 0: 4149 words, a message has at most 4148"));
  p.transfers[0].words = 0;
  EXPECT_THAT(verify(device, timed(p, {50})), ElementsAre("message 0: no words"));
  p.transfers[0] = {tile(0), 0x4BFFC, 0, 4, 0, 1};
  EXPECT_THAT(verify(device, timed(p, {50})).front(), HasSubstr("outside memory"));
}

}  // namespace
}  // namespace tw::exchange::test
