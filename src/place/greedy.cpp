#include "place/greedy.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tw::place {
namespace {

constexpr std::uint32_t kUnplaced = UINT32_MAX;

struct Placed {
  std::uint32_t begin, end, first, last;
};

// What is placed so far, by ascending address. Entries may overlap in address when they never live together.
class Arena {
 public:
  Arena(const Device& device, const Problem& problem, const Legal& legal, const Partners& partners)
      : device_(device), problem_(problem), legal_(legal), partners_(partners) {
    address_.assign(problem.requests.size(), kUnplaced);
    placed_.reserve(problem.requests.size());
  }

  // Forgets requests that ended before `step`; their separation partners still see their address.
  void release_before(std::uint32_t step) {
    if (step == released_) return;
    released_ = step;
    std::erase_if(placed_, [&](const Placed& p) { return p.last < step; });
  }

  bool place(std::uint32_t index) {
    const Request& r = problem_.requests[index];
    std::optional<std::uint32_t> start = lowest_start(r, 0);
    // Each clash moves past the partner's elements, so this ends.
    while (start) {
      const std::uint32_t past = end_of_clash(index, *start);
      if (past == 0) break;
      start = lowest_start(r, past);
    }
    if (!start) return false;
    address_[index] = *start;
    const Placed entry{*start, *start + r.bytes, r.first, r.last};
    placed_.insert(std::ranges::upper_bound(placed_, entry.begin, {}, &Placed::begin), entry);
    return true;
  }

  void measure_holes(const Request& r, Greedy& out) const {
    std::uint64_t reach = 0;
    std::size_t i = 0;
    const auto hole = [&](std::uint64_t begin, std::uint64_t end) {
      if (begin >= end) return;
      out.largest_hole = std::max(out.largest_hole, end - begin);
      out.free_bytes += end - begin;
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
  }

  std::vector<std::uint32_t> take_addresses() { return std::move(address_); }

 private:
  static bool meets(const Placed& p, const Request& r) { return p.first <= r.last && r.first <= p.last; }

  std::optional<std::uint32_t> lowest_start(const Request& r, std::uint32_t from) const {
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

  // End of the elements of a placed partner that [start, start + bytes) touches; 0: none.
  std::uint32_t end_of_clash(std::uint32_t index, std::uint32_t start) const {
    const Range mine = element_span(device_, start, problem_.requests[index].bytes);
    for (std::uint32_t partner : partners_[index]) {
      if (address_[partner] == kUnplaced) continue;
      const Range other = element_span(device_, address_[partner], problem_.requests[partner].bytes);
      if (mine.begin < other.end && other.begin < mine.end) return other.end;
    }
    return 0;
  }

  const Device& device_;
  const Problem& problem_;
  const Legal& legal_;
  const Partners& partners_;
  std::vector<std::uint32_t> address_;
  std::vector<Placed> placed_;
  std::uint32_t released_ = 0;
};

}  // namespace

std::vector<std::uint32_t> sorted_requests(const Problem& problem, Order order) {
  std::vector<std::uint32_t> indices(problem.requests.size());
  std::iota(indices.begin(), indices.end(), 0u);
  // Keys ascend; what should come first when large is negated. The index breaks ties.
  const auto key = [&](std::uint32_t i) {
    const Request& r = problem.requests[i];
    using Key =
        std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::uint32_t>;
    const std::int64_t first = r.first, last = r.last, bytes = r.bytes, alignment = r.alignment;
    switch (order) {
      case Order::Lifetime:
        return Key{first, r.cls == Class::Interleaved ? 0 : 1, -alignment, -bytes, last, i};
      case Order::Size:
        return Key{-alignment, -bytes, first - last, first, 0, i};
      case Order::LongLived:
        break;
    }
    return Key{r.last == kForever ? 0 : 1, -bytes, -alignment, first, 0, i};
  };
  std::ranges::sort(indices, {}, key);
  return indices;
}

Greedy first_fit(const Device& device, const Problem& problem, const Legal& legal, const Partners& partners,
                 const std::vector<std::uint32_t>& order, bool by_first) {
  Arena arena(device, problem, legal, partners);
  Greedy result;
  for (std::uint32_t index : order) {
    if (by_first) arena.release_before(problem.requests[index].first);
    if (arena.place(index)) continue;
    result.failed = index;
    arena.measure_holes(problem.requests[index], result);
    break;
  }
  result.address = arena.take_addresses();
  return result;
}

}  // namespace tw::place
