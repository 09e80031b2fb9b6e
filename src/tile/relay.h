// Relay gathers (compiler.md 10): fragments that many sources multicast to one set of shards are first
// gathered on a relay tile and then sent on in one message, in the same phase. Input: a verified Program.
// Output: the same Program with some phases rewritten, each only where it is estimated to save row bytes and
// no cycles. Shown by tests/tile/relay_test.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "tile/program.h"

namespace tw::tile {

// What a phase costs by the exchange scheduler: horizon in events, row bytes per logical tile.
struct PhasePrice {
  std::uint64_t cycles = 0;
  std::vector<std::uint32_t> row_bytes;
};
// Prices a phase of the program (relay buffers already appended); the caller owns the scheduler.
using PhaseJudge = std::function<PhasePrice(const Program& program, const Phase& phase)>;

struct RelayReport {
  std::uint32_t phases = 0;                                 // phases that now use relays
  std::uint64_t fragments_before = 0, fragments_after = 0;  // sends + receives of those phases
};
// Accepts a rewritten phase iff it takes no more cycles and max over tiles of (row bytes + relay scratch) is
// smaller than the row bytes before.
RelayReport insert_relays(Program& program, std::uint32_t tiles, const PhaseJudge& judge);

}  // namespace tw::tile
