// Preferred separations: they choose among placements, they never decide whether there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/parallel.h"
#include "place/place.h"

namespace tw::place {
namespace {

using testing::ElementsAre;

const Device kDevice;

std::uint32_t draw(std::mt19937& rng, std::uint32_t lo, std::uint32_t hi) {
  return lo + rng() % (hi - lo + 1);
}

// Broken weight by the definition alone: some byte of each stands in the same element.
std::uint64_t weight_by_hand(const Device& device, const Problem& p,
                             const std::vector<std::uint32_t>& address) {
  const auto elements = [&](std::uint32_t i) {
    std::vector<std::uint32_t> out;
    for (std::uint32_t at = 0; at < p.requests[i].bytes; at += 4) {
      const std::uint32_t element = element_of(device, address[i] + at);
      if (out.empty() || out.back() != element) out.push_back(element);
    }
    return out;
  };
  std::uint64_t sum = 0;
  for (const Preference& w : p.apart) {
    const auto of_a = elements(w.a), of_b = elements(w.b);
    if (std::ranges::find_first_of(of_a, of_b) != of_a.end()) sum += w.weight;
  }
  return sum;
}

// Random requests that fill a few small elements to about `percent` of their bytes.
Device small_device() {
  Device d;
  d.element_bytes = 64;
  d.pair_bytes = 128;
  return d;
}
Problem random_problem(std::mt19937& rng, std::uint32_t percent) {
  Problem p{.free = {{0x80000 - 512, 0x80000}, {0x80000, 0x80000 + 1024}},
            .aperture = {},
            .requests = {},
            .separate = {}};
  std::uint32_t left = 1536 * percent / 100;
  while (left > 0) {
    Request r{.bytes = std::min(left, 4 * draw(rng, 1, 32)), .alignment = 4u << draw(rng, 0, 3)};
    left -= r.bytes;
    if (rng() % 4 == 0) r.cls = Class::Interleaved;
    if (rng() % 3 == 0) {
      r.first = draw(rng, 0, 3);
      r.last = draw(rng, r.first, 5);
    }
    p.requests.push_back(r);
  }
  const auto n = static_cast<std::uint32_t>(p.requests.size());
  for (std::uint32_t i = 0; n > 1 && i < 2 * n; ++i) {
    const std::uint32_t a = draw(rng, 0, n - 1), b = (a + draw(rng, 1, n - 1)) % n;
    if (i % 5 == 0)
      p.separate.emplace_back(a, b);
    else
      p.apart.push_back({a, b, draw(rng, 1, 1000)});
  }
  return p;
}

TEST(Prefer, NeverDecidesWhetherThereIsAPlacement) {
  const Device device = small_device();
  std::mt19937 rng(7);
  int placed = 0, refused = 0;
  std::uint64_t better = 0, worse = 0;
  for (int i = 0; i < 1200; ++i) {
    const Problem p = random_problem(rng, draw(rng, 20, 140));
    Problem without = p;
    without.apart.clear();
    const Result plain = solve(device, without), preferred = solve(device, p);
    ASSERT_EQ(plain.index(), preferred.index()) << i;
    if (const auto* no = std::get_if<NoFit>(&plain)) {
      EXPECT_EQ(no->kind, std::get<NoFit>(preferred).kind) << i;
      EXPECT_EQ(no->request, std::get<NoFit>(preferred).request) << i;
      ++refused;
      continue;
    }
    const Placement& found = std::get<Placement>(preferred);
    ASSERT_THAT(check(device, p, found), ElementsAre()) << i;
    EXPECT_EQ(found.shared_weight, weight_by_hand(device, p, found.address)) << i;
    EXPECT_EQ(shared_weight(device, p, found.address), found.shared_weight) << i;
    const std::vector<std::uint32_t>& careless = std::get<Placement>(plain).address;
    const std::uint64_t before = weight_by_hand(device, p, careless);
    EXPECT_EQ(shared_weight(device, p, careless), before) << i;
    EXPECT_LE(found.shared_weight, before) << i;
    (found.shared_weight < before ? better : worse) += 1;
    ++placed;
  }
  EXPECT_GT(placed, 200);  // the draw has both kinds
  EXPECT_GT(refused, 100);
  EXPECT_GT(better, worse);
}

// Like the phases of a model: buffers that live for a few steps, each phase reads some and writes others.
Problem phases_with_slack(std::uint32_t seed) {
  std::mt19937 rng(seed);
  Problem p{.free = {{0x586E0, 0x5C000}, {0x6C000, 0x80000}, {0x80000, 0xE7BB0}},
            .aperture = {{0x50000, 0x58000}},
            .requests = {},
            .separate = {}};
  for (std::uint32_t k = 0; k < 4; ++k) p.requests.push_back({.bytes = 0x8000, .alignment = 32});
  for (std::uint32_t step = 1; step < 60; step += 2) {
    const auto first = static_cast<std::uint32_t>(p.requests.size());
    for (int k = 0; k < 3; ++k) {
      p.requests.push_back({.bytes = 4 * draw(rng, 64, 6000),
                            .alignment = 32,
                            .cls = rng() % 2 == 0 ? Class::Interleaved : Class::Standard,
                            .first = step,
                            .last = step + draw(rng, 2, 4)});
    }
    p.apart.push_back({draw(rng, 0, 3), first, 100});
    if (step == 1) continue;
    for (std::uint32_t source = first - 3; source < first; ++source)
      p.apart.push_back({source, first + draw(rng, 0, 2), draw(rng, 1, 100)});
  }
  return p;
}

TEST(Prefer, KeepsAllOfThemWhereThereIsRoom) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const Problem p = phases_with_slack(seed);
    const Result result = solve(kDevice, p);
    const auto* found = std::get_if<Placement>(&result);
    ASSERT_NE(found, nullptr) << seed;
    EXPECT_THAT(check(kDevice, p, *found), ElementsAre()) << seed;
    EXPECT_EQ(weight_by_hand(kDevice, p, found->address), 0u) << seed;
  }
}

