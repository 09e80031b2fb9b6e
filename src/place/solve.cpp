#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
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

// Calls visit(step, live[0..]) at every step where something begins; `weight(i, k)` adds request i to sum k.
template <std::size_t N, class Weight, class Visit>
void sweep(const Problem& problem, Weight weight, Visit visit) {
  std::vector<std::uint32_t> begins(problem.requests.size());
  std::iota(begins.begin(), begins.end(), 0u);
  std::vector<std::uint32_t> ends = begins;
  std::ranges::sort(begins, {}, [&](std::uint32_t i) { return problem.requests[i].first; });
  std::ranges::sort(ends, {}, [&](std::uint32_t i) { return problem.requests[i].last; });
  std::array<std::uint64_t, N> live{};
  std::size_t ended = 0;
  for (std::size_t i = 0; i < begins.size();) {
    const std::uint32_t step = problem.requests[begins[i]].first;
    for (; i < begins.size() && problem.requests[begins[i]].first == step; ++i)
      for (std::size_t k = 0; k < N; ++k) live[k] += weight(begins[i], k);
    for (; ended < ends.size() && problem.requests[ends[ended]].last < step; ++ended)
      for (std::size_t k = 0; k < N; ++k) live[k] -= weight(ends[ended], k);
    visit(step, live);
  }
}

// The nested groups of a lower bound: interleaved data, all that must stay off the aperture, everything.
constexpr std::size_t kGroups = 3;
bool in_group(const Request& r, std::size_t group) {
  return group == 2 || (group == 1 ? !is_transient(r) : r.cls == Class::Interleaved);
}

std::vector<std::uint32_t> live_at(const Problem& problem, std::uint32_t step, std::size_t group) {
  std::vector<std::uint32_t> live;
  for (std::uint32_t i = 0; i < problem.requests.size(); ++i) {
    const Request& r = problem.requests[i];
    if (r.first <= step && step <= r.last && in_group(r, group)) live.push_back(i);
  }
  std::ranges::sort(live, {}, [&](std::uint32_t i) { return std::pair(~problem.requests[i].bytes, i); });
  return live;
}

// Live requests are disjoint, so at any step a group's bytes cannot exceed the bytes it may use.
std::optional<NoFit> prove_capacity(const Problem& problem, const Legal& legal) {
  const std::array<std::uint64_t, kGroups> available{
      total_bytes(legal.interleaved), total_bytes(legal.resident), total_bytes(legal.transient)};
  std::optional<NoFit> worst;
  std::size_t worst_group = 0;
  sweep<kGroups>(
      problem,
      [&](std::uint32_t i, std::size_t group) -> std::uint64_t {
        return in_group(problem.requests[i], group) ? problem.requests[i].bytes : 0;
      },
      [&](std::uint32_t step, const std::array<std::uint64_t, kGroups>& live) {
        for (std::size_t g = 0; g < kGroups; ++g) {
          if (live[g] <= available[g] || (worst && live[g] - available[g] <= worst->missing)) continue;
          worst = NoFit{.kind = NoFit::Kind::Capacity,
                        .step = step,
                        .cls = g == 0 ? Class::Interleaved : Class::Standard,
                        .needed = live[g],
                        .available = available[g],
                        .missing = live[g] - available[g],
                        .live = {}};
          worst_group = g;
        }
      });
  if (!worst) return std::nullopt;
  worst->live = live_at(problem, worst->step, worst_group);
  worst->request = worst->live.front();
  return worst;
}

std::optional<NoFit> prove_contiguity(const Problem& problem, const Legal& legal) {
  for (std::uint32_t i = 0; i < problem.requests.size(); ++i) {
    const Request& r = problem.requests[i];
    std::uint64_t largest = 0;
    for (const Range& range : legal.of(r)) {
      const std::uint64_t start = align_up(range.begin, r.alignment);
      if (start < range.end) largest = std::max(largest, range.end - start);
    }
    if (r.bytes <= largest) continue;
    return NoFit{.kind = NoFit::Kind::Contiguity,
                 .request = i,
                 .step = r.first,
                 .cls = r.cls,
                 .needed = r.bytes,
                 .available = largest,
                 .missing = r.bytes - largest,
                 .largest_hole = largest,
                 .live = live_at(problem, r.first, kGroups - 1)};
  }
  return std::nullopt;
}

// Blames the step of the failing request's life at which most bytes live.
NoFit fragmentation(const Problem& problem, const Greedy& attempt) {
  const Request& failed = problem.requests[*attempt.failed];
  NoFit no{.kind = NoFit::Kind::Fragmentation,
           .request = *attempt.failed,
           .step = failed.first,
           .cls = failed.cls,
           .needed = failed.bytes,
           .available = attempt.free_bytes,
           .largest_hole = attempt.largest_hole,
           .live = {}};
  no.missing = no.needed > no.largest_hole ? no.needed - no.largest_hole : 0;
  std::uint64_t most = 0;
  sweep<1>(
      problem, [&](std::uint32_t i, std::size_t) -> std::uint64_t { return problem.requests[i].bytes; },
      [&](std::uint32_t step, const std::array<std::uint64_t, 1>& live) {
        if (step < failed.first || step > failed.last || live[0] <= most) return;
        most = live[0];
        no.step = step;
      });
  no.live = live_at(problem, no.step, kGroups - 1);
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
  sweep<1>(
      problem, [&](std::uint32_t i, std::size_t) -> std::uint64_t { return p.taken[i]; },
      [&](std::uint32_t step, const std::array<std::uint64_t, 1>& live) {
        if (live[0] <= p.peak_live_bytes) return;
        p.peak_live_bytes = live[0];
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

}  // namespace tw::place
