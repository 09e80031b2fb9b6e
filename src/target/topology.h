// C600 logical/physical tile map and fabric latency (hardware.md 2). All times in tile cycles (= events).
#pragma once
#include <cstdint>

#include "base/ids.h"

namespace tw::topology {

inline constexpr std::uint32_t kTiles = 1472;

PhysId physical(TileId logical);
TileId logical(PhysId physical);
constexpr std::uint32_t row_of(PhysId p) { return p.value >> 6; }  // rho, 0..22

// Send event on s to mux event on d, minus one (hardware.md 2.2): item k sent at event S+k is at d's mux at
// local event S + k + tau + 1.
int tau(PhysId s, PhysId d);
// Send event on s to SRAM write event on d: tau + 53 + 2*rho_d, always >= 19.
int lambda(PhysId s, PhysId d);
// Send-control direction bit for a single destination: 1 or 2. A multicast uses 3.
std::uint32_t direction(PhysId s, PhysId d);

}  // namespace tw::topology
