// SRAM of all tiles with one never-written mark per byte (decisions.md 15). Addresses are tile byte
// addresses. Pages are allocated lazily, so small images cost little. Marks are read and written with relaxed
// atomics: a tile's marks have one writer at a time, but other threads may read neighbouring marks of the
// same word.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tw::sim {

class Memory {
 public:
  // `huge`: ask for huge pages (a full model touches everything).
  Memory(std::uint32_t tiles, std::uint32_t base, std::uint32_t end, bool huge);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint32_t base() const { return base_; }
  std::uint32_t end() const { return end_; }
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    return address >= base_ && address <= end_ && bytes <= end_ - address;
  }
  // First byte of a tile's SRAM, i.e. of address base().
  std::uint8_t* bytes(std::uint32_t tile) { return data_ + tile * stride_; }
  const std::uint8_t* bytes(std::uint32_t tile) const { return data_ + tile * stride_; }
  std::uint8_t* at(std::uint32_t tile, std::uint32_t address) { return bytes(tile) + (address - base_); }
  const std::uint8_t* at(std::uint32_t tile, std::uint32_t address) const {
    return bytes(tile) + (address - base_);
  }

  // Callers check contains() first. Stores mark their bytes as written.
  std::uint32_t load32(std::uint32_t tile, std::uint32_t address) const {
    std::uint32_t v = 0;
    std::memcpy(&v, at(tile, address), 4);
    return v;
  }
  void store32(std::uint32_t tile, std::uint32_t address, std::uint32_t value);
  void store(std::uint32_t tile, std::uint32_t address, std::span<const std::uint8_t> data);

  // Lowest address in [address, address + bytes) that was never written, or address + bytes.
  std::uint32_t first_unwritten(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes) const;
  void mark(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes, bool written);

  // Marks of a range as packed bits, bit i of the range at bit `offset + i` of `bits`.
  void save_marks(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes, std::uint64_t* bits,
                  std::uint64_t offset) const;
  void restore_marks(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes,
                     const std::uint64_t* bits, std::uint64_t offset);
  // Bytes and marks from one place to another; the ranges must not overlap.
  void copy(std::uint32_t from_tile, std::uint32_t from, std::uint32_t to_tile, std::uint32_t to,
            std::uint32_t bytes);
  void prefetch(std::uint32_t tile, std::uint32_t address) const {
    __builtin_prefetch(at(tile, address));
    __builtin_prefetch(marks(tile) + (address - base_) / 64);
  }

  std::span<const std::uint8_t> mark_bytes(std::uint32_t tile) const;

 private:
  std::uint64_t* marks(std::uint32_t tile) { return marks_ + tile * mark_words_; }
  const std::uint64_t* marks(std::uint32_t tile) const { return marks_ + tile * mark_words_; }

  std::uint32_t base_, end_;
  std::size_t stride_, mark_words_, data_bytes_, mark_bytes_;
  std::uint8_t* data_ = nullptr;
  std::uint64_t* marks_ = nullptr;
};

}  // namespace tw::sim
