// Element clashes of one tile in one phase (hardware.md 1.2, 1.4; decisions.md 14) and the question whether
// the order of its reads and stores matters.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sim/exchange_row.h"
#include "sim/exchange_unit.h"

namespace tw::sim {

// First address behind the contention element of `address`.
std::uint32_t element_end(const Device& device, std::uint32_t address);

struct Hazard {
  FaultKind kind{};
  std::uint32_t event = 0, address = 0;
  std::string what;
};
// Earliest clash of the row's fetches, sends and stores. `stores`: copies into this tile, by store event.
std::optional<Hazard> find_hazard(const Device& device, const Activity& row, std::span<const Copy> stores);

// Whether some word of the tile is stored twice, or both read and stored, in this phase.
bool needs_order(std::uint32_t memory_base, std::uint32_t memory_end, std::span<const SendRun> sends,
                 std::span<const Copy> stores);

}  // namespace tw::sim
