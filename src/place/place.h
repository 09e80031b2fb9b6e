// SRAM placement of one tile: requests with sizes, classes and lifetimes in, addresses out (compiler.md 8).
// Knows bytes and steps, no tensors. Addresses in bytes of the tile; steps are inclusive event numbers.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "target/device.h"

namespace tw::place {

enum class Class : std::uint8_t { Standard, Interleaved };

inline constexpr std::uint32_t kForever = UINT32_MAX;  // lives to the end of the program

struct Range {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const Range&) const = default;
};

struct Request {
  std::uint32_t bytes = 0;                   // access tail included
  std::uint32_t alignment = 4;               // power of two
  Class cls = Class::Standard;               // Interleaved: region 1 only
  std::uint32_t first = 0, last = kForever;  // both inclusive; 0 = present at upload
};

// Two requests that had better not share a contention element, because an exchange phase reads one and writes
// the other (hardware.md 1.4). A choice among legal placements only; weights add up.
struct Preference {
  std::uint32_t a = 0, b = 0;
  std::uint64_t weight = 0;
  bool operator==(const Preference&) const = default;
};

struct Problem {
  std::vector<Range> free;  // bytes that may be used, ascending, disjoint; no range crosses interleaved_base
  std::vector<Range> aperture;  // usable only by Standard requests with first > 0 and last < kForever (8.3)
  std::vector<Request> requests;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> separate;  // must not share a contention element (8.1)
  std::vector<Preference> apart = {};
};

struct Placement {
  std::vector<std::uint32_t> address;  // one per request
  std::uint64_t peak_live_bytes =
      0;  // max over steps of the bytes of live requests, as placed (alignment in)
  std::uint32_t peak_step = 0;
  std::uint64_t shared_weight = 0;        // of the preferences that are not kept
  std::vector<std::uint32_t> taken = {};  // one per request: the bytes that count at the peak
};

// Why a tile could not be placed. Capacity: live requests are larger than the ranges they are confined to
// (bound.h; a proof).
// Contiguity: one request alone is larger than the largest legal range. Fragmentation: neither; not found.
struct NoFit {
  enum class Kind : std::uint8_t { Capacity, Contiguity, Fragmentation } kind = Kind::Fragmentation;
  std::uint32_t request = 0, step = 0;  // failing request; Capacity: step of the largest excess
  Class cls = Class::Standard;          // class whose bound or range is exceeded
  std::uint64_t needed = 0, available = 0, missing = 0, largest_hole = 0;
  std::vector<std::uint32_t> live;   // requests alive at `step`, largest first (Capacity: those that count)
  std::vector<Range> confined = {};  // Capacity: the free ranges that `live` may use, ascending
  std::uint32_t holes = 0;           // Fragmentation: pieces that `available` is in
};

using Result = std::variant<Placement, NoFit>;

// Proofs first (Capacity, then Contiguity). Then greedy in lifetime order, size order, long-lived first;
// these orders repaired (what found no place moves to the front, at most 256 rounds each and 60,000
// placements); then the bounded address search of compiler.md 8.5 (4,096 nodes, 2,000,000 filter operations).
// What is found is then improved by the preferences (prefer.h); they never decide whether there is a
// placement. Deterministic. InternalError: alignment no power of two, first > last, or a pair that names no
// two requests.
Result solve(const Device& device, const Problem& problem);

// For the picture of a tile that could not be placed: first fit, what lives to the end first, leaving out
// what finds no place. One address per request, 0: left out.
std::vector<std::uint32_t> place_partly(const Device& device, const Problem& problem);

// Independent legality check; every broken rule as text, empty = good.
std::vector<std::string> check(const Device& device, const Problem& problem, const Placement& placement);

// Weight of the preferences that a legal placement, one address per request, does not keep; found like the
// check without the solver.
std::uint64_t shared_weight(const Device& device, const Problem& problem,
                            const std::vector<std::uint32_t>& addresses);

std::string print(const Problem& problem, const Placement& placement);  // address map, for goldens

}  // namespace tw::place
