// Schedules: closed forms, dense patterns, an exhaustive optimum on few tiles, hidden schedules, dependences.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "support.h"

namespace tw::exchange::test {
namespace {

struct Result {
  Schedule schedule;
  Rows rows;
};

// Schedules and encodes; the independent check must be silent.
Result run(const Problem& p) {
  const Device device = c600();
  Result r;
  r.schedule = schedule(device, p);
  r.rows = encode(device, r.schedule);
  EXPECT_EQ(first(check(device, p, r.rows)), "") << print(p) << print(r.schedule);
  EXPECT_EQ(r.rows.horizon, r.schedule.horizon);
  return r;
}

TEST(Patterns, RingOf256WordsTakes358Cycles) {  // decision 27
  Problem p;
  for (std::uint32_t s = 0; s < topology::kTiles; ++s) {
    add(p, tile(s), 0x60000, 256, {{tile((s + 1) % topology::kTiles), 0x70000}});
  }
  const Result r = run(p);
  EXPECT_EQ(r.rows.horizon, 358u);
  EXPECT_EQ(r.schedule.bound_words, 256u);
}

TEST(Bound, IsThatOfTheBusiestTileAndDoesNotWrap) {
  Problem p;
  EXPECT_EQ(bound_words(p), 0u);
  add(p, tile(0), 0x60000, 3, {{tile(1), 0x70000}, {tile(2), 0x70000}});
  EXPECT_EQ(bound_words(p), 3u);
  add(p, tile(3), 0x60000, 4, {{tile(2), 0x80000}});
  EXPECT_EQ(bound_words(p), 7u);  // received by tile 2
  add(p, tile(0), 0x60000, 0xFFFFFFFF, {{tile(4), 0x70000}});
  EXPECT_EQ(bound_words(p), 0x100000002u);  // sent by tile 0
}

TEST(Patterns, AllToOneReachesTheClosedForm) {  // decision 38
  for (std::uint32_t target : {0u, 500u, 1471u}) {
    Problem p;
    std::uint32_t sum = 0, address = 0x70000;
    for (std::uint32_t i = 1; i <= 30; ++i) {
      const std::uint32_t words = 3 + (7 * i) % 70;
      add(p, tile((target + 41 * i) % topology::kTiles), 0x60000, words, {{tile(target), address}});
      sum += words;
      address += 4 * words;
    }
    // Every source could start its first control at event 1, so the mux of the target never rests.
    EXPECT_EQ(run(p).rows.horizon, 1 + sum + 52 + 2 * topology::row_of(tile(target)) + 5);
  }
}

Problem all_to_all(std::uint32_t size, std::uint32_t words) {
  Problem p;
  for (std::uint32_t s = 0; s < 64; ++s) {
    for (std::uint32_t k = 1; k < size; ++k) {
      const std::uint32_t r = s / size * size + (s % size + k) % size;
      add(p, tile(s), 0x60000 + 4 * words * k, words, {{tile(r), 0x70000 + 4 * words * (s % size)}});
    }
  }
  return p;
}

TEST(Patterns, DenseOnesStayNearTheBound) {  // goals.md: 1.15 LB + 170
  for (std::uint32_t size : {8u, 16u, 32u}) {
    const Result r = run(all_to_all(size, 64));
    EXPECT_EQ(r.schedule.bound_words, 64 * (size - 1));
    EXPECT_LE(r.rows.horizon, 1.15 * r.schedule.bound_words + 170);
  }
  Problem gather;
  for (std::uint32_t s = 0; s < 32; ++s) {
    std::vector<Receiver> to;
    for (std::uint32_t r = s / 16 * 16; r < s / 16 * 16 + 16; ++r) {
      if (r != s) to.push_back({tile(r), 0x70000 + 2048 * (s % 16)});
    }
    add(gather, tile(s), 0x60000, 512, to);
  }
  const Result r = run(gather);
  EXPECT_EQ(r.schedule.bound_words, 15u * 512);
  EXPECT_LE(r.rows.horizon, 1.15 * 15 * 512 + 170);
}

// Tiles that receive into the element they send from are half duplex there (1.4). Phases of compiled models
// are like these: every destination stands behind the source block of its tile, and many senders are
// receivers.
constexpr std::uint32_t kOwn = 0x60000, kElementEnd = 0x64000;

class HalfDuplex {
 public:
  explicit HalfDuplex(std::uint32_t own_bytes) : next_(topology::kTiles, kOwn + own_bytes) {}
  void add(std::uint32_t source, std::uint32_t offset, std::uint32_t words,
           const std::vector<std::uint32_t>& to) {
    std::vector<Receiver> receivers;
    for (std::uint32_t r : to) {
      receivers.push_back({tile(r), next_[r]});
      next_[r] += 4 * words;
      EXPECT_LE(next_[r], kElementEnd);
    }
    test::add(problem, tile(source), kOwn + offset, words, receivers);
  }
  Problem problem;

