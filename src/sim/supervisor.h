// The supervisor interpreter of one tile (hardware.md 4): decodes words from SRAM.
#pragma once
#include "sim/tile.h"

namespace tw::sim {

// Runs until the tile stands at a rendezvous, halts or faults; tile.stop says which. Never runs longer than
// the step limit allows.
void run_supervisor(Context& context, Tile& tile);

}  // namespace tw::sim
