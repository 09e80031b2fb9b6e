// Host side of a call: moves whole batches between host data and tile memory (hardware.md 5; decisions.md
// 16).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "package/package.h"
#include "sim/tile.h"

namespace tw::sim {

inline constexpr std::uint32_t kArenaSlotBytes = 4096;  // hardware.md 5.1
inline constexpr std::uint32_t kStagingOffset = 0x180;  // in the aperture, hardware.md 5.2

// Host data of each binding of the image; null where this call has none.
struct HostData {
  std::vector<const std::vector<std::uint8_t>*> sources;
  std::vector<std::vector<std::uint8_t>*> sinks;
};

// Arena slot of every tile: its rank among the tiles that move anything in any call; UINT32_MAX: none.
std::vector<std::uint32_t> arena_slots(const package::DeviceImage& image);

// Checks every tile's descriptor against the batch, then moves its pieces. Fault of the lowest tile.
std::optional<Fault> run_batch(Context& context, std::vector<Tile>& tiles, const package::HostBatch& batch,
                               std::span<const std::uint32_t> slots, const HostData& data);

}  // namespace tw::sim
