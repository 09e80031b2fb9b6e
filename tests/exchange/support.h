// Problems, hand-made schedules and a slow, independent reading of the legality rules for the exchange tests.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "exchange/exchange.h"
#include "target/topology.h"

namespace tw::exchange::test {

inline PhysId tile(std::uint32_t logical) { return topology::physical(TileId(logical)); }

inline void add(Problem& p, PhysId source, std::uint32_t from, std::uint32_t words, std::vector<Receiver> to,
                std::uint32_t stride = 0) {
  Transfer t;
  t.source = source;
  t.source_address = from;
  t.source_stride = stride;
  t.words = words;
  t.first_receiver = static_cast<std::uint32_t>(p.receivers.size());
  t.receiver_count = static_cast<std::uint32_t>(to.size());
  p.receivers.insert(p.receivers.end(), to.begin(), to.end());
  p.transfers.push_back(t);
}

// Schedule of a problem's transfers at given starts.
inline Schedule timed(const Problem& p, const std::vector<std::uint32_t>& starts) {
  Schedule s;
  s.receivers = p.receivers;
  s.iterations = p.iterations;
  for (std::size_t i = 0; i < starts.size(); ++i) s.messages.push_back({p.transfers[i], starts[i]});
  return s;
}

inline const Row& row_of(const Rows& rows, PhysId tile) {
  static const Row none;
  for (const Row& r : rows.rows) {
    if (r.tile == tile) return r;
  }
  return none;
}

inline std::string first(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : faults.front();
}

// Quadratic restatement of hardware.md 1.4 and 3.5 (without C2) for fixed-source transfers: may `i` start at
// `start` given the already placed ones? Pointers and neutrals are all taken as written.
class SlowRules {
 public:
  SlowRules(const Device& device, const Problem& problem) : d_(device), p_(problem) {}

  struct Placed {
    std::size_t transfer;
    std::uint32_t start;
  };
  std::vector<Placed> placed;

  bool fits(std::size_t i, std::uint32_t start) {
    placed.push_back({i, start});
    const bool good = legal();
    placed.pop_back();
    return good;
  }

  std::uint32_t earliest(std::size_t i, std::uint32_t from = 0) {
    while (!fits(i, from)) ++from;
    return from;
  }

  std::uint32_t horizon() const {
    std::uint32_t h = 0;
    for (const Placed& m : placed) {
      const Transfer& t = p_.transfers[m.transfer];
      h = std::max({h, m.start + t.words, 6u});
      for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
        const PhysId r = p_.receivers[t.first_receiver + k].tile;
        h = std::max(h, m.start + static_cast<std::uint32_t>(topology::lambda(t.source, r)) + t.words + 5);
      }
    }
    return h;
  }

 private:
  struct Window {
    std::uint32_t tile;
    std::int64_t begin, end;
    std::uint32_t low_element, high_element;
  };

  static bool meet(const Window& a, const Window& b) {
    return a.tile == b.tile && a.begin < b.end && b.begin < a.end;
  }

  bool legal() const {
    std::vector<Window> sends, muxes, stores;
    std::vector<std::pair<std::uint32_t, std::int64_t>> controls;
    for (const Placed& m : placed) {
      const Transfer& t = p_.transfers[m.transfer];
      const std::int64_t s = m.start, n = t.words;
      sends.push_back({t.source.value, s, s + n, element_of(d_, t.source_address),
                       element_of(d_, t.source_address + 4 * t.words - 1)});
      for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
        const Receiver& r = p_.receivers[t.first_receiver + k];
        const std::int64_t x = s + topology::tau(t.source, r.tile) + 1;
        const std::int64_t w = s + topology::lambda(t.source, r.tile);
        if (x < 1) return false;
        muxes.push_back({r.tile.value, x, x + n, 0, 0});
        stores.push_back({r.tile.value, w, w + n + 5, element_of(d_, r.address),
                          element_of(d_, r.address + 4 * t.words - 1)});
        for (std::int64_t c : {x, x + n, w}) controls.emplace_back(r.tile.value, c);
      }
    }
    for (std::size_t a = 0; a < sends.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (meet(sends[a], sends[b])) return false;
      }
      for (const auto& [t, c] : controls) {
        if (t == sends[a].tile && c == sends[a].begin + 1) return false;
      }
      for (const Window& w : stores) {
        if (meet(sends[a], w) && sends[a].low_element <= w.high_element &&
            w.low_element <= sends[a].high_element) {
          return false;
        }
      }
    }
    for (std::size_t a = 0; a < muxes.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (meet(muxes[a], muxes[b])) return false;
      }
    }
    return true;
  }

  const Device& d_;
  const Problem& p_;
};

// Random point-to-point and multicast transfers among `tiles`; destinations disjoint, sources in other memory
// unless `shared`, where sources and destinations fall into the same few elements.
inline Problem random_problem(std::mt19937& rng, const std::vector<PhysId>& tiles, std::size_t count,
                              std::uint32_t longest, bool shared) {
  Problem p;
  std::vector<std::uint32_t> next(topology::kTiles, shared ? 0x61000u : 0x90000u);
  for (std::size_t i = 0; i < count; ++i) {
    const PhysId source = tiles[rng() % tiles.size()];
    const std::uint32_t words = 1 + rng() % longest;
    std::vector<Receiver> to;
    const std::size_t fan = rng() % 3 == 0 ? 1 + rng() % (tiles.size() - 1) : 1;
    for (std::size_t k = 0; k < fan; ++k) {
      const PhysId r = tiles[rng() % tiles.size()];
      if (r == source || std::ranges::find(to, r, &Receiver::tile) != to.end()) continue;
      to.push_back({r, next[r.value]});
      next[r.value] += 4 * words + (rng() % 2 ? 0 : 8);
    }
    if (to.empty()) continue;
    const std::uint32_t from = shared ? 0x5F000 + 4 * (rng() % 1024) : 0x70000 + 4 * (rng() % 4096);
    add(p, source, from, words, to);
  }
  return p;
}

}  // namespace tw::exchange::test
