// C600 logical/physical tile map and fabric latency (hardware.md 2). All times in tile cycles (= events).
#pragma once
#include <array>
#include <cstdint>

#include "base/ids.h"

namespace tw::topology {

inline constexpr std::uint32_t kTiles = 1472;

// A permutation of 0..kTiles-1; ids outside are InternalErrors.
PhysId physical(TileId logical);
TileId logical(PhysId physical);
constexpr std::uint32_t row_of(PhysId p) { return p.value >> 6; }  // rho, 0..22

// The formulas of hardware.md 2.2 split into a sender's and a receiver's part, because tau() stands in the
// innermost loops of scheduling and simulation: two table rows and an absolute value.
struct FabricTile {
  std::int16_t send_time[2];  // sender's part of tau when the receiver is on die half 0 or 1
  std::int16_t send_route;    // D = receive_route(d) - send_route(s)
  std::int16_t receive_time;  // receiver's part of tau, with the constant
  std::int16_t receive_route;
  std::int16_t half;  // c >> 3
};

constexpr FabricTile fabric_tile(std::uint32_t p) {
  const int row = static_cast<int>(p >> 6), c = static_cast<int>((p >> 2) & 15);
  const int h = static_cast<int>((p >> 1) & 1), e = static_cast<int>(p & 1);
  const int half = c >> 3, fold = half == 0 ? c : 15 - c;
  const int same_parity = half == e ? 1 : 0;
  const int k = h == 1 ? (same_parity ? 2 : 4) : (same_parity ? 1 : 5);
  const int start = (c & 8) + 4 * fold + 2 * row;
  const int same_half = (c & 7) + 1, other_half = 16 - (c & 7);
  FabricTile t{};
  t.send_time[half] = static_cast<std::int16_t>(start + same_half);
  t.send_time[1 - half] = static_cast<std::int16_t>(start + other_half);
  t.send_route = static_cast<std::int16_t>(6 * (fold + (half ^ e)));
  t.receive_time = static_cast<std::int16_t>(-c - 4 * fold - 2 * row - 31);
  t.receive_route = static_cast<std::int16_t>(6 * fold + k);
  t.half = static_cast<std::int16_t>(half);
  return t;
}

inline constexpr std::array<FabricTile, kTiles> kFabric = [] {
  std::array<FabricTile, kTiles> table{};
  for (std::uint32_t p = 0; p < kTiles; ++p) table[p] = fabric_tile(p);
  return table;
}();

// The functions below take valid ids (< kTiles); they do not check.

// Signed route displacement D of hardware.md 2.2.
constexpr int displacement(PhysId s, PhysId d) {
  return kFabric[d.value].receive_route - kFabric[s.value].send_route;
}
// Send event on s to mux event on d, minus one (hardware.md 2.2): item k sent at event S+k is at d's mux at
// local event S + k + tau + 1.
constexpr int tau(PhysId s, PhysId d) {
  const FabricTile& from = kFabric[s.value];
  const FabricTile& to = kFabric[d.value];
  const int route = to.receive_route - from.send_route;
  return from.send_time[to.half] + to.receive_time + (route < 0 ? -route : route);
}
// Send event on s to SRAM write event on d: tau + 53 + 2*rho_d, always >= 19.
constexpr int lambda(PhysId s, PhysId d) { return tau(s, d) + 53 + 2 * static_cast<int>(row_of(d)); }
// Send-control direction bit for a single destination: 1 or 2. A multicast uses 3.
constexpr std::uint32_t direction(PhysId s, PhysId d) { return displacement(s, d) >= 1 ? 1 : 2; }

}  // namespace tw::topology
