// Host transfers of a package: bindings with device addresses, cut in batches (hardware.md 5.1, decisions.md
// 16).
#pragma once
#include <cstdint>
#include <vector>

#include "package/package.h"
#include "target/device.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::emit {

inline constexpr std::uint32_t kPageBytes = 4096;      // arena slot and largest piece
inline constexpr std::uint32_t kDescriptorBytes = 16;  // {direction, address, bytes, arena offset}

struct HostPlan {
  std::vector<package::Binding> bindings;  // weights, inputs, outputs
  std::vector<package::HostBatch> initialize, inputs, outputs;
};
// Addresses may be empty (sizing): every slice then has address 0. Number formats and shapes of the bindings
// are the caller's to fill in: a Program does not know them.
HostPlan host_plan(const tile::Program& program, const tile::Addresses& addresses);
// Pieces per physical tile over all batches: what the tile programs must have room for.
std::vector<std::uint32_t> pieces_per_tile(const HostPlan& host, std::uint32_t tiles);

// Arena offset of piece `slot` of a batch.
constexpr std::uint32_t arena_offset(std::uint32_t slot) { return kPageBytes * (1 + slot); }

}  // namespace tw::emit
