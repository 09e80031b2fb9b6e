#include "place/greedy.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tw::place {

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
                 const Wishes& wishes, const std::vector<std::uint32_t>& order, bool by_first) {
  Arena arena(device, problem, legal, partners, wishes);
  Greedy result;
  for (std::uint32_t index : order) {
    if (by_first) arena.release_before(problem.requests[index].first);
    if (arena.place(index)) continue;
    result.failed = index;
    result.holes = arena.holes(problem.requests[index]);
    break;
  }
  result.address = arena.addresses();
  return result;
}

}  // namespace tw::place