TEST(Prefer, IsTheSameWithEveryNumberOfThreads) {
  const auto addresses = [](unsigned threads) {
    std::vector<std::vector<std::uint32_t>> out(40);
    parallel_for(out.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const Result result = solve(kDevice, phases_with_slack(static_cast<std::uint32_t>(i)));
        if (const auto* found = std::get_if<Placement>(&result)) out[i] = found->address;
      }
    });
    return out;
  };
  EXPECT_EQ(addresses(1), addresses(2));
}

TEST(Prefer, BreaksTheLightestWhenOneMustBreak) {
  // Two elements for three requests.
  Problem p{.free = {{0x60000, 0x68000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100}, {.bytes = 0x100}, {.bytes = 0x100}};
  for (std::uint32_t light = 0; light < 3; ++light) {
    p.apart = {{0, 1, 20}, {1, 2, 20}, {2, 0, 20}};
    p.apart[light].weight = 3;
    const Result result = solve(kDevice, p);
    ASSERT_TRUE(std::holds_alternative<Placement>(result));
    EXPECT_EQ(std::get<Placement>(result).shared_weight, 3u);
  }
}

TEST(Prefer, HardSeparationComesFirst) {
  Problem p{.free = {{0x60000, 0x68000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100}, {.bytes = 0x100}, {.bytes = 0x100}};
  p.separate = {{0, 1}};
  p.apart = {{0, 2, 1}, {1, 2, 1000}};
  const Result result = solve(kDevice, p);
  ASSERT_TRUE(std::holds_alternative<Placement>(result));
  const Placement& found = std::get<Placement>(result);
  EXPECT_THAT(check(kDevice, p, found), ElementsAre());
  EXPECT_EQ(found.shared_weight, 1u);
}

TEST(Prefer, NamesTwoRequests) {
  Problem p{.free = {{0x60000, 0x68000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 4}};
  p.apart = {{0, 0, 1}};
  EXPECT_THROW(solve(kDevice, p), InternalError);
  p.apart = {{0, 1, 1}};
  EXPECT_THROW(solve(kDevice, p), InternalError);
}

}  // namespace
}  // namespace tw::place
