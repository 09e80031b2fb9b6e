#include "place/bound.h"

#include <utility>

namespace tw::place {
namespace {

// Bytes from the first aligned start of `range` to its end.
std::uint64_t room(const Range& range, const Request& r) {
  const std::uint64_t start = align_up(range.begin, r.alignment);
  return start < range.end ? range.end - start : 0;
}

// A set of pieces: free memory cut at every end of a legal range. Pieces beyond the 63rd share a bit, which
// only weakens the bound.
using Pieces = std::uint64_t;
constexpr std::size_t kShared = 63;
constexpr std::size_t kSets = 64;  // sets that are tried

struct Cut {
  std::vector<std::uint32_t> ends;  // ascending; piece k = [ends[k], ends[k + 1])
  std::vector<bool> free;           // per piece

  explicit Cut(const Legal& legal) {
    for (const auto* ranges : {&legal.transient, &legal.resident, &legal.interleaved}) {
      for (const Range& r : *ranges) {
        ends.push_back(r.begin);
        ends.push_back(r.end);
      }
    }
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (std::size_t k = 0; k + 1 < ends.size(); ++k)
      free.push_back(std::ranges::any_of(
          legal.transient, [&](const Range& r) { return r.begin <= ends[k] && ends[k + 1] <= r.end; }));
  }
  std::size_t pieces() const { return free.size(); }
  static Pieces bit(std::size_t piece) { return Pieces{1} << std::min(piece, kShared); }

  // Where `r` may stand. Ranges too small for it do not count.
  Pieces of(const Request& r, const Legal& legal) const {
    Pieces set = 0;
    for (const Range& range : legal.of(r)) {
      if (room(range, r) < r.bytes) continue;
      for (std::size_t k = 0; k < pieces(); ++k)
        if (range.begin <= ends[k] && ends[k + 1] <= range.end) set |= bit(k);
    }
    return set;
  }
  std::vector<Range> ranges(Pieces set) const {
    std::vector<Range> out;
    for (std::size_t k = 0; k < pieces(); ++k) {
      if (!free[k] || (set & bit(k)) == 0) continue;
      if (!out.empty() && out.back().end == ends[k])
        out.back().end = ends[k + 1];
      else
        out.push_back({ends[k], ends[k + 1]});
    }
    return out;
  }
};

// The sets that single requests are confined to and unions of them, in a fixed order.
std::vector<Pieces> sets_to_try(const std::vector<Pieces>& confined) {
  std::vector<Pieces> sets;
  const auto add = [&](Pieces set) {
    if (set != 0 && sets.size() < kSets && std::ranges::find(sets, set) == sets.end()) sets.push_back(set);
  };
  Pieces all = 0;
  for (const Pieces set : confined) all |= set;
  add(all);
  for (const Pieces set : confined) add(set);
  for (std::size_t a = 1; a < sets.size(); ++a)
    for (std::size_t b = 1; b < a; ++b) add(sets[a] | sets[b]);
  return sets;
}

}  // namespace

std::vector<std::uint32_t> live_at(const Problem& problem, std::uint32_t step) {
  std::vector<std::uint32_t> live;
  for (std::uint32_t i = 0; i < problem.requests.size(); ++i) {
    const Request& r = problem.requests[i];
    if (r.first <= step && step <= r.last) live.push_back(i);
  }
  std::ranges::sort(live, {}, [&](std::uint32_t i) { return std::pair(~problem.requests[i].bytes, i); });
  return live;
}

std::optional<NoFit> prove_capacity(const Problem& problem, const Legal& legal) {
  const Cut cut(legal);
  std::vector<Pieces> confined;
  for (const Request& r : problem.requests) confined.push_back(cut.of(r, legal));
  std::optional<NoFit> worst;
  Pieces worst_set = 0;
  for (const Pieces set : sets_to_try(confined)) {
    const std::uint64_t available = total_bytes(cut.ranges(set));
    // A request that fits nowhere (confined to nothing) is for prove_contiguity, but is alive all the same.
    const auto weight = [&](std::uint32_t i) -> std::uint64_t {
      return (confined[i] & ~set) == 0 ? problem.requests[i].bytes : 0;
    };
    sweep(problem, weight, [&](std::uint32_t step, std::uint64_t live) {
      if (live <= available || (worst && live - available <= worst->missing)) return;
      worst = NoFit{.kind = NoFit::Kind::Capacity,
                    .step = step,
                    .needed = live,
                    .available = available,
                    .missing = live - available,
                    .live = {}};
      worst_set = set;
    });
  }
  if (!worst) return std::nullopt;
  worst->confined = cut.ranges(worst_set);
  worst->live = live_at(problem, worst->step);
  std::erase_if(worst->live, [&](std::uint32_t i) { return (confined[i] & ~worst_set) != 0; });
  worst->request = worst->live.front();
  const bool interleaved = std::ranges::all_of(
      worst->live, [&](std::uint32_t i) { return problem.requests[i].cls == Class::Interleaved; });
  worst->cls = interleaved ? Class::Interleaved : Class::Standard;
  return worst;
}

std::optional<NoFit> prove_contiguity(const Problem& problem, const Legal& legal) {
  for (std::uint32_t i = 0; i < problem.requests.size(); ++i) {
    const Request& r = problem.requests[i];
    std::uint64_t largest = 0;
    for (const Range& range : legal.of(r)) largest = std::max(largest, room(range, r));
    if (r.bytes <= largest) continue;
    return NoFit{.kind = NoFit::Kind::Contiguity,
                 .request = i,
                 .step = r.first,
                 .cls = r.cls,
                 .needed = r.bytes,
                 .available = largest,
                 .missing = r.bytes - largest,
                 .largest_hole = largest,
                 .live = live_at(problem, r.first)};
  }
  return std::nullopt;
}

}  // namespace tw::place
