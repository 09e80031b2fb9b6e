// Independent reading of encoded rows: decode, replay, compare with what the problem asked for. Shares
// nothing with schedule() and encode() but the target's tables.
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "base/parallel.h"
#include "exchange/exchange.h"
#include "exchange/replay.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::size_t kMaxFaults = 40;
constexpr std::uint64_t kCheapWords = 20'000'000;  // words times iterations that are all replayed

using Faults = std::vector<std::string>;

// A word of some tile before the phase.
struct Word {
  std::uint32_t tile = UINT32_MAX, address = 0;
  bool operator==(const Word&) const = default;
};

struct Expectation {
  std::uint32_t address = 0, words = 0;  // word addresses on the receiver
  std::uint32_t source = 0, source_address = 0;
};

// What each tile must receive in one iteration, in problem order.
std::vector<std::vector<Expectation>> expectations(const Problem& p, std::uint32_t iteration) {
  std::vector<std::vector<Expectation>> by_tile(topology::kTiles);
  for (const Transfer& t : p.transfers) {
    const std::uint32_t from = (t.source_address + iteration * t.source_stride) / 4;
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const Receiver& r = p.receivers[k];
      by_tile[r.tile.value].push_back({r.address / 4, t.words, t.source.value, from});
    }
  }
  return by_tile;
}

// Some word is written twice, or written and sent: the order of the transfers then matters.
bool order_matters(const Device& d, const Problem& p, const std::vector<std::vector<Expectation>>& wanted,
                   std::uint32_t iteration) {
  const std::uint32_t base = d.memory_base / 4, size = (d.memory_end - d.memory_base) / 4;
  std::vector<std::vector<const Transfer*>> sends(topology::kTiles);
  for (const Transfer& t : p.transfers) sends[t.source.value].push_back(&t);
  std::vector<std::uint32_t> writer(size, 0);
  for (std::uint32_t tile = 0; tile < topology::kTiles; ++tile) {
    const std::uint32_t mark = tile + 1;
    for (const Expectation& e : wanted[tile]) {
      for (std::uint32_t k = 0; k < e.words; ++k) {
        if (std::exchange(writer[e.address - base + k], mark) == mark) return true;
      }
    }
    if (wanted[tile].empty()) continue;
    for (const Transfer* t : sends[tile]) {
      const std::uint32_t from = (t->source_address + iteration * t->source_stride) / 4 - base;
      for (std::uint32_t k = 0; k < t->words; ++k) {
        if (writer[from + k] == mark) return true;
      }
    }
  }
  return false;
}

// Every wanted word arrives exactly once from the right place, and nothing else does.
void compare_plain(const Device& d, std::uint32_t tile, const std::vector<Expectation>& wanted,
                   const std::vector<Store>& stores, std::vector<Word>& table, Faults& faults) {
  const std::uint32_t base = d.memory_base / 4;
  table.resize((d.memory_end - d.memory_base) / 4);
  for (const Expectation& e : wanted) {
    for (std::uint32_t k = 0; k < e.words; ++k)
      table[e.address - base + k] = {e.source, e.source_address + k};
  }
  for (const Store& s : stores) {
    Word& want = table[s.address - base];
    if (want != Word{s.source.value, s.source_address}) {
      faults.push_back(fmt::format("tile {}: {:#x} gets {}:{:#x}, wanted {}:{:#x}", tile, 4 * s.address,
                                   s.source.value, 4 * s.source_address, static_cast<std::int32_t>(want.tile),
                                   4 * want.address));
      break;
    }
    want = {};
  }
  for (const Expectation& e : wanted) {
    for (std::uint32_t k = 0; k < e.words; ++k) {
      Word& want = table[e.address - base + k];
      if (want != Word{} && faults.size() < kMaxFaults) {
        faults.push_back(fmt::format("tile {}: {:#x} never gets {}:{:#x}", tile, 4 * (e.address + k),
                                     want.tile, 4 * want.address));
      }
      want = {};
    }
  }
}

using Memory = std::unordered_map<std::uint64_t, Word>;

std::uint64_t place_of(std::uint32_t tile, std::uint32_t address) {
  return std::uint64_t{tile} << 32 | address;
}

Word read_word(const Memory& m, std::uint32_t tile, std::uint32_t address) {
  const auto it = m.find(place_of(tile, address));
  return it == m.end() ? Word{tile, address} : it->second;
}

