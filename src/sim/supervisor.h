// The supervisor interpreter of one tile (hardware.md 4): decodes words from SRAM, six cycles each.
#pragma once
#include "sim/tile.h"

namespace tw::sim {

inline constexpr std::uint64_t kCyclesPerWord = 6;  // hardware.md 1.3

// Runs until the tile stands at a rendezvous, halts or faults; tile.stop says which. Never runs longer than
// the step limit allows.
void run_supervisor(Context& context, Tile& tile);

}  // namespace tw::sim