 private:
  std::vector<std::uint32_t> next_;
};

double ratio(const Problem& p) {
  const Result r = run(p);
  return static_cast<double>(r.rows.horizon) / r.schedule.bound_words;
}

TEST(HalfDuplexPhases, GatherOfEightNeighbours) {
  HalfDuplex h(4 * 288);
  for (std::uint32_t s = 1; s <= 1456; ++s) h.add(s, 0, 288, {(s - 1) / 8});
  EXPECT_LE(ratio(h.problem), 1.30);
}

TEST(HalfDuplexPhases, BlocksOf32SourcesAnd13Destinations) {
  HalfDuplex h(13 * 128);
  for (std::uint32_t s = 0; s < topology::kTiles; ++s) {
    for (std::uint32_t k = 0; k < 13; ++k) {
      if (s / 32 * 13 + k != s) h.add(s, 128 * k, 32, {s / 32 * 13 + k});
    }
  }
  EXPECT_LE(ratio(h.problem), 1.89);
}

TEST(HalfDuplexPhases, MulticastsAlongTheColumnsOfAGrid) {
  constexpr std::uint32_t kColumns = 104, kRows = 14;
  HalfDuplex h(4 * 256);
  for (std::uint32_t s = 0; s < 1024; ++s) {
    std::vector<std::uint32_t> column;
    const std::uint32_t c = s / 10;
    for (std::uint32_t r = 0; r < kRows; ++r) {
      if (r * kColumns + c != s) column.push_back(r * kColumns + c);
    }
    h.add(s, 0, 256, column);
  }
  EXPECT_LE(ratio(h.problem), 1.67);
}

TEST(Pieces, AdjacentTransfersJoin) {
  Problem p;
  for (std::uint32_t i = 0; i < 40; ++i) {
    add(p, tile(3), 0x60000 + 32 * i, 8, {{tile(9), 0x70000 + 32 * i}, {tile(5), 0x78000 + 32 * i}});
  }
  const Result r = run(p);
  EXPECT_EQ(r.schedule.messages.size(), 1u);
  EXPECT_EQ(row_of(r.rows, tile(9)).receives, 1u);
}

TEST(Pieces, InterleavedTransfersOfOneStreamJoin) {
  Problem p;
  for (std::uint32_t i = 0; i < 20; ++i) {
    add(p, tile(3), 0x60000 + 32 * i, 8, {{tile(9), 0x70000 + 32 * i}});
    add(p, tile(3), 0x64000 + 32 * i, 8, {{tile(5), 0x70000 + 32 * i}});
  }
  EXPECT_EQ(run(p).schedule.messages.size(), 2u);
}

TEST(Pieces, LongTransfersAreCut) {
  Problem p;
  add(p, tile(3), 0x60000, 10000, {{tile(9), 0x80000}});
  const Result r = run(p);
  EXPECT_EQ(r.schedule.messages.size(), 3u);
  const int lambda = topology::lambda(tile(3), tile(9));
  const int start = std::max(0, -topology::tau(tile(3), tile(9)));
  EXPECT_EQ(r.rows.horizon, static_cast<std::uint32_t>(start + lambda + 10000 + 5));
  // One mux control, one pointer and one neutral serve all three pieces.
  EXPECT_LE(row_of(r.rows, tile(9)).words.size(), 8u);
}

TEST(Pieces, SelfMulticastOfEveryLength) {
  for (std::uint32_t s : {0u, 1u, 700u}) {
    for (std::uint32_t words = 1; words <= 64; ++words) {
      Problem p;
      add(p, tile(s), 0x60000, words, {{tile(s), 0x70000}, {tile(s + 2), 0x70000}});
      run(p);
    }
  }
}

TEST(Pieces, SelfMulticastInsideOneElement) {
  Problem p;
  add(p, tile(4), 0x60000, 100, {{tile(4), 0x60200}, {tile(8), 0x70000}});
  run(p);
}

TEST(Hazards, SendAndReceiveInOneElementDoNotMeet) {
  Problem p;
  add(p, tile(4), 0x60000, 200, {{tile(8), 0x70000}});
  add(p, tile(8), 0x72000, 200, {{tile(4), 0x62000}});
  const Result r = run(p);
  EXPECT_GE(r.rows.horizon, 400u);
}

TEST(Hazards, MovingSourcesCountInEveryIteration) {
  Problem p;
  p.iterations = 4;
  add(p, tile(4), 0x60000, 200, {{tile(8), 0x90000}}, 0x4000);
  add(p, tile(8), 0xA0000, 200, {{tile(4), 0x6D000}});  // meets the last iteration's element only
  const Result r = run(p);
  const Row& row = row_of(r.rows, tile(4));
  ASSERT_FALSE(row.sites.empty());
  EXPECT_TRUE(std::ranges::any_of(row.sites, [](const Site& s) { return s.step == 2 * 0x4000u; }));
}

TEST(Dependences, ForwardingChainOverFourTiles) {
  Problem p;
  const PhysId t[] = {tile(0), tile(90), tile(700), tile(31)};
  for (std::uint32_t half = 0; half < 2; ++half) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      add(p, t[i], 0x60000 + 0x8000 * half, 1024, {{t[i + 1], 0x60000 + 0x8000 * half}});
    }
  }
  const Result r = run(p);
  EXPECT_GE(r.rows.horizon, 3u * 1024);
}

