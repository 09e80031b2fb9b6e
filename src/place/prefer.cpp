#include "place/prefer.h"

#include <algorithm>
#include <tuple>

namespace tw::place {
namespace {

constexpr int kPasses = 4;        // over the requests with broken wishes
constexpr int kRegroupings = 64;  // per placement that is improved

// The first `count` preferences.
Wishes wishes_of(const Problem& problem, const std::vector<Preference>& preferences, std::size_t count) {
  Wishes wishes(problem.requests.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Preference& p = preferences[i];
    wishes[p.a].push_back({p.b, p.weight});
    wishes[p.b].push_back({p.a, p.weight});
  }
  return wishes;
}

std::uint64_t broken_weight(const Device& device, const Problem& problem,
                            const std::vector<std::uint32_t>& address) {
  std::uint64_t sum = 0;
  for (const Preference& p : problem.apart) {
    const Range a = element_span(device, address[p.a], problem.requests[p.a].bytes);
    const Range b = element_span(device, address[p.b], problem.requests[p.b].bytes);
    if (share_element(a, b)) sum += p.weight;
  }
  return sum;
}

struct Improver {
  const Device& device;
  const Problem& problem;
  const Legal& legal;
  const Partners& partners;
  const Wishes& wishes;  // all

  // Each request with broken wishes moves to where it breaks fewer, the worst first, until none does.
  Preferred moved(const std::vector<std::uint32_t>& address) const {
    Arena arena(device, problem, legal, partners, wishes);
    for (std::uint32_t i = 0; i < address.size(); ++i) arena.place_at(i, address[i]);
    int regroupings = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      bool better = false;
      for (const std::uint32_t i : worst_first(arena)) {
        if (arena.broken(i) == 0) continue;
        if (move(arena, i) || (regroupings++ < kRegroupings && regroup(arena, i))) better = true;
      }
      if (!better) break;
    }
    const std::uint64_t broken = broken_weight(device, problem, arena.addresses());
    return {arena.addresses(), broken};
  }

  std::vector<std::uint32_t> worst_first(const Arena& arena) const {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> worst;
    for (std::uint32_t i = 0; i < problem.requests.size(); ++i) {
      if (const std::uint64_t broken = arena.broken(i)) worst.emplace_back(broken, i);
    }
    std::ranges::sort(worst, [](const auto& a, const auto& b) {
      return std::tuple(b.first, a.second) < std::tuple(a.first, b.second);
    });
    std::vector<std::uint32_t> out;
    for (const auto& [broken, i] : worst) out.push_back(i);
    return out;
  }

  static bool move(Arena& arena, std::uint32_t i) {
    const std::uint64_t before = arena.broken(i);
    const std::uint32_t start = arena.address(i);
    arena.remove(i);
    if (arena.place(i)) {
      if (arena.broken(i) < before) return true;
      arena.remove(i);
    }
    arena.place_at(i, start);
    return false;
  }

  // The request and all short-lived ones of its time make room and are placed anew, it first, then by size.
  bool regroup(Arena& arena, std::uint32_t i) const {
    std::vector<std::uint32_t> group;
    for (std::uint32_t j = 0; j < problem.requests.size(); ++j) {
      const Request& r = problem.requests[j];
      if (j == i || (r.first > 0 && r.last < kForever && lifetimes_meet(r, problem.requests[i])))
        group.push_back(j);
    }
    std::ranges::sort(group, {},
                      [&](std::uint32_t j) { return std::tuple(j != i, ~problem.requests[j].bytes, j); });
    const std::vector<std::uint32_t> before = arena.addresses();
    for (const std::uint32_t j : group) arena.remove(j);
    std::size_t placed = 0;
    while (placed < group.size() && arena.place(group[placed])) ++placed;
    if (placed == group.size() &&
        broken_weight(device, problem, arena.addresses()) < broken_weight(device, problem, before))
      return true;
    while (placed > 0) arena.remove(group[--placed]);
    for (const std::uint32_t j : group) arena.place_at(j, before[j]);
    return false;
  }
};

}  // namespace

Preferred keep_apart(const Device& device, const Problem& problem, const Legal& legal,
                     const Partners& partners, std::vector<std::uint32_t> found) {
  Preferred best{std::move(found), 0};
  best.broken = broken_weight(device, problem, best.address);
  if (best.broken == 0) return best;
  std::vector<Preference> heaviest = problem.apart;
  std::ranges::sort(heaviest, [](const Preference& x, const Preference& y) {
    return std::tuple(y.weight, x.a, x.b) < std::tuple(x.weight, y.a, y.b);
  });
  const Wishes wishes = wishes_of(problem, heaviest, heaviest.size());
  const Improver improver{device, problem, legal, partners, wishes};
  bool fits = false;
  std::vector<Preferred> placed{best};
  for (std::size_t count = heaviest.size(); count > 0 && !fits; count /= 2) {
    const Wishes some = wishes_of(problem, heaviest, count);
    for (Order order : {Order::Lifetime, Order::Size, Order::LongLived}) {
      Greedy attempt = first_fit(device, problem, legal, partners, some, sorted_requests(problem, order),
                                 order == Order::Lifetime);
      if (attempt.failed) continue;
      fits = true;
      const std::uint64_t broken = broken_weight(device, problem, attempt.address);
      placed.push_back({std::move(attempt.address), broken});
      if (broken == 0) return std::move(placed.back());
    }
  }
  for (const Preferred& p : placed) {
    Preferred next = improver.moved(p.address);
    if (next.broken < best.broken) best = std::move(next);
    if (best.broken == 0) break;
  }
  return best;
}

}  // namespace tw::place
