#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/report.h"
#include "report/timeline.h"
#include "report/walk.h"
#include "sample.h"

namespace tw::report {
namespace {
using testing::ElementsAre;
using json = nlohmann::json;

Report made(const package::Package& p) { return build(c600(), p, "two.ipuexe", 1234, 1); }
json traced(const package::Package& p, const std::vector<std::uint32_t>& tiles) {
  return json::parse(to_trace(made(p), p, tiles));
}

// decisions.md 11: six cycles a word but for the fixed ones before a row; compiler.md 5.4: a fill takes
// ceil(bytes / 48) + 11. A fill is called by three words.
constexpr std::uint64_t kWord = 6, kFill480 = 21 + 3 * kWord, kFill96 = 13 + 3 * kWord,
                        kFill48 = 12 + 3 * kWord, kFill144 = 14 + 3 * kWord, kFill4800 = 111 + 3 * kWord;
constexpr std::uint64_t kEnter = 2 * kWord;     // setzi, st32
constexpr std::uint64_t kAgain = 6 * kWord;     // count down (3), brz, setzi, br
constexpr std::uint64_t kLeave = 4 * kWord;     // count down, brz taken
constexpr std::uint64_t kComplete = 3 * kWord;  // brz taken, setzi, br

std::vector<std::uint64_t> cycles_of_meetings(const Report& r) {
  std::vector<std::uint64_t> out;
  for (const Meeting& m : r.meetings) out.push_back(m.cycles);
  return out;
}

TEST(Walk, GivesEveryStretchItsCycles) {
  const package::Package p = sample();
  TileWalk walk(p.image, 0, kProgram);
  std::vector<std::uint64_t> cycles, kernels;
  std::vector<std::uint32_t> rows;
  for (int i = 0; i < 6; ++i) {
    std::vector<Work> work;
    const Stretch s = walk.next(&work);
    cycles.push_back(s.cycles);
    std::uint64_t& kernel = kernels.emplace_back();
    for (const Work& w : work) kernel += w.kind == Work::Kernel ? w.cycles : 0;
    rows.push_back(s.row);
    EXPECT_EQ(s.barrier, i < 5 ? Barrier::Exchange : Barrier::End) << i;
  }
  const std::uint64_t again = kFill144 + kAgain + kFill48;
  EXPECT_THAT(cycles, ElementsAre(kFill480, kEnter + kFill48, again, again, kFill144 + kLeave,
                                  kFill4800 + kComplete));
  EXPECT_THAT(kernels, ElementsAre(21, 12, 26, 26, 14, 111));
  EXPECT_THAT(rows, ElementsAre(kRows + 8, kRows + 0x20, kRows + 0x20, kRows + 0x20, kRows, 0));
}

TEST(Walk, TheWorkOfAStretchAddsUpToIt) {
  const package::Package p = sample();
  TileWalk walk(p.image, 1, kProgram);
  std::vector<Work> work;
  const Stretch s = walk.next(&work);
  std::vector<std::uint64_t> cycles;
  for (const Work& w : work) cycles.push_back(w.cycles);
  EXPECT_THAT(cycles,
              ElementsAre(18, 21, 18, 13));  // arguments and call, fill, twice; no word before the row
  EXPECT_EQ(s.cycles, 70U);
}

TEST(Report, TheTilesMeetWhenTheLatestArrives) {
  const Report r = made(sample());
  const std::uint64_t constant = c600().phase_constant, again = kFill144 + kAgain + kFill48;
  EXPECT_THAT(cycles_of_meetings(r), ElementsAre(kFill480 + kFill96, kEnter + kFill48, again, again,
                                                 kFill144 + kLeave, kFill4800 + kComplete));
  EXPECT_EQ(r.meetings[0].latest_tile, 1U);
  EXPECT_EQ(r.meetings[1].latest_tile, 0U);
  EXPECT_EQ(r.cycles, kFill480 + kFill96 + kEnter + kFill48 + 2 * again + kFill144 + kLeave + kFill4800 +
                          kComplete + 14 + 3 * 40 + 14 + 5 * constant);
}

TEST(Trace, EveryTrackIsFilledFromZeroToTheCyclesOfTheCall) {
  const package::Package p = sample();
  const json trace = traced(p, {0, 1});
  std::map<int, std::uint64_t> at;
  std::map<int, double> end;
  std::map<std::string, std::uint64_t> by_category;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "E") end[e["tid"]] = e["ts"];
    if (e["ph"] != "B") continue;
    std::uint64_t& now = at[e["tid"]];
    EXPECT_EQ(e["ts"], end[e["tid"]]);                                            // no gap
    EXPECT_NEAR(e["ts"].get<double>(), static_cast<double>(now) / 1500, 0.0005);  // microseconds at 1.5 GHz
    now += e["args"]["cycles"].get<std::uint64_t>();
    if (e["tid"] == 1) by_category[e["cat"]] += e["args"]["cycles"].get<std::uint64_t>();
  }
  for (const auto& [track, ts] : end) EXPECT_NEAR(ts, static_cast<double>(at[track]) / 1500, 0.0005);
  EXPECT_EQ(at.size(), 3U);
  for (const auto& [track, cycles] : at) EXPECT_EQ(cycles, made(p).cycles) << track;
  EXPECT_EQ(trace["otherData"]["cycles"], made(p).cycles);
  EXPECT_EQ(by_category["kernel"], 21U + 3 * (12 + 14) + 111);
  EXPECT_EQ(by_category["waiting"], 13U + 3 * kWord);  // for tile 1 and its second fill
  EXPECT_EQ(by_category["exchange"], 14 + 3 * 40 + 14 + 5 * c600().phase_constant);
}

