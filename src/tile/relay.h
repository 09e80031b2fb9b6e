// Relay gathers (compiler.md 10): fragments that many sources multicast to one set of shards are first
// gathered on a relay tile and then sent on in one message, in the same phase. Input: a verified Program.
// Output: the same Program with some phases rewritten, each only where it is estimated to save row bytes and
// no cycles. Shown by tests/tile/relay_test.cpp.
#pragma once
#include <cstdint>

#include "tile/program.h"

namespace tw::tile {

struct RelayReport {
  std::uint32_t phases = 0;                                 // phases that now use relays
  std::uint64_t fragments_before = 0, fragments_after = 0;  // sends + receives of those phases
};
RelayReport insert_relays(Program& program, std::uint32_t tiles);

}  // namespace tw::tile
