#include "report/tile_memory.h"

namespace tw::report {

TileMemory::TileMemory(const package::DeviceImage& image, std::uint32_t tile) {
  for (const package::Segment& s : image.tiles[tile].segments) {
    if (s.address % 4 != 0) continue;
    const std::vector<std::uint8_t>& bytes = image.blobs[s.blob];
    Segment& segment = segments_.emplace_back();
    segment.begin = s.address;
    for (std::size_t o = 0; o + 4 <= bytes.size(); o += 4)
      segment.words.push_back(bytes[o] | bytes[o + 1] << 8 | bytes[o + 2] << 16 |
                              static_cast<std::uint32_t>(bytes[o + 3]) << 24);
  }
}

const TileMemory::Segment* TileMemory::find(std::uint32_t address) const {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const std::size_t s = (last_ + i) % segments_.size();
    if (!segments_[s].holds(address)) continue;
    last_ = s;
    return &segments_[s];
  }
  return nullptr;
}

std::optional<std::uint32_t> TileMemory::at(std::uint32_t address) const {
  if (const Segment* s = find(address)) return s->words[(address - s->begin) / 4];
  const auto it = outside_.find(address);
  return it == outside_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<isa::Instr> TileMemory::instruction(std::uint32_t address) const {
  const Segment* s = find(address);
  if (s == nullptr) return std::nullopt;
  const std::size_t i = (address - s->begin) / 4;
  return isa::decode(s->words[i], i + 1 < s->words.size() ? s->words[i + 1] : 0);
}

void TileMemory::store(std::uint32_t address, std::uint32_t value) {
  if (find(address) != nullptr)
    segments_[last_].words[(address - segments_[last_].begin) / 4] = value;
  else
    outside_[address] = value;
}

std::span<const std::uint32_t> TileMemory::from(std::uint32_t address) const {
  const Segment* s = find(address);
  if (s == nullptr) return {};
  return std::span<const std::uint32_t>(s->words).subspan((address - s->begin) / 4);
}

}  // namespace tw::report
