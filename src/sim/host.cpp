#include "sim/host.h"

#include <fmt/core.h>

#include <cstring>

namespace tw::sim {
namespace {

// Empty when the tile's descriptor and the piece agree and keep the limits.
std::string mismatch(const Context& context, const Tile& tile, const package::HostPiece* piece,
                     bool to_device, std::uint32_t slot) {
  const Device& device = context.device;
  if ((piece != nullptr) != tile.active)
    return piece != nullptr ? "the tile passes a batch that has a piece for it"
                            : "host_run in a batch without a piece";
  if (piece == nullptr) return {};
  const HostDescriptor& d = tile.host;
  if (d.direction != (to_device ? 0 : 1) || d.address != piece->address || d.bytes != piece->bytes)
    return fmt::format("descriptor {{{}, {:#x}, {}}} for a piece {{{}, {:#x}, {}}}", d.direction, d.address,
                       d.bytes, to_device ? 0 : 1, piece->address, piece->bytes);
  if (d.bytes > kArenaSlotBytes || d.bytes % 4 != 0 || d.bytes == 0)
    return fmt::format("piece of {} bytes", d.bytes);
  if (d.arena_offset != kArenaSlotBytes * (1 + slot))
    return fmt::format("arena offset {:#x}, slot {} stands at {:#x}", d.arena_offset, slot,
                       kArenaSlotBytes * (1 + slot));
  if (d.address % 4 != 0 || !context.memory.contains(d.address, d.bytes))
    return fmt::format("piece at {:#x} lies outside memory", d.address);
  if (d.address < device.aperture_end && d.address + d.bytes > device.aperture_begin)
    return fmt::format("piece at {:#x} lies in the host aperture", d.address);
  return {};
}

// Packets and staged data leave nothing usable behind (hardware.md 5.2).
void clobber(Context& context, std::uint32_t tile, std::uint32_t bytes) {
  const std::uint32_t begin = context.device.aperture_begin;
  std::memset(context.memory.at(tile, begin), 0xA5, kStagingOffset + bytes);
  context.memory.mark(tile, begin, kStagingOffset + bytes, false);
}

bool move_piece(Context& context, Tile& tile, const package::HostPiece& piece, bool to_device,
                const HostData& data) {
  Memory& memory = context.memory;
  clobber(context, tile.id, to_device ? piece.bytes : 0);
  if (to_device) {
    memory.store(tile.id, piece.address,
                 std::span(*data.sources[piece.binding]).subspan(piece.offset, piece.bytes));
    return true;
  }
  const std::uint32_t hole = memory.first_unwritten(tile.id, piece.address, piece.bytes);
  if (hole != piece.address + piece.bytes)
    return raise(tile, FaultKind::UndefinedRead, hole,
                 fmt::format("output byte at {:#x} was never written", hole));
  std::memcpy(data.sinks[piece.binding]->data() + piece.offset, memory.at(tile.id, piece.address),
              piece.bytes);
  return true;
}

}  // namespace

std::vector<std::uint32_t> arena_slots(const package::DeviceImage& image) {
  std::vector<std::uint32_t> slots(image.tiles.size(), UINT32_MAX);
  for (const auto* batches : {&image.initialize, &image.inputs, &image.outputs})
    for (const package::HostBatch& b : *batches)
      for (const package::HostPiece& p : b.pieces) slots[p.tile] = 0;
  std::uint32_t next = 0;
  for (std::uint32_t& s : slots)
    if (s == 0) s = next++;
  return slots;
}

std::optional<Fault> run_batch(Context& context, std::vector<Tile>& tiles, const package::HostBatch& batch,
                               std::span<const std::uint32_t> slots, const HostData& data) {
  std::vector<const package::HostPiece*> pieces(tiles.size(), nullptr);
  for (const package::HostPiece& p : batch.pieces) pieces[p.tile] = &p;
  for (Tile& tile : tiles)
    if (const std::string what = mismatch(context, tile, pieces[tile.id], batch.to_device, slots[tile.id]);
        !what.empty()) {
      raise(tile, FaultKind::HostLimit, tile.host.address, what);
      return tile.fault;
    }
  for (const package::HostPiece& p : batch.pieces)
    if (!move_piece(context, tiles[p.tile], p, batch.to_device, data)) return tiles[p.tile].fault;
  return std::nullopt;
}

}  // namespace tw::sim
