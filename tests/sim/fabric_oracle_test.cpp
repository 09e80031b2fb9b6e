// Random phases against an event-by-event reading of hardware.md 3.11: all reads and stores of all tiles in
// increasing event number, reads before stores at equal numbers, clashes of decisions.md 14.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "builder.h"

namespace tw::sim::testing {
namespace {

struct Send {
  std::uint32_t start = 0, words = 0, address = 0, control = 0;
};
struct Control {
  std::uint32_t event = 0, value = 0;
  bool pointer = false;
};
struct TileRow {
  std::vector<Send> sends;
  std::vector<Control> controls;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> busy;     // pipeline, half open
  std::vector<std::pair<std::uint32_t, std::uint32_t>> windows;  // mux, with both controls
  std::uint32_t end = 1;
};
using Phase = std::map<std::uint32_t, TileRow>;

bool free_in(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& taken, std::uint32_t begin,
             std::uint32_t end) {
  return std::none_of(taken.begin(), taken.end(), [&](auto i) { return begin < i.second && i.first < end; });
}

struct Cell {
  std::uint32_t value = 0;
  bool written = false;
};
struct Clash {
  std::uint32_t event = 0, tile = 0;
  auto operator<=>(const Clash&) const = default;
};

class Oracle {
 public:
  std::map<std::pair<std::uint32_t, std::uint32_t>, Cell> memory;  // tile, address

  std::optional<Clash> run(const Device& device, const Phase& phase,
                           const std::map<std::uint32_t, std::uint32_t>& rows) {
    std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, Cell>>> due;  // event: receiver, word
    std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, std::uint32_t>>> reads,
        stores;  // tile: event, element
    std::map<std::uint32_t, std::uint32_t> pointer;
    for (std::uint32_t e = 0; e < 1200; ++e) {
      for (const auto& [s, row] : phase)
        for (const Send& send : row.sends) {
          if (e < send.start || e >= send.start + send.words) continue;
          const std::uint32_t address = send.address + 4 * (e - send.start);
          reads[s].push_back({e, element_of(device, address)});
          for (const auto& [r, other] : phase) {
            const int mux_event = static_cast<int>(e) + topology::tau(PhysId{s}, PhysId{r}) + 1;
            if (selected(other, mux_event) == s)
              due[static_cast<std::uint32_t>(mux_event) + 52 + 2 * (r >> 6)].push_back(
                  {r, memory[{s, address}]});
          }
        }
      for (const auto& [r, row] : phase)
        for (const Control& c : row.controls)
          if (c.pointer && c.event == e) pointer[r] = 4 * c.value;
      for (const auto& [r, cell] : due[e]) {
        stores[r].push_back({e, element_of(device, pointer[r])});
        memory[{r, pointer[r]}] = cell;
        pointer[r] += 4;
      }
    }
    std::optional<Clash> first;
    const auto keep = [&](Clash c) {
      if (!first || c < *first) first = c;
    };
    for (const auto& [t, list] : reads)
      for (const auto& [e, element] : list) {
        if (element == element_of(device, rows.at(t))) keep({e, t});
        for (const auto& [w, other] : stores[t])
          if (element == other && w <= e && e < w + 6) keep({e, t});
      }
    for (const auto& [t, list] : stores)
      for (const auto& [w, element] : list)
        if (element == element_of(device, rows.at(t))) keep({w, t});
    return first;
  }

 private:
  static std::uint32_t selected(const TileRow& row, int event) {
    std::uint32_t value = isa::kMuxNeutral;
    int latest = -1;
    for (const Control& c : row.controls)
      if (!c.pointer && static_cast<int>(c.event) <= event && static_cast<int>(c.event) > latest) {
        latest = static_cast<int>(c.event);
        value = c.value;
      }
    return value;
  }
};

Words encode(TileRow row) {
  struct Action {
    std::uint32_t begin, end, word;
  };
  std::vector<Action> actions;
  for (const Send& s : row.sends)
    actions.push_back({s.start, s.start + s.words, isa::send(s.words, s.address / 4, s.control)});
  for (const Control& c : row.controls)
    actions.push_back(
        {c.event - 1, c.event, c.pointer ? isa::delaypic(1, 0, c.value) : isa::delayxpic(1, 0, c.value)});
  std::sort(actions.begin(), actions.end(),
            [](const Action& a, const Action& b) { return a.begin < b.begin; });
  Words words;
  std::uint32_t t = 0;
  for (const Action& a : actions) {
    if (a.begin > t) words.push_back(isa::delay(a.begin - t));
    words.push_back(a.word);
    t = a.end;
  }
  if (row.end > t) words.push_back(isa::delay(row.end - t));
  words.push_back(isa::kReturnWord);
  return words;
}

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {
    while (tiles.size() < 6) {
      const std::uint32_t t = pick(1472);
      if (std::find(tiles.begin(), tiles.end(), t) == tiles.end()) tiles.push_back(t);
    }
  }
  std::vector<std::uint32_t> tiles;

  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  // Mostly one element for sends and another for stores; both are used for both, so chains and clashes occur.
  std::uint32_t address(bool store) {
    const std::uint32_t bases[] = {0x60000, 0x64000 - 16, 0x70000, 0x80000};
    const std::uint32_t base = pick(5) == 0 ? bases[pick(4)] : store ? bases[2 + pick(2)] : bases[pick(4)];
    return base + 4 * pick(24) + (pick(150) == 0 ? kRows - base : 0);
  }
  Phase phase(std::uint32_t messages) {
    Phase p;
    for (std::uint32_t i = 0; i < messages; ++i) add(p);
    return p;
  }

