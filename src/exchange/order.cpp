#include "exchange/order.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "exchange/placer.h"
#include "exchange/rounds.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::uint32_t kLookBudget = 256;  // receivers looked at per choice
constexpr std::uint32_t kMaxPostpone = 60;  // times a source lets others go first

// List scheduling by time: the source that is free first sends the unit that can start first; ties go to the
// busiest receiver, then to the next tile in cyclic order (which makes all-to-all a rotation without
// conflicts).
class Order {
 public:
  Order(const Device& device, const Pieces& pieces, const OrderPolicy& policy,
        const std::vector<char>& no_pairs)
      : pieces_(pieces), policy_(policy), placer_(device, pieces, no_pairs), starts_(pieces.list.size(), 0) {
    std::uint32_t tiles = 0;
    for (const Transfer& t : pieces.list) tiles = std::max(tiles, t.source.value + 1);
    for (const Receiver& r : pieces.receivers) tiles = std::max(tiles, r.tile.value + 1);
    tiles_ = tiles;
    pending_.resize(tiles);
    queued_.assign(tiles, 0);
    postponed_.assign(tiles, 0);
    send_left_.assign(tiles, 0);
    receive_left_.assign(tiles, 0);
    waits_.resize(pieces.units.size());
    lower_.assign(pieces.units.size(), 0);
    count_work();
    find_frames();
    if (policy.in_rounds) round_of_ = unit_rounds(pieces, placer_);
    const std::uint32_t last = round_of_.empty() ? 0 : *std::ranges::max_element(round_of_);
    by_round_.resize(last + 1);
    for (std::uint32_t u = 0; u < pieces.units.size(); ++u) {
      waits_[u] = pieces.units[u].predecessors;
      if (waits_[u] == 0) by_round_[round_of(u)].push_back(u);
    }
  }

  Placement run() {
    std::size_t placed = 0;
    for (round_ = 0; round_ < by_round_.size(); ++round_) {
      for (std::uint32_t u : by_round_[round_]) pending_[source(u).value].push_back(candidate(u));
      for (std::uint32_t s = 0; s < tiles_; ++s) {
        // Taken from the back: nearest last, streams in their own order.
        std::ranges::sort(pending_[s], std::greater{},
                          [&](const Candidate& c) { return std::pair(distance(c.unit), c.unit); });
        enqueue(s, placer_.send_end(PhysId(s)));
      }
      placed += drain();
    }
    TW_CHECK(placed == pieces_.units.size(), "dependences of an exchange phase form a cycle");
    return {std::move(starts_), placer_.any_contended()};
  }

 private:
  // Places all that is pending; returns the number of units.
  std::size_t drain() {
    std::size_t placed = 0;
    while (!queue_.empty()) {
      const auto [time, left, s] = queue_.top();
      queue_.pop();
      const Choice best = choose(s);
      const std::int64_t arrival = best.start + frame_[s];
      if (arrival > time + policy_.slack && postponed_[s] < kMaxPostpone) {
        ++postponed_[s];
        queue_.push({arrival, left, s});
        continue;
      }
      queued_[s] = 0;
      postponed_[s] = 0;
      const std::uint32_t u = pending_[s][best.index].unit;
      pending_[s].erase(pending_[s].begin() + static_cast<std::ptrdiff_t>(best.index));
      place(u);
      ++placed;
      enqueue(s, placer_.send_end(PhysId(s)));
    }
    return placed;
  }

  // A pending unit with what the choice needs of its first receiver.
  struct Candidate {
    std::uint32_t unit = 0;
    std::uint32_t first_start = 0;
    std::uint32_t receiver = 0, receivers = 0;  // first entry in Pieces::receivers, number
    PhysId tile;                                // of the first
    std::int32_t tau = 0;
    bool contended = false;  // and the policy sees it
  };
  struct Choice {
    std::size_t index = 0;
    std::uint32_t start = 0;
  };
  // Earliest time, then most work left, then lowest tile.
  using Entry = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;

  std::uint32_t round_of(std::uint32_t u) const { return round_of_.empty() ? 0 : round_of_[u]; }
  const Transfer& head(std::uint32_t u) const { return pieces_.list[pieces_.units[u].first]; }
  PhysId source(std::uint32_t u) const { return head(u).source; }
  std::uint32_t distance(std::uint32_t u) const {
    const Transfer& t = head(u);
    const std::uint32_t r = pieces_.receivers[t.first_receiver].tile.value;
    return (r + tiles_ - t.source.value) % tiles_;
  }

