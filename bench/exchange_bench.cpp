// The exchange patterns of goals.md on 1,472 tiles: cycles, bound, encoded words and seconds beside the
// anchor's. Usage: exchange_bench [--check]
#include <chrono>
#include <cstring>
#include <random>
#include <set>

#include <fmt/core.h>

#include "exchange/exchange.h"
#include "target/topology.h"

namespace {

using namespace tw;
using namespace tw::exchange;

constexpr std::uint32_t kSources = 0x60000, kDestinations = 0x90000;

// Destinations are packed upward per tile, sources stand in other elements.
class Builder {
 public:
  void add(std::uint32_t source, const std::vector<std::uint32_t>& to, std::uint32_t words) {
    Transfer t;
    t.source = topology::physical(TileId(source));
    t.source_address = kSources + sent_[source];
    t.words = words;
    t.first_receiver = static_cast<std::uint32_t>(problem.receivers.size());
    t.receiver_count = static_cast<std::uint32_t>(to.size());
    sent_[source] = (sent_[source] + 4 * words) % 0x1C000;
    for (std::uint32_t r : to) {
      problem.receivers.push_back({topology::physical(TileId(r)), kDestinations + received_[r]});
      received_[r] += 4 * words;
    }
    problem.transfers.push_back(t);
  }
  Problem problem;

 private:
  std::vector<std::uint32_t> sent_ = std::vector<std::uint32_t>(topology::kTiles, 0);
  std::vector<std::uint32_t> received_ = std::vector<std::uint32_t>(topology::kTiles, 0);
};

Problem ring(std::uint32_t words) {
  Builder b;
  for (std::uint32_t s = 0; s < topology::kTiles; ++s) b.add(s, {(s + 1) % topology::kTiles}, words);
  return b.problem;
}

Problem groups(std::uint32_t size, std::uint32_t words, bool multicast) {
  Builder b;
  for (std::uint32_t s = 0; s < topology::kTiles; ++s) {
    std::vector<std::uint32_t> others;
    const std::uint32_t first = s / size * size;
    for (std::uint32_t r = first; r < std::min(first + size, topology::kTiles); ++r) {
      if (r != s) others.push_back(r);
    }
    if (multicast) {
      b.add(s, others, words);
    } else {
      for (std::uint32_t r : others) b.add(s, {r}, words);
    }
  }
  return b.problem;
}

Problem random_pattern(std::uint32_t count, std::uint32_t fan, std::uint32_t low, std::uint32_t high) {
  std::mt19937 rng(count + fan);
  Builder b;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t s = rng() % topology::kTiles;
    std::set<std::uint32_t> to;
    while (to.size() < fan) {
      const std::uint32_t r = rng() % topology::kTiles;
      if (r != s) to.insert(r);
    }
    b.add(s, {to.begin(), to.end()}, low + rng() % (high - low + 1));
  }
  return b.problem;
}

// Row fragments of a re-layout: every tile sends `per_tile` pieces of 8 words to tiles spread over the
// device.
Problem fragments(std::uint32_t per_tile) {
  Builder b;
  for (std::uint32_t s = 0; s < topology::kTiles; ++s) {
    for (std::uint32_t k = 0; k < per_tile; ++k)
      b.add(s, {(s * 7 + k * 5 + 1 + (k == s)) % topology::kTiles}, 8);
  }
  std::erase_if(b.problem.transfers,
                [&](const Transfer& t) { return b.problem.receivers[t.first_receiver].tile == t.source; });
  return b.problem;
}

// Both operands of a product on a grid: every tile multicasts a block along its row and one along its column.
Problem grid(std::uint32_t rows, std::uint32_t columns, std::uint32_t words) {
  Builder b;
  for (std::uint32_t s = 0; s < rows * columns; ++s) {
    std::vector<std::uint32_t> row, column;
    for (std::uint32_t c = 0; c < columns; ++c) {
      if (s / columns * columns + c != s) row.push_back(s / columns * columns + c);
    }
    for (std::uint32_t r = 0; r < rows; ++r) {
      if (r * columns + s % columns != s) column.push_back(r * columns + s % columns);
    }
    b.add(s, row, words);
    b.add(s, column, words);
  }
  return b.problem;
}

struct Anchor {
  std::uint32_t cycles;
  std::uint64_t words;
  double milliseconds;
};

bool report(const char* name, const Problem& problem, const Anchor& anchor, bool checked) {
  const Device device = c600();
  const auto begin = std::chrono::steady_clock::now();
  const Schedule s = schedule(device, problem);
  const Rows rows = encode(device, s);
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  std::uint64_t words = 0;
  for (const Row& r : rows.rows) words += r.words.size();
  fmt::print("{:34} {:7} {:7} {:7} {:6.2f} {:8} {:8.0f} | {:7} {:8} {:6.0f}", name, problem.transfers.size(),
             rows.horizon, s.bound_words, static_cast<double>(rows.horizon) / s.bound_words, words, ms,
             anchor.cycles, anchor.words, anchor.milliseconds);
  bool good = true;
  if (checked) {
    const auto faults = check(device, problem, rows);
    good = faults.empty();
    fmt::print(" {}", good ? "ok" : faults.front());
  }
  fmt::print("\n");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool checked = argc > 1 && std::strcmp(argv[1], "--check") == 0;
  fmt::print("{:34} {:>7} {:>7} {:>7} {:>6} {:>8} {:>8} | {:>7} {:>8} {:>6}\n", "pattern", "count", "cycles",
             "LB", "ratio", "words", "ms", "anchor", "words", "ms");
  bool good = true;
  good &= report("ring, 256 words", ring(256), {470, 11904, 16}, checked);
  good &= report("all-gather 16, 512 words", groups(16, 512, true), {9811, 53212, 67}, checked);
  good &= report("all-to-all 16, 64 words", groups(16, 64, false), {2809, 108506, 369}, checked);
  good &= report("all-to-all 32, 64 words", groups(32, 64, false), {6383, 226744, 2129}, checked);
  good &=
      report("random pairs, 8 to 128 words, 4k", random_pattern(4000, 1, 8, 128), {1520, 22504, 40}, checked);
  good &= report("random pairs, 8 to 128 words, 16k", random_pattern(16000, 1, 8, 128), {3601, 84157, 332},
                 checked);
  good &= report("random 8-way, 16 to 64 words, 8k", random_pattern(8000, 8, 16, 64), {13857, 209811, 454},
                 checked);
  good &= report("8-word fragments, 270 per tile", fragments(270), {0, 0, 0}, checked);
  good &= report("grid 32x46, rows and columns, 64", grid(32, 46, 64), {0, 0, 0}, checked);
  good &= report("grid 32x46, rows and columns, 8", grid(32, 46, 8), {0, 0, 0}, checked);
  return good ? 0 : 1;
}
