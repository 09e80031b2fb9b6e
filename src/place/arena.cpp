#include "place/arena.h"

#include <algorithm>

namespace tw::place {
namespace {

constexpr std::uint32_t kUnplaced = UINT32_MAX;

}  // namespace

Arena::Arena(const Device& device, const Problem& problem, const Legal& legal, const Partners& partners,
             const Wishes& wishes)
    : device_(device), problem_(problem), legal_(legal), partners_(partners), wishes_(wishes) {
  address_.assign(problem.requests.size(), kUnplaced);
  span_.resize(problem.requests.size());
  placed_.reserve(problem.requests.size());
}

void Arena::release_before(std::uint32_t step) {
  if (step == released_) return;
  released_ = step;
  std::erase_if(placed_, [&](const Placed& p) { return p.last < step; });
}

bool Arena::place(std::uint32_t index) {
  const Request& r = problem_.requests[index];
  std::optional<std::uint32_t> best;
  std::uint64_t least = UINT64_MAX;
  // A clash lasts up to the end of the partner's elements, so no start in between is better, and this ends.
  for (auto start = lowest_start(r, 0); start;) {
    const Clash c = clash(index, *start);
    if (!c.forbidden && c.weight < least) {
      best = start;
      least = c.weight;
    }
    if (c.past == UINT32_MAX) break;
    start = lowest_start(r, c.past);
  }
  if (!best) return false;
  place_at(index, *best);
  return true;
}

void Arena::place_at(std::uint32_t index, std::uint32_t start) {
  const Request& r = problem_.requests[index];
  address_[index] = start;
  span_[index] = element_span(device_, start, r.bytes);
  const Placed entry{start, start + r.bytes, r.first, r.last, index};
  placed_.insert(std::ranges::upper_bound(placed_, entry.begin, {}, &Placed::begin), entry);
}

void Arena::remove(std::uint32_t index) {
  auto at = std::ranges::lower_bound(placed_, address_[index], {}, &Placed::begin);
  while (at->index != index) ++at;
  placed_.erase(at);
  address_[index] = kUnplaced;
}

Holes Arena::holes(const Request& r) const {
  Holes out;
  std::uint64_t reach = 0;
  std::size_t i = 0;
  const auto hole = [&](std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    out.largest = std::max(out.largest, end - begin);
    out.bytes += end - begin;
    ++out.count;
  };
  for (const Range& range : legal_.of(r)) {
    reach = std::max<std::uint64_t>(reach, range.begin);
    for (; i < placed_.size() && placed_[i].begin < range.end; ++i) {
      if (!meets(placed_[i], r)) continue;
      hole(reach, placed_[i].begin);
      reach = std::max<std::uint64_t>(reach, placed_[i].end);
    }
    hole(reach, range.end);
  }
  return out;
}

std::optional<std::uint32_t> Arena::lowest_start(const Request& r, std::uint32_t from) const {
  std::uint64_t reach = from;
  std::size_t i = 0;
  for (const Range& range : legal_.of(r)) {
    std::uint64_t cursor = align_up(std::max<std::uint64_t>(reach, range.begin), r.alignment);
    for (; i < placed_.size() && placed_[i].begin < range.end; ++i) {
      const Placed& p = placed_[i];
      if (!meets(p, r)) continue;
      if (cursor + r.bytes <= p.begin) return static_cast<std::uint32_t>(cursor);
      if (p.end <= reach) continue;
      reach = p.end;
      cursor = std::max(cursor, align_up(reach, r.alignment));
    }
    if (cursor + r.bytes <= range.end) return static_cast<std::uint32_t>(cursor);
  }
  return std::nullopt;
}

Arena::Clash Arena::clash(std::uint32_t index, std::uint32_t start) const {
  Clash out;
  const Range mine = element_span(device_, start, problem_.requests[index].bytes);
  for (std::uint32_t partner : partners_[index]) {
    if (address_[partner] == kUnplaced || !share_element(mine, span_[partner])) continue;
    out.forbidden = true;
    out.past = std::min(out.past, span_[partner].end);
  }
  if (wishes_.empty()) return out;
  for (const Wish& w : wishes_[index]) {
    if (address_[w.partner] == kUnplaced || !share_element(mine, span_[w.partner])) continue;
    out.weight += w.weight;
    out.past = std::min(out.past, span_[w.partner].end);
  }
  return out;
}

}  // namespace tw::place
