#include "sim/loader.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/parallel.h"
#include "target/topology.h"

namespace tw::sim {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::File, "device image: " + what); }

void check_tile(const Device& device, const package::DeviceImage& image, std::size_t t) {
  const package::TileImage& tile = image.tiles[t];
  if (tile.segments.empty() || tile.segments.front().address != device.load_base)
    refuse(fmt::format("tile {}: the lowest segment does not stand at {:#x}", t, device.load_base));
  std::uint64_t end = 0;
  bool entry = false;
  for (const package::Segment& s : tile.segments) {
    const std::uint64_t segment_end = std::uint64_t{s.address} + s.memory_size;
    if (s.address < end)
      refuse(fmt::format("tile {}: segment at {:#x} overlaps or is out of order", t, s.address));
    if (segment_end > device.loader_end)
      refuse(fmt::format("tile {}: segment at {:#x} ends behind {:#x}", t, s.address, device.loader_end));
    if (s.blob >= image.blobs.size() || image.blobs[s.blob].size() > s.memory_size)
      refuse(fmt::format("tile {}: segment at {:#x} has no blob that fits", t, s.address));
    if ((s.flags & package::kExecute) != 0) {
      if (segment_end > device.interleaved_base)
        refuse(fmt::format("tile {}: executable segment at {:#x} leaves region 0", t, s.address));
      entry |= tile.entry >= s.address && tile.entry < segment_end;
    }
    end = segment_end;
  }
  if (!entry || tile.entry % 4 != 0)
    refuse(fmt::format("tile {}: entry {:#x} is not executable", t, tile.entry));
}

void check_batches(const Device& device, const package::DeviceImage& image,
                   const std::vector<package::HostBatch>& batches, package::BindingKind kind) {
  for (const package::HostBatch& batch : batches)
    for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
      const package::HostPiece& p = batch.pieces[i];
      if (p.tile >= device.tiles || (i > 0 && batch.pieces[i - 1].tile >= p.tile))
        refuse("host batch: pieces are not in ascending tile order");
      if (p.binding >= image.bindings.size() || image.bindings[p.binding].kind != kind ||
          p.offset > image.bindings[p.binding].bytes || p.bytes > image.bindings[p.binding].bytes - p.offset)
        refuse(fmt::format("host batch: piece of tile {} lies outside its binding", p.tile));
      if (batch.to_device != (kind != package::BindingKind::Output)) refuse("host batch: wrong direction");
    }
}

}  // namespace

void check_image(const Device& device, const package::DeviceImage& image) {
  if (device.tiles > topology::kTiles) refuse("more tiles than the fabric has");
  if (image.target != device.name)
    refuse(fmt::format("made for target '{}', the device is '{}'", image.target, device.name));
  if (image.memory_base != device.memory_base || image.memory_end != device.memory_end)
    refuse("memory bounds differ from the device's");
  if (image.tiles.size() != device.tiles)
    refuse(fmt::format("{} tile images for {} tiles", image.tiles.size(), device.tiles));
  for (std::size_t t = 0; t < image.tiles.size(); ++t) check_tile(device, image, t);
  check_batches(device, image, image.initialize, package::BindingKind::Weight);
  check_batches(device, image, image.inputs, package::BindingKind::Input);
  check_batches(device, image, image.outputs, package::BindingKind::Output);
}

std::uint64_t loaded_bytes(const package::DeviceImage& image) {
  std::uint64_t sum = 0;
  for (const package::TileImage& t : image.tiles)
    for (const package::Segment& s : t.segments) sum += s.memory_size;
  return sum;
}

void load_image(Context& context, const package::DeviceImage& image, std::uint32_t calls,
                std::vector<Tile>& tiles) {
  const Device& device = context.device;
  parallel_for(tiles.size(), 16, context.options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      Tile& tile = tiles[t];
      const package::TileImage& from = image.tiles[t];
      const auto id = static_cast<std::uint32_t>(t);
      tile = Tile{};
      tile.id = id;
      tile.pc = from.entry;
      for (const package::Segment& s : from.segments) {
        context.memory.store(id, s.address, image.blobs[s.blob]);
        if ((s.flags & package::kExecute) != 0)
          tile.executable.push_back({s.address, s.address + s.memory_size});
      }
      context.memory.store32(id, device.load_base, 0);
      context.memory.store32(id, device.load_base + 4, from.entry);
      context.memory.store32(id, device.runtime_state + 0xC, calls);
    }
  });
}

}  // namespace tw::sim