std::vector<package::Step> steps_of(std::initializer_list<package::StepKind> kinds, std::uint32_t count) {
  std::vector<package::Step> out;
  for (const package::StepKind kind : kinds) out.push_back({"", kind, count});
  return out;
}

TEST(Steps, ACallExecutesARepeatsBodyAgainAndItsBeginOnce) {
  using enum package::StepKind;
  const auto steps = steps_of({Compute, RepeatBegin, Exchange, RepeatEnd, Checkpoint}, 3);
  EXPECT_THAT(steps_of_call(steps, "x"), ElementsAre(0, 1, 2, 3, 2, 3, 2, 3, 4));
}

TEST(Steps, ARepeatThatIsTooLongIsRefusedWhateverStandsInIt) {
  using enum package::StepKind;
  for (const auto inner : {Compute, Exchange})
    EXPECT_THROW(steps_of_call(steps_of({RepeatBegin, inner, RepeatEnd}, 1U << 31), "x"), Error);
}

TEST(Trace, PhasesStandOnTheDevicesTrackInOrderARepeatsAllTimes) {
  std::vector<std::string> names;
  const json trace = traced(sample(), {});
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "B" && e["cat"] == "exchange") names.push_back(e["name"]);
  EXPECT_THAT(names, ElementsAre("in", "layer/a", "layer/a", "layer/a", "out"));
}

TEST(Trace, TheCounterShowsLiveBytesOfTheTile) {
  std::vector<std::pair<double, std::uint64_t>> live;
  const json trace = traced(sample(), {1});
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "C") live.emplace_back(e["ts"], e["args"]["standard"]);
  // Upload, then z in the Repeat's first step, which begins three times.
  std::vector<std::uint64_t> standard;
  for (const auto& [ts, bytes] : live) standard.push_back(bytes);
  EXPECT_THAT(standard, ElementsAre(0, 8192, 0, 8192, 0, 8192, 0));
  EXPECT_TRUE(std::ranges::is_sorted(live, {}, [](const auto& l) { return l.first; }));
}

// Tile 0 hears three words of tile 1 in the first phase, whose rows begin behind the phase constant; what a
// tile hears of itself gets no arrow.
TEST(Trace, WordsBetweenTracksAreArrows) {
  const json trace = traced(sample(), {0, 1});
  std::vector<json> ends;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "s" || e["ph"] == "f") ends.push_back(e);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0]["id"], ends[1]["id"]);
  EXPECT_EQ(ends[0]["tid"], 2);  // tile 1
  EXPECT_EQ(ends[1]["tid"], 1);
  const double row = 70 + c600().phase_constant;
  EXPECT_NEAR(ends[1]["ts"].get<double>(), (row + 11) / 1500, 0.0005);  // delays of 5, 4 words, 2
  EXPECT_GE(ends[0]["ts"].get<double>(), row / 1500 - 0.0005);
  EXPECT_EQ(ends[1]["args"]["words"], 3);
}

TEST(Report, AProgramThatDoesNotFollowItsStepsIsRefused) {
  package::Package p = sample();
  p.side.steps[2].count = 4;  // the Repeat runs three times
  EXPECT_THROW(made(p), Error);
  p = sample();
  p.side.steps[2].count = 1U << 20;
  EXPECT_THROW(made(p), Error);
}

}  // namespace
}  // namespace tw::report
