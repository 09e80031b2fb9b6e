#include "tile/problems.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "target/topology.h"

namespace tw::tile {
namespace {

// Planned data may stand below the code, between row table and region 1, and in region 1 (compiler.md 8.4).
std::vector<place::Range> free_ranges(const Device& device, std::uint32_t code_bytes,
                                      std::uint32_t row_bytes) {
  const std::uint32_t rows = device.code_base + up(code_bytes + device.fetch_guard, device.element_bytes);
  const std::uint32_t behind = rows + row_bytes;
  std::vector<place::Range> ranges = {{device.data_base, device.code_base}};
  if (behind < device.interleaved_base) ranges.push_back({behind, device.interleaved_base});
  ranges.push_back({device.interleaved_base, device.loader_end});
  return ranges;
}

place::Request request_of(const Buffer& b) {
  place::Request r;
  r.bytes = b.stride() * (b.members - 1) + b.bytes + b.tail;
  r.alignment = b.alignment;
  r.cls = b.memory == tensor::MemoryClass::Interleaved ? place::Class::Interleaved : place::Class::Standard;
  r.first = b.first;
  r.last = b.last == kForever ? place::kForever : b.last;
  return r;
}

}  // namespace

std::vector<TilePlacement> placement_problems(const Device& device, const Program& program,
                                              std::uint32_t code_bytes, std::uint32_t row_bytes) {
  std::vector<TilePlacement> tiles(device.tiles);
  for (TilePlacement& t : tiles) {
    t.problem.free = free_ranges(device, code_bytes, row_bytes);
    t.problem.aperture = {{device.aperture_begin, device.aperture_end}};
  }
  std::vector<std::uint32_t> index(program.buffers.size());
  for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    TW_CHECK(b.tile.value < device.tiles, "buffer on a tile that the device has");
    TilePlacement& t = tiles[b.tile.value];
    index[i] = static_cast<std::uint32_t>(t.buffers.size());
    t.buffers.push_back(BufferId(i));
    t.problem.requests.push_back(request_of(b));
  }
  for (const auto& [a, b] : program.separate)
    tiles[program.buffers[a.value].tile.value].problem.separate.emplace_back(index[a.value], index[b.value]);
  return tiles;
}

exchange::Problem exchange_problem(const Program& program, const Phase& phase, const Addresses& addresses) {
  exchange::Problem problem;
  problem.iterations = phase.iterations;
  problem.transfers.reserve(phase.transfers.size());
  problem.receivers.reserve(phase.receivers.size());
  for (const Transfer& t : phase.transfers) {
    const Buffer& b = program.buffers[t.source.value];
    exchange::Transfer out;
    out.source = topology::physical(b.tile);
    out.source_address = addresses.of[t.source.value] + t.source_offset;
    out.source_stride = b.members > 1 && phase.iterations > 1 ? b.stride() : 0;
    out.words = t.words;
    out.first_receiver = t.first_receiver;
    out.receiver_count = t.receiver_count;
    problem.transfers.push_back(out);
  }
  for (const Receiver& r : phase.receivers)
    problem.receivers.push_back(
        {topology::physical(program.buffers[r.buffer.value].tile), addresses.of[r.buffer.value] + r.offset});
  return problem;
}

}  // namespace tw::tile
