// Exhaustive search over tiny memories: a Capacity or Contiguity refusal is a proof, so the oracle must find
// nothing either; and whatever the placer finds is legal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "place/place.h"

namespace tw::place {
namespace {

// Elements of 16 and 32 bytes, so that separation matters in a few dozen bytes.
Device tiny_device() {
  Device d;
  d.element_bytes = 16;
  d.pair_bytes = 32;
  return d;
}
constexpr std::uint32_t kBase = 0x80000;

std::uint32_t draw(std::mt19937& rng, std::uint32_t lo, std::uint32_t hi) {
  return lo + rng() % (hi - lo + 1);
}

Problem tiny_problem(std::mt19937& rng) {
  Problem p;
  const std::uint32_t low = kBase - 4 * draw(rng, 4, 8);
  p.free = {{low, kBase}, {kBase, kBase + 4 * draw(rng, 4, 8)}};
  if (rng() % 2 == 0) p.aperture = {{0x50000, 0x50000 + 4 * draw(rng, 2, 4)}};
  const std::uint32_t n = draw(rng, 2, 6);
  for (std::uint32_t i = 0; i < n; ++i) {
    Request r{.bytes = 4 * draw(rng, 1, 6)};
    r.alignment = 4u << draw(rng, 0, 2);
    if (rng() % 3 == 0) r.cls = Class::Interleaved;
    r.first = draw(rng, 0, 4);
    r.last = rng() % 3 == 0 ? kForever : draw(rng, r.first, 6);
    p.requests.push_back(r);
  }
  for (std::uint32_t i = 1; i < n; ++i)
    if (rng() % 4 == 0) p.separate.emplace_back(i - 1, i);
  return p;
}

// All multiples of 4 of all ranges, all requests: no cleverness. Legality of prefixes is asked of check().
bool fits(const Device& device, const Problem& problem, Problem& prefix, Placement& placement) {
  const std::size_t i = placement.address.size();
  if (i == problem.requests.size()) return true;
  std::vector<Range> ranges = problem.free;
  ranges.insert(ranges.end(), problem.aperture.begin(), problem.aperture.end());
  prefix.requests.push_back(problem.requests[i]);
  const auto pairs = prefix.separate;
  for (const auto& [a, b] : problem.separate)
    if (std::max(a, b) == i) prefix.separate.emplace_back(a, b);
  for (const Range& r : ranges)
    for (std::uint32_t a = r.begin; a < r.end; a += 4) {
      if (a % problem.requests[i].alignment != 0) continue;
      placement.address.push_back(a);
      if (check(device, prefix, placement).empty() && fits(device, problem, prefix, placement)) return true;
      placement.address.pop_back();
    }
  prefix.requests.pop_back();
  prefix.separate = pairs;
  return false;
}

TEST(Oracle, RefusalsAreProofsAndPlacementsAreLegal) {
  const Device device = tiny_device();
  std::mt19937 rng(42);
  int placed = 0, proofs = 0, missed = 0, unplaceable = 0;
  for (int i = 0; i < 600; ++i) {
    const Problem p = tiny_problem(rng);
    const Result result = solve(device, p);
    if (const auto* found = std::get_if<Placement>(&result)) {
      ++placed;
      ASSERT_THAT(check(device, p, *found), testing::ElementsAre()) << i;
      continue;
    }
    Problem prefix{.free = p.free, .aperture = p.aperture, .requests = {}, .separate = {}};
    Placement placement;
    const bool possible = fits(device, p, prefix, placement);
    if (std::get<NoFit>(result).kind != NoFit::Kind::Fragmentation) {
      ++proofs;
      ASSERT_FALSE(possible) << i << ": refused with a proof, but it fits";
    } else {
      possible ? ++missed : ++unplaceable;
    }
  }
  // The cases must be a mixture, or this test says nothing; `missed` is a ratchet.
  EXPECT_GT(placed, 100);
  EXPECT_GT(proofs, 50);
  EXPECT_GT(unplaceable, 5);
  EXPECT_LE(missed, 0);
}

}  // namespace
}  // namespace tw::place