  // Tiles count from different moments: a source's events plus its mean time to its receivers make the
  // sources comparable.
  void find_frames() {
    frame_.assign(tiles_, 0);
    std::vector<std::int64_t> count(tiles_, 0);
    for (const Transfer& t : pieces_.list) {
      for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
        frame_[t.source.value] += topology::tau(t.source, pieces_.receivers[t.first_receiver + k].tile);
        ++count[t.source.value];
      }
    }
    for (std::uint32_t s = 0; s < tiles_; ++s) frame_[s] /= std::max<std::int64_t>(count[s], 1);
  }

  void count_work() {
    for (const Transfer& t : pieces_.list) {
      send_left_[t.source.value] += t.words;
      for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
        receive_left_[pieces_.receivers[t.first_receiver + k].tile.value] += t.words;
      }
    }
  }

  void enqueue(std::uint32_t s, std::uint32_t time) {
    if (queued_[s] || pending_[s].empty()) return;
    queued_[s] = 1;
    queue_.push({time + frame_[s], -static_cast<std::int64_t>(send_left_[s]), s});
  }

  Candidate candidate(std::uint32_t u) const {
    const Transfer& t = head(u);
    return {u,
            std::max(placer_.first_start(pieces_.units[u].first), lower_[u]),
            t.first_receiver,
            t.receiver_count,
            pieces_.receivers[t.first_receiver].tile,
            placer_.tau(t.first_receiver),
            policy_.see_contention && placer_.contended(pieces_.units[u].first)};
  }

  // Calls fn(tile, tau) for every receiver.
  template <class Fn>
  void each_receiver(const Candidate& c, Fn fn) const {
    fn(c.tile, c.tau);
    for (std::uint32_t k = c.receiver + 1; k < c.receiver + c.receivers; ++k) {
      fn(pieces_.receivers[k].tile, placer_.tau(k));
    }
  }

  // Start behind everything already placed; gaps may allow an earlier one.
  std::uint32_t start_of(const Candidate& c, std::uint32_t ready) const {
    auto start = static_cast<std::int32_t>(std::max(ready, c.first_start));
    each_receiver(c, [&](PhysId tile, std::int32_t tau) {
      start = std::max(start, static_cast<std::int32_t>(placer_.mux_end(tile)) - tau - 1);
    });
    return static_cast<std::uint32_t>(start);
  }

  // Words the busiest receiver still waits for, less the mean rest of the muxes in front of `start`,
  // weighted.
  std::int64_t merit(const Candidate& c, std::uint32_t start) const {
    std::int64_t left = 0, rest = 0;
    each_receiver(c, [&](PhysId tile, std::int32_t tau) {
      left = std::max(left, std::int64_t{receive_left_[tile.value]});
      rest += std::int64_t{start} + tau + 1 - placer_.mux_end(tile);
    });
    return left - policy_.gap_weight * rest / c.receivers;
  }

  Choice choose(std::uint32_t s) const {
    const auto& units = pending_[s];
    const std::uint32_t ready = placer_.send_end(PhysId(s));
    Choice best;
    std::uint32_t best_late = UINT32_MAX, looked = 0;
    std::int64_t best_merit = 0;
    for (std::size_t i = units.size(); i-- > 0 && looked < kLookBudget;) {
      looked += units[i].receivers;
      std::uint32_t start = start_of(units[i], ready);
      std::uint32_t late = start > ready + policy_.slack ? start : 0;
      if (late > best_late) continue;
      if (units[i].contended) {
        start = placer_.behind_contention(pieces_.units[units[i].unit].first, start);
        late = start > ready + policy_.slack ? start : 0;
        if (late > best_late) continue;
      }
      const std::int64_t m = merit(units[i], start);
      if (late < best_late || m > best_merit) {
        best = {i, start};
        best_late = late;
        best_merit = m;
      }
    }
    return best;
  }

  void place(std::uint32_t u) {
    const Unit& unit = pieces_.units[u];
    std::uint32_t lower = lower_[u];
    for (std::uint32_t i = unit.first; i < unit.first + unit.count; ++i) {
      const Transfer& t = pieces_.list[i];
      starts_[i] = placer_.place(i, lower);
      lower = starts_[i] + t.words;
    }
    const Transfer& t = head(u);
    send_left_[t.source.value] -= unit.words;
    for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
      receive_left_[pieces_.receivers[t.first_receiver + k].tile.value] -= unit.words;
    }
    if (!pieces_.dependences.empty()) release(u, lower);
  }

  // Lower bounds of the units that wait for u, whose last send ends at event `end` of its source (3.7).
  void release(std::uint32_t u, std::uint32_t end) {
    auto it = std::ranges::lower_bound(pieces_.dependences, u, {}, &Dependence::from);
    for (; it != pieces_.dependences.end() && it->from == u; ++it) {
      int bound = static_cast<int>(end);
      if (!it->from_reads) bound += topology::lambda(source(u), it->tile);
      if (!it->to_reads) bound -= topology::lambda(source(it->to), it->tile);
      lower_[it->to] = std::max(lower_[it->to], static_cast<std::uint32_t>(std::max(bound, 0)));
      if (--waits_[it->to] > 0) continue;
      if (round_of(it->to) > round_) {
        by_round_[round_of(it->to)].push_back(it->to);
        continue;
      }
      const PhysId s = source(it->to);
      pending_[s.value].push_back(candidate(it->to));
      enqueue(s.value, lower_[it->to]);
    }
  }

  const Pieces& pieces_;
  const OrderPolicy policy_;
  Placer placer_;
  std::vector<std::uint32_t> starts_;
  std::uint32_t tiles_ = 0;
  std::vector<std::vector<Candidate>> pending_;       // per source: units without open predecessors
  std::vector<std::int64_t> frame_;                   // per source
  std::vector<std::uint32_t> round_of_;               // per unit; empty: all in round 0
  std::vector<std::vector<std::uint32_t>> by_round_;  // units without open predecessors
  std::size_t round_ = 0;
  std::vector<char> queued_;
  std::vector<std::uint32_t> postponed_;
  std::vector<std::uint32_t> send_left_, receive_left_;  // words per tile
  std::vector<std::uint32_t> waits_, lower_;             // per unit
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

Placement place_all(const Device& device, const Pieces& pieces, const OrderPolicy& policy,
                    const std::vector<char>& no_pairs) {
  return Order(device, pieces, policy, no_pairs).run();
}

}  // namespace tw::exchange