 private:
  void add(Phase& p) {
    const std::uint32_t s = tiles[pick(6)], start = 80 + pick(500), words = 1 + pick(24);
    TileRow& row = p[s];
    if (!free_in(row.busy, start, start + words)) return;
    row.busy.push_back({start, start + words});
    row.end = std::max(row.end, start + words);
    std::vector<std::uint32_t> taken;
    const std::uint32_t wanted = 1 + pick(3);
    for (const std::uint32_t r : tiles)
      if (taken.size() < wanted && r != s && pick(2) == 0 && receive(p[r], s, r, start, words))
        taken.push_back(r);
    const std::uint32_t control = taken.size() == 1 ? topology::direction(PhysId{s}, PhysId{taken[0]}) : 3;
    row.sends.push_back({start, words, address(false), control});
  }
  bool receive(TileRow& row, std::uint32_t s, std::uint32_t r, std::uint32_t start, std::uint32_t words) {
    const int first = static_cast<int>(start) + topology::tau(PhysId{s}, PhysId{r}) + 1;
    if (first < 1) return false;
    const auto x = static_cast<std::uint32_t>(first), n = x + words, pointer = x + 52 + 2 * (r >> 6);
    // Three controls, each with one event of the pipeline; they may also meet each other.
    if (!free_in(row.busy, x - 1, x) || !free_in(row.busy, n - 1, n) ||
        !free_in(row.busy, pointer - 1, pointer))
      return false;
    if (!free_in(row.windows, x, n + 1) || n == pointer) return false;
    row.windows.push_back({x, n + 1});
    for (const std::uint32_t c : {x, n, pointer}) row.busy.push_back({c - 1, c});
    row.controls.push_back({x, s, false});
    row.controls.push_back({n, isa::kMuxNeutral, false});
    row.controls.push_back({pointer, address(true) / 4, true});
    row.end = std::max(row.end, pointer + words + 5);
    return true;
  }
  std::mt19937 random_;
};

TEST(FabricOracle, RandomPhasesAgreeEventByEvent) {
  std::uint32_t clashes = 0, clean = 0, moved = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Generator generator(seed);
    Builder b(1472);
    Oracle oracle;
    for (const std::uint32_t t : generator.tiles) {
      for (const std::uint32_t base : {0x60000u, 0x70000u, 0x80000u}) {
        const Words words = pattern(t ^ base >> 8, 40);
        b.data(t, base, words);
        for (std::uint32_t i = 0; i < words.size(); ++i) oracle.memory[{t, base + 4 * i}] = {words[i], true};
      }
    }
    std::optional<Clash> clash;
    std::uint32_t phases = 0;
    for (; phases < 3 && !clash; ++phases) {
      const Phase phase = generator.phase(3 + generator.pick(8));
      std::map<std::uint32_t, Words> rows;
      std::map<std::uint32_t, std::uint32_t> places;
      for (const auto& [t, row] : phase) {
        rows[t] = encode(row);
        places[t] = kRows;  // all rows of a tile stand in this element
      }
      b.exchange(rows);
      clash = oracle.run(b.device, phase, places);
    }
    Started run(b, {.threads = 1 + seed % 3});
    if (clash) {
      ++clashes;
      ASSERT_TRUE(run.result.fault) << seed;
      EXPECT_TRUE(run.fault() == "element-clash" || run.fault() == "row-fetch-clash")
          << seed << run.fault() << run.text();
      EXPECT_EQ(run.result.fault->tile, clash->tile) << seed;
      EXPECT_EQ(run.result.fault->phase, phases - 1) << seed;
      continue;
    }
    ++clean;
    ASSERT_EQ(run.fault(), "none") << seed << run.text();
    moved += run.result.stats.words_moved;
    for (const auto& [place, cell] : oracle.memory) {
      if (place.second >= kRows && place.second < 0x80000) continue;
      const std::uint32_t got = words_at(run.machine, place.first, place.second, 1)[0];
      ASSERT_EQ(got, cell.value) << "seed " << seed << " tile " << place.first << " address " << std::hex
                                 << place.second;
    }
  }
  // Both kinds must occur, or the comparison says nothing.
  EXPECT_GT(clashes, 5u);
  EXPECT_GT(clean, 8u);
  EXPECT_GT(moved, 1000u);
}

}  // namespace
}  // namespace tw::sim::testing
