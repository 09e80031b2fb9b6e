// Lower bounds of what a placement needs: a refusal by one of them is a proof.
#pragma once
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "place/legal.h"
#include "place/place.h"

namespace tw::place {

// Calls visit(step, live) at every step where something begins, with the sum of weight(i) over the requests
// alive then; steps ascend.
template <class Weight, class Visit>
void sweep(const Problem& problem, Weight weight, Visit visit) {
  std::vector<std::uint32_t> begins(problem.requests.size());
  std::iota(begins.begin(), begins.end(), 0u);
  std::vector<std::uint32_t> ends = begins;
  std::ranges::sort(begins, {}, [&](std::uint32_t i) { return problem.requests[i].first; });
  std::ranges::sort(ends, {}, [&](std::uint32_t i) { return problem.requests[i].last; });
  std::uint64_t live = 0;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < begins.size();) {
    const std::uint32_t step = problem.requests[begins[i]].first;
    for (; i < begins.size() && problem.requests[begins[i]].first == step; ++i) live += weight(begins[i]);
    for (; ended < ends.size() && problem.requests[ends[ended]].last < step; ++ended)
      live -= weight(ends[ended]);
    visit(step, live);
  }
}

// Requests alive at `step`, largest first.
std::vector<std::uint32_t> live_at(const Problem& problem, std::uint32_t step);

// Live requests are disjoint, so those that fit nowhere but in some of the free ranges (by class, lifetime
// and size) cannot be larger than these. Tried for every set of ranges that a request, or several together,
// are confined to. The largest excess, or nothing.
std::optional<NoFit> prove_capacity(const Problem& problem, const Legal& legal);

// A request that is larger than each of its legal ranges, the first one, or nothing.
std::optional<NoFit> prove_contiguity(const Problem& problem, const Legal& legal);

}  // namespace tw::place
