#include "target/topology.h"

#include <array>

#include "base/error.h"

namespace tw::topology {
namespace {

// Tiles are numbered in pairs along 23-row blocks that run up and down alternately (hardware.md 2.1).
constexpr std::uint32_t serpentine(std::uint32_t logical) {
  const std::uint32_t pair = logical / 2, lane = logical % 2;
  const std::uint32_t block = pair / 23;
  const std::uint32_t step = pair % 23;
  const std::uint32_t row = block % 2 == 0 ? step : 22 - step;
  return 64 * row + 4 * (block / 2) + (block & 1) + 2 * lane;
}

struct Maps {
  std::array<std::uint16_t, kTiles> to_physical{}, to_logical{};
};

constexpr Maps kMaps = [] {
  Maps maps;
  for (std::uint32_t l = 0; l < kTiles; ++l) {
    maps.to_physical[l] = static_cast<std::uint16_t>(serpentine(l));
    maps.to_logical[serpentine(l)] = static_cast<std::uint16_t>(l);
  }
  return maps;
}();

}  // namespace

PhysId physical(TileId logical) {
  TW_CHECK(logical.value < kTiles, "logical tile out of range");
  return PhysId(kMaps.to_physical[logical.value]);
}

TileId logical(PhysId physical) {
  TW_CHECK(physical.value < kTiles, "physical tile out of range");
  return TileId(kMaps.to_logical[physical.value]);
}

}  // namespace tw::topology
