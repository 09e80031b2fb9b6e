// Words of one tile: as loaded, then as its program changes them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "package/package.h"
#include "target/isa.h"

namespace tw::report {

class TileMemory {
 public:
  TileMemory(const package::DeviceImage& image, std::uint32_t tile);

  std::optional<std::uint32_t> at(std::uint32_t address) const;  // nullopt: neither loaded nor stored
  std::optional<isa::Instr> instruction(std::uint32_t address) const;
  void store(std::uint32_t address, std::uint32_t value);
  // The loaded words from `address` to the end of their segment, changes in; empty where nothing is loaded.
  std::span<const std::uint32_t> from(std::uint32_t address) const;

 private:
  struct Segment {
    std::uint32_t begin = 0;
    std::vector<std::uint32_t> words;
    bool holds(std::uint32_t address) const {
      return address >= begin && address % 4 == 0 && (address - begin) / 4 < words.size();
    }
  };
  const Segment* find(std::uint32_t address) const;

  std::vector<Segment> segments_;
  mutable std::size_t last_ = 0;                              // segment found last
  std::unordered_map<std::uint32_t, std::uint32_t> outside_;  // stored where nothing is loaded
};

}  // namespace tw::report
