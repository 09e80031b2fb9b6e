// The device as data: memory map, limits and timing constants of an IPU21 (hardware.md 1.2, decisions.md 26).
// Addresses and sizes in bytes of the tile address space; cycles of the tile clock.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tw {

struct Device {
  std::string name = "c600";
  double clock_hz = 1.5e9;                   // hardware.md 1.1
  std::uint32_t tiles = 1472;                // tiles of the chip; every one has a program
  std::uint32_t memory_base = 0x4C000;       // first byte of SRAM
  std::uint32_t memory_end = 0xE8000;        // one past the last byte of SRAM
  std::uint32_t interleaved_base = 0x80000;  // region 1; also the limit of executable memory
  std::uint32_t load_base = 0x4C010;         // launch slot and entry words stand here
  std::uint32_t loader_end = 0xE7BB0;        // exclusive end of memory the loader can fill
  std::uint32_t aperture_begin = 0x50000;    // host-exchange aperture
  std::uint32_t aperture_end = 0x58000;
  std::uint32_t runtime_state = 0x58000;  // completion word; call count at +0xC (decisions.md 16)
  std::uint32_t data_base = 0x586E0;      // first byte for planned data
  std::uint32_t code_base = 0x5C000;      // runtime, kernels, programs start here
  std::uint32_t element_bytes = 0x4000;   // contention unit of region 0
  std::uint32_t pair_bytes = 0x8000;      // contention unit of region 1
  std::uint32_t fetch_guard = 64;         // supervisor look-ahead behind code and rows
  std::uint32_t table_budget = 81920;     // exchange table bytes per tile (policy)
  std::uint32_t fragment_limit = 16384;   // sends + receives per tile (policy)
  std::uint32_t phase_constant = 250;     // cycles added to each exchange phase (decisions.md 11)
  std::uint32_t max_message_words = 4148;
};

Device c600();
// Reads a TOML description (configs/c600.toml shows every key). Unknown keys, missing files and values that
// break validate() throw Error{Usage|File} naming the key.
Device load_device(const std::filesystem::path& file);
// Every broken rule between the fields, as text; empty = good.
std::vector<std::string> validate(const Device& device);

// Contention element of an address: region 0 elements are absolute 16 KiB indexes, region 1 pairs follow
// at kFirstPair (hardware.md 1.2). One number space, so that elements of both regions compare.
inline constexpr std::uint32_t kFirstPair = 1024;
constexpr std::uint32_t element_of(const Device& d, std::uint32_t address) {
  return address < d.interleaved_base ? address / d.element_bytes
                                      : kFirstPair + (address - d.interleaved_base) / d.pair_bytes;
}

}  // namespace tw