TEST(Dependences, OverwritesWaitForReaders) {
  Problem p;
  add(p, tile(5), 0x60000, 50, {{tile(6), 0x60000}});
  add(p, tile(6), 0x60000, 50, {{tile(7), 0x60000}});
  add(p, tile(9), 0x60000, 50, {{tile(6), 0x60040}});
  add(p, tile(10), 0x60000, 50, {{tile(6), 0x60000}});
  run(p);
}

TEST(Limits, BadProblemsAreRefused) {
  const Device device = c600();
  Problem p;
  add(p, tile(4), 0x60002, 8, {{tile(8), 0x70000}});
  add(p, tile(4), 0x60000, 0, {{tile(8), 0x70000}});
  add(p, tile(4), 0x60000, 8, {{tile(4), 0x70000}});
  add(p, tile(4), 0xE7FFC, 2, {{tile(8), 0x70000}});
  add(p, tile(4), 0x60000, 8, {{tile(8), 0x70000}, {tile(8), 0x78000}});
  add(p, tile(4), 0x60000, 8, {{tile(4), 0x60004}, {tile(8), 0x78000}});
  EXPECT_EQ(verify(device, p).size(), 6u);
  EXPECT_THROW(schedule(device, p), InternalError);
}

TEST(Limits, TooManyFragmentsAreTheUsersError) {
  Device device = c600();
  device.fragment_limit = 20;
  Problem p;
  for (std::uint32_t i = 0; i < 21; ++i) add(p, tile(4), 0x60000, 8, {{tile(8), 0x70000 + 64 * i}});
  try {
    schedule(device, p);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Fragments);
  }
}

