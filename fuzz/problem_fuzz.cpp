// Arbitrary text, and edits of good files, as a problem file: a refusal is an Error{File}; what is accepted
// is written and read again as it is, and judged: a solution without a broken rule has rows, whatever its
// cycles.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "inspect/problem.h"

namespace {

using namespace tw;

const Device kDevice = c600();
constexpr std::uint64_t kMaxWork = 100'000;  // words times receivers times iterations that are still replayed

bool is_small(const inspect::Problem& problem) {
  const auto* phase = std::get_if<inspect::ExchangeProblem>(&problem);
  if (phase == nullptr) return true;
  std::uint64_t work = phase->problem.iterations > 4 ? kMaxWork : 0;
  for (const exchange::Transfer& t : phase->problem.transfers)
    work += std::uint64_t{t.words} * t.receiver_count;
  return work < kMaxWork;
}

void read_one(const std::string& text) {
  try {
    const inspect::Problem problem = inspect::problem_from_json(kDevice, text, "fuzz");
    const std::string written = inspect::to_json(kDevice, problem);
    if (inspect::to_json(kDevice, inspect::problem_from_json(kDevice, written, "again")) != written)
      std::abort();
    if (is_small(problem)) inspect::check(kDevice, problem, "fuzz");
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
}

inspect::Problem placement() {
  inspect::PlacementProblem p;
  p.tile = 5;
  p.problem.free = {{0x78000, 0x80000}, {0x80000, 0x90000}};
  p.problem.aperture = {{0x50000, 0x58000}};
  p.problem.requests = {{64, 32, place::Class::Standard, 1, 4},
                        {64, 8, place::Class::Interleaved, 2, place::kForever},
                        {64, 8, place::Class::Standard, 0, 3}};
  p.problem.separate = {{1, 2}};
  p.problem.apart = {{0, 2, 10}};
  p.tensors = {"x", "y", "z"};
  p.addresses = {0x50000, 0x80000, 0x78000};
  return p;
}

inspect::Problem phase() {
  inspect::ExchangeProblem p;
  p.problem.iterations = 2;
  p.problem.receivers = {
      {PhysId(0), 0x90000}, {PhysId(0), 0x91000}, {PhysId(2), 0x92000}, {PhysId(64), 0x92000}};
  p.problem.transfers = {{PhysId(2), 0x60000, 0, 10, 0, 1},
                         {PhysId(64), 0x61000, 64, 10, 1, 1},
                         {PhysId(0), 0x62000, 0, 12, 2, 2}};
  p.tensors = {"a", "b", "c"};
  p.schedule = exchange::schedule(kDevice, p.problem);
  return p;
}

// Up to eight messages among three tiles, in every direction, each with words and start of the input.
inspect::Problem timed(const std::uint8_t* data, std::size_t size) {
  static constexpr std::uint32_t kTiles[] = {0, 2, 64};
  inspect::ExchangeProblem p;
  p.schedule.emplace();
  for (std::size_t i = 0; i + 3 <= size && i < 24; i += 3) {
    const std::uint32_t at = static_cast<std::uint32_t>(i) * 0x100;
    exchange::Transfer t{PhysId(kTiles[data[i] % 3]),
                         0x60000 + at,
                         0,
                         data[i + 1] % 20 + 1U,
                         static_cast<std::uint32_t>(p.problem.receivers.size()),
                         data[i] % 9 < 3 ? 2U : 1U};
    for (std::uint32_t k = 0; k < t.receiver_count; ++k)
      p.problem.receivers.push_back({PhysId(kTiles[(data[i] + 1 + k) % 3]), 0x90000 + at});
    p.problem.transfers.push_back(t);
    p.tensors.emplace_back();
    p.schedule->messages.push_back({t, data[i + 2] % 128U});
  }
  p.schedule->receivers = p.problem.receivers;
  return p;
}

// Edits of two bytes of position and one of value; what is a digit stays one, so that most files remain JSON.
std::string edited(std::string text, const std::uint8_t* data, std::size_t size) {
  for (std::size_t i = 0; i + 3 <= size; i += 3) {
    char& c = text[(data[i] | data[i + 1] << 8) % text.size()];
    c = c >= '0' && c <= '9' ? static_cast<char>('0' + data[i + 2] % 10) : static_cast<char>(data[i + 2]);
  }
  return text;
}

// The digits of the good file replaced one after the other.
std::string renumbered(std::string text, const std::uint8_t* data, std::size_t size) {
  std::size_t next = 0;
  for (char& c : text) {
    if (c < '0' || c > '9' || next == size) continue;
    const std::uint8_t value = data[next++];
    if (value >= 64) c = static_cast<char>('0' + value % 10);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string good[] = {inspect::to_json(kDevice, placement()),
                                     inspect::to_json(kDevice, phase())};
  read_one(std::string(data, data + size));
  read_one(inspect::to_json(kDevice, timed(data, size)));
  for (const std::string& text : good) {
    read_one(edited(text, data, size));
    const std::size_t members = text.find(text == good[0] ? "\"free\"" : "\"iterations\"");
    read_one(text.substr(0, members) + renumbered(text.substr(members), data, size));
  }
  return 0;
}