// Memory after the transfers one after the other, against memory after all reads and stores by local event
// number, reads first, which is causally exact (3.11).
void compare_ordered(const std::vector<std::vector<Store>>& stores, const Problem& p, std::uint32_t iteration,
                     Faults& faults) {
  Memory wanted;
  std::uint64_t wanted_words = 0;
  for (const Transfer& t : p.transfers) {
    const std::uint32_t from = (t.source_address + iteration * t.source_stride) / 4;
    std::vector<Word> value(t.words);
    for (std::uint32_t k = 0; k < t.words; ++k) value[k] = read_word(wanted, t.source.value, from + k);
    for (std::uint32_t i = t.first_receiver; i < t.first_receiver + t.receiver_count; ++i) {
      const Receiver& r = p.receivers[i];
      for (std::uint32_t k = 0; k < t.words; ++k)
        wanted[place_of(r.tile.value, r.address / 4 + k)] = value[k];
      wanted_words += t.words;
    }
  }
  struct Step {
    std::uint32_t event, tile;
    const Store* store;
    bool write;
  };
  std::vector<Step> steps;
  for (std::uint32_t tile = 0; tile < stores.size(); ++tile) {
    for (const Store& s : stores[tile]) {
      steps.push_back({s.source_event, tile, &s, false});
      steps.push_back({s.event, tile, &s, true});
    }
  }
  if (steps.size() != 2 * wanted_words) {
    faults.push_back(fmt::format("{} words arrive, wanted {}", steps.size() / 2, wanted_words));
  }
  std::ranges::sort(steps, {}, [](const Step& s) { return std::tuple(s.event, s.write, s.tile); });
  Memory actual;
  std::unordered_map<const Store*, Word> flying;
  for (const Step& s : steps) {
    if (s.write) {
      actual[place_of(s.tile, s.store->address)] = flying[s.store];
    } else {
      flying[s.store] = read_word(actual, s.store->source.value, s.store->source_address);
    }
  }
  for (const auto& [place, word] : wanted) {
    const auto it = actual.find(place);
    if (it != actual.end() && it->second == word) continue;
    faults.push_back(fmt::format("tile {}: {:#x} does not end with {}:{:#x}", place >> 32,
                                 4 * (place & 0xFFFFFFFF), word.tile, 4 * word.address));
    if (faults.size() > kMaxFaults) return;
  }
}

void append(Faults& to, const Faults& from) {
  for (const std::string& f : from) {
    if (to.size() < kMaxFaults) to.push_back(f);
  }
}

std::vector<Reading> read_all(const Rows& rows, std::uint32_t iteration, Faults& faults) {
  std::vector<Reading> readings(topology::kTiles);
  std::uint32_t horizon = 0;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const Row& row = rows.rows[i];
    if (row.tile.value >= topology::kTiles || (i > 0 && rows.rows[i - 1].tile >= row.tile)) {
      faults.push_back("rows are not ascending by tile");
      return readings;
    }
    std::vector<std::uint32_t> words = row.words;
    for (const Site& s : row.sites) {
      if (s.word >= words.size() || (&s != row.sites.data() && (&s - 1)->word >= s.word)) {
        faults.push_back(fmt::format("tile {}: sites are not ascending words of the row", row.tile.value));
        return readings;
      }
      const std::uint32_t patched = words[s.word] + iteration * s.step;
      if ((patched ^ words[s.word]) & ~s.mask) {
        faults.push_back(
            fmt::format("tile {}: the patch of word {} leaves its field", row.tile.value, s.word));
      }
      words[s.word] = patched;
    }
    Reading& r = readings[row.tile.value] = read_row(words);
    for (const std::string& f : r.faults) faults.push_back(fmt::format("tile {}: {}", row.tile.value, f));
    if (r.faults.empty() && r.words != words.size())
      faults.push_back(
          fmt::format("tile {}: {} words behind the return", row.tile.value, words.size() - r.words));
    if (r.events != row.horizon) {
      faults.push_back(
          fmt::format("tile {}: row lasts {} events, horizon {}", row.tile.value, r.events, row.horizon));
    }
    horizon = std::max(horizon, r.events);
  }
  if (horizon != rows.horizon)
    faults.push_back(fmt::format("phase horizon {} is not {}", rows.horizon, horizon));
  return readings;
}

Faults check_iteration(const Device& d, const Problem& p, const Rows& rows, std::uint32_t iteration) {
  Faults faults;
  const std::vector<Reading> readings = read_all(rows, iteration, faults);
  if (!faults.empty()) return faults;
  const auto wanted = expectations(p, iteration);
  const bool ordered = order_matters(d, p, wanted, iteration);
  std::vector<std::vector<Store>> all(topology::kTiles);
  std::vector<Faults> by_tile(topology::kTiles);
  parallel_for(topology::kTiles, 32, 0, [&](std::size_t begin, std::size_t end) {
    std::vector<Word> table;
    for (std::size_t i = begin; i < end; ++i) {
      const PhysId tile(static_cast<std::uint32_t>(i));
      std::vector<Store> stores = stores_of(d, tile, readings, by_tile[i]);
      check_elements(d, tile, readings[i], stores, by_tile[i]);
      if (ordered) {
        all[i] = std::move(stores);
      } else if (!stores.empty() || !wanted[i].empty()) {
        compare_plain(d, tile.value, wanted[i], stores, table, by_tile[i]);
      }
    }
  });
  for (const Faults& f : by_tile) append(faults, f);
  if (ordered) compare_ordered(all, p, iteration, faults);
  return faults;
}

}  // namespace

std::vector<std::string> check(const Device& device, const Problem& problem, const Rows& rows) {
  std::uint64_t words = 1;
  for (const Transfer& t : problem.transfers) words += std::uint64_t{t.words} * t.receiver_count;
  const bool all = words * problem.iterations <= kCheapWords;
  Faults faults;
  for (std::uint32_t i = 0; i < problem.iterations && faults.empty(); ++i) {
    if (!all && i != 0 && i + 1 != problem.iterations) continue;
    for (const std::string& f : check_iteration(device, problem, rows, i)) {
      faults.push_back(problem.iterations > 1 ? fmt::format("iteration {}: {}", i, f) : f);
    }
  }
  return faults;
}

}  // namespace tw::exchange
