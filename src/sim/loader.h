// Puts a device image into the tiles' memory (hardware.md 1.2, 5.3; decisions.md 16).
#pragma once
#include <vector>

#include "package/package.h"
#include "sim/tile.h"

namespace tw::sim {

// Throws Error{File} naming the first broken loader rule.
void check_image(const Device& device, const package::DeviceImage& image);

// Bytes of all segments of all tiles.
std::uint64_t loaded_bytes(const package::DeviceImage& image);

// Segments, call count, launch slot and entry word of every tile; tiles stand at their entry.
void load_image(Context& context, const package::DeviceImage& image, std::uint32_t calls,
                std::vector<Tile>& tiles);

}  // namespace tw::sim