TEST(Alignment, PhasesOfSingleWordsAlwaysEncode) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 rng(seed);
    const std::vector<PhysId> tiles = {tile(0), tile(1), tile(2), tile(70)};
    run(random_problem(rng, tiles, 200, 1, false));
  }
}

// Best horizon over all orders and, per order, all starts up to `room` events behind the earliest.
std::uint32_t exhaustive(SlowRules& rules, std::vector<std::size_t> left, std::uint32_t room,
                         std::uint32_t best) {
  if (rules.horizon() >= best) return best;
  if (left.empty()) return rules.horizon();
  const std::size_t i = left.back();
  left.pop_back();
  const std::uint32_t first = rules.earliest(i);
  for (std::uint32_t s = first; s < first + room; ++s) {
    if (!rules.fits(i, s)) continue;
    rules.placed.push_back({i, s});
    best = exhaustive(rules, left, room, best);
    rules.placed.pop_back();
  }
  return best;
}

TEST(Optimum, FewTilesExhaustively) {
  std::mt19937 rng(7);
  const Device device = c600();
  const std::vector<PhysId> tiles = {tile(0), tile(1), tile(2)};
  std::uint64_t ours = 0, optimal = 0;
  for (int round = 0; round < 12; ++round) {
    const Problem p = random_problem(rng, tiles, 4, 8, round % 2 == 1);
    const Result r = run(p);
    std::vector<std::size_t> all(p.transfers.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    SlowRules rules(device, p);
    const std::uint32_t best = exhaustive(rules, all, 24, UINT32_MAX);
    EXPECT_GE(r.rows.horizon + 2, best) << print(p);  // joined transfers may save a control
    ours += r.rows.horizon;
    optimal += best;
  }
  EXPECT_LE(ours, optimal * 1.08);
}

// A random legal schedule is made by the slow rules, its times are hidden, and ours has to be about as good.
TEST(Hidden, SchedulesAreFoundAgain) {
  std::mt19937 rng(11);
  const Device device = c600();
  std::uint64_t ours = 0, hidden = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<PhysId> tiles;
    while (tiles.size() < 6) {
      const PhysId t = tile(rng() % topology::kTiles);
      if (std::ranges::find(tiles, t) == tiles.end()) tiles.push_back(t);
    }
    const Problem p = random_problem(rng, tiles, 30, 60, round % 3 == 2);
    SlowRules rules(device, p);
    for (std::size_t i = 0; i < p.transfers.size(); ++i) {
      rules.placed.push_back({i, rules.earliest(i, rng() % 4 ? 0 : rng() % 300)});
    }
    ours += run(p).rows.horizon;
    hidden += rules.horizon();
  }
  EXPECT_LE(ours, hidden * 0.95);
}

RC_GTEST_PROP(Random, ProblemsAlwaysEncodeAndCheck, (std::uint32_t seed)) {
  std::mt19937 rng(seed);
  std::vector<PhysId> tiles;
  const std::size_t count = 2 + rng() % 8;
  while (tiles.size() < count) {
    const PhysId t = tile(rng() % 3 ? rng() % 16 : rng() % topology::kTiles);
    if (std::ranges::find(tiles, t) == tiles.end()) tiles.push_back(t);
  }
  const std::uint32_t longest[] = {1, 2, 5, 60, 300};
  Problem p = random_problem(rng, tiles, 1 + rng() % 120, longest[rng() % 5], rng() % 2);
  if (rng() % 2) {
    p.iterations = 1 + rng() % 3;
    for (Transfer& t : p.transfers) t.source_stride = rng() % 3 ? 0 : 4 * (rng() % 256);
  }
  const Device device = c600();
  Options options;
  options.stream_words = rng() % 3 * 64;
  const Schedule s = schedule(device, p, options);
  const Rows rows = encode(device, s);
  RC_ASSERT(first(check(device, p, rows)) == "");
  RC_ASSERT(rows.horizon == s.horizon);
}

}  // namespace
}  // namespace tw::exchange::test
