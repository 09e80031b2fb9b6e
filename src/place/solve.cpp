#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "place/bound.h"
#include "place/greedy.h"
#include "place/legal.h"
#include "place/prefer.h"
#include "place/search.h"

namespace tw::place {
namespace {

constexpr int kRepairRounds = 256;                   // per starting order
constexpr std::uint64_t kRepairPlacements = 60'000;  // of one problem: bounds the time of a refusal

void check_problem(const Problem& problem) {
  const std::size_t n = problem.requests.size();
  for (const Request& r : problem.requests) {
    TW_CHECK(std::has_single_bit(r.alignment), "alignment is no power of two");
    TW_CHECK(r.first <= r.last, "lifetime ends before it begins");
  }
  for (const auto& [a, b] : problem.separate)
    TW_CHECK(a < n && b < n && a != b, "separation pair names no two requests");
  for (const Preference& p : problem.apart)
    TW_CHECK(p.a < n && p.b < n && p.a != p.b, "preferred separation names no two requests");
}

// Blames the step of the failing request's life at which most bytes live.
NoFit fragmentation(const Problem& problem, const Greedy& attempt) {
  const Request& failed = problem.requests[*attempt.failed];
  NoFit no{.kind = NoFit::Kind::Fragmentation,
           .request = *attempt.failed,
           .step = failed.first,
           .cls = failed.cls,
           .needed = failed.bytes,
           .available = attempt.holes.bytes,
           .largest_hole = attempt.holes.largest,
           .live = {}};
  no.holes = attempt.holes.count;
  no.missing = no.needed > no.largest_hole ? no.needed - no.largest_hole : 0;
  std::uint64_t most = 0;
  sweep(
      problem, [&](std::uint32_t i) { return problem.requests[i].bytes; },
      [&](std::uint32_t step, std::uint64_t live) {
        if (step < failed.first || step > failed.last || live <= most) return;
        most = live;
        no.step = step;
      });
  no.live = live_at(problem, no.step);
  return no;
}

// Bytes each request takes from the others: itself and the padding to its alignment, as far as no request of
// an overlapping lifetime stands there.
std::vector<std::uint32_t> occupied_bytes(const Problem& problem, const Legal& legal,
                                          const std::vector<std::uint32_t>& address) {
  std::vector<std::uint32_t> by_address(address.size());
  std::iota(by_address.begin(), by_address.end(), 0u);
  std::ranges::sort(by_address, {}, [&](std::uint32_t i) { return address[i]; });
  std::vector<std::uint32_t> bytes(address.size());
  for (std::size_t k = 0; k < by_address.size(); ++k) {
    const std::uint32_t i = by_address[k];
    const Request& r = problem.requests[i];
    const std::uint64_t end = std::uint64_t{address[i]} + r.bytes;
    std::uint64_t padded = align_up(end, r.alignment);
    for (const Range& range : legal.of(r))
      if (range.begin <= address[i] && end <= range.end) padded = std::min<std::uint64_t>(padded, range.end);
    for (std::size_t j = k + 1; j < by_address.size() && address[by_address[j]] < padded; ++j) {
      const std::uint32_t other = by_address[j];
      if (address[other] >= end && lifetimes_meet(r, problem.requests[other])) padded = address[other];
    }
    bytes[i] = static_cast<std::uint32_t>(padded - address[i]);
  }
  return bytes;
}

Placement finish(const Problem& problem, const Legal& legal, std::vector<std::uint32_t> address) {
  Placement p;
  p.taken = occupied_bytes(problem, legal, address);
  sweep(
      problem, [&](std::uint32_t i) { return p.taken[i]; },
      [&](std::uint32_t step, std::uint64_t live) {
        if (live <= p.peak_live_bytes) return;
        p.peak_live_bytes = live;
        p.peak_step = step;
      });
  p.address = std::move(address);
  return p;
}

// First fit again and again, each time with the request that found no place moved to the front: what is hard
// to place gets placed early. With `residents_first` short-lived data never moves before what lives to the
// end: it would split the one large hole that the residents leave when they stand packed.
struct Repair {
  Order start;
  bool residents_first;
};
constexpr std::array kRepairs{Repair{Order::LongLived, true}, Repair{Order::Lifetime, false},
                              Repair{Order::Size, false}, Repair{Order::LongLived, false}};

std::optional<std::vector<std::uint32_t>> repaired_order(const Device& device, const Problem& problem,
                                                         const Legal& legal, const Partners& partners) {
  const auto resident = [&](std::uint32_t i) { return problem.requests[i].last == kForever; };
  std::uint64_t placements = 0;
  for (const Repair& repair : kRepairs) {
    std::vector<std::uint32_t> order = sorted_requests(problem, repair.start);
    const auto residents = repair.residents_first ? std::ranges::count_if(order, resident) : 0;
    for (int round = 0; round < kRepairRounds && placements < kRepairPlacements; ++round) {
      Greedy attempt = first_fit(device, problem, legal, partners, {}, order, false);
      if (!attempt.failed) return std::move(attempt.address);
      const auto failed = std::ranges::find(order, *attempt.failed);
      placements += static_cast<std::uint64_t>(failed - order.begin()) + 1;
      std::rotate(order.begin() + (resident(*failed) ? 0 : residents), failed, failed + 1);
    }
  }
  return std::nullopt;
}

// Any legal placement, without a look at the preferences; else the last greedy attempt says why.
std::optional<std::vector<std::uint32_t>> any_placement(const Device& device, const Problem& problem,
                                                        const Legal& legal, const Partners& partners,
                                                        Greedy& attempt) {
  for (Order order : {Order::Lifetime, Order::Size, Order::LongLived}) {
    attempt = first_fit(device, problem, legal, partners, {}, sorted_requests(problem, order),
                        order == Order::Lifetime);
    if (!attempt.failed) return std::move(attempt.address);
  }
  if (auto address = repaired_order(device, problem, legal, partners)) return address;
  return address_search(device, problem, legal, partners);
}

}  // namespace

Result solve(const Device& device, const Problem& problem) {
  check_problem(problem);
  const Legal legal(device, problem);
  if (auto no = prove_capacity(problem, legal)) return *std::move(no);
  if (auto no = prove_contiguity(problem, legal)) return *std::move(no);
  const Partners partners = partners_of(problem);
  Greedy attempt;
  auto found = any_placement(device, problem, legal, partners, attempt);
  if (!found) return fragmentation(problem, attempt);
  Preferred preferred = keep_apart(device, problem, legal, partners, *std::move(found));
  Placement placement = finish(problem, legal, std::move(preferred.address));
  placement.shared_weight = preferred.broken;
  return placement;
}

std::vector<std::uint32_t> place_partly(const Device& device, const Problem& problem) {
  check_problem(problem);
  const Legal legal(device, problem);
  const Partners partners = partners_of(problem);
  const Wishes none;
  Arena arena(device, problem, legal, partners, none);
  std::vector<std::uint32_t> out(problem.requests.size(), 0);
  for (const std::uint32_t i : sorted_requests(problem, Order::LongLived)) {
    if (arena.place(i)) out[i] = arena.address(i);
  }
  return out;
}

}  // namespace tw::place
