// Distinct integer types for the things the compiler counts, so that a tile can never be taken for a tensor.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace tw {

template <class Tag>
struct Id {
  std::uint32_t value = UINT32_MAX;
  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr bool valid() const { return value != UINT32_MAX; }
};

using TileId = Id<struct LogicalTileTag>;   // what planning and owner maps count: 0..tiles-1
using PhysId = Id<struct PhysicalTileTag>;  // what the fabric and the package count (hardware.md 2.1)
using ValueId = Id<struct GraphValueTag>;
using TensorId = Id<struct PlanTensorTag>;
using BufferId = Id<struct TileBufferTag>;
using PhaseId = Id<struct ExchangePhaseTag>;

}  // namespace tw

template <class Tag>
struct std::hash<tw::Id<Tag>> {
  std::size_t operator()(tw::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
