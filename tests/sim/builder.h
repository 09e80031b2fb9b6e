// Hand-written tile programs for the simulator's tests: every tile gets boot code, then the words a test
// emits.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernel/kernel.h"
#include "package/package.h"
#include "sim/machine.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::sim::testing {

using Words = std::vector<std::uint32_t>;

inline constexpr std::uint32_t kRuntime = 0x5C000;  // helper and kernel headers, 32 bytes each
inline constexpr std::uint32_t kEntry = 0x5C400;    // tile programs
inline constexpr std::uint32_t kRows = 0x7C000;     // rows, in an element of their own

inline constexpr std::array kKernels = {
    kernel::Code::Fill, kernel::Code::CopyU32, kernel::Code::CopyU64, kernel::Code::CopyStrided32,
    kernel::Code::Add,  kernel::Code::CopyU16, kernel::Code::GemmF16};

inline std::uint32_t helper(kernel::Helper h) { return kRuntime + 32 * static_cast<std::uint32_t>(h); }
inline std::uint32_t kernel_at(kernel::Code c) {
  for (std::uint32_t i = 0; i < kKernels.size(); ++i)
    if (kKernels[i] == c) return kRuntime + 32 * (16 + i);
  return 0;
}
inline std::uint32_t phys(std::uint32_t logical) { return topology::physical(TileId{logical}).value; }

class Builder {
 public:
  Device device = c600();
  package::DeviceImage image;

  // Few tiles keep most tests quick; the fabric's formulas do not depend on the number.
  explicit Builder(std::uint32_t tiles = 128) : code_(tiles), rows_(tiles), data_(tiles) {
    device.tiles = tiles;
    image.target = device.name;
    image.memory_base = device.memory_base;
    image.memory_end = device.memory_end;
    image.step_limit = 10'000'000;
    runtime_ = runtime();
    all({isa::sync(3), isa::sync(2), isa::setzi(8, 0x640), isa::put(0xA0, 8), isa::put(0xA7, 15),
         isa::setzi(8, 0x580E0), isa::put(0x21, 8), isa::add(11, 8, 0x600), isa::runall(0, 15), isa::sync(2),
         isa::setzi(8, 0x600), isa::put(0xA0, 8), isa::sync(7), isa::setzi(8, 0x640), isa::put(0xA0, 8)});
  }

  std::uint32_t pc(std::uint32_t tile) const {
    return kEntry + 4 * static_cast<std::uint32_t>(code_[tile].size());
  }
  void emit(std::uint32_t tile, const Words& words) {
    code_[tile].insert(code_[tile].end(), words.begin(), words.end());
  }
  void all(const Words& words) {
    for (std::uint32_t t = 0; t < device.tiles; ++t) emit(t, words);
  }
  void data(std::uint32_t tile, std::uint32_t address, const Words& words) { data_[tile][address] = words; }
  Words& code(std::uint32_t tile) { return code_[tile]; }

  // Stores a row (8-byte aligned) and returns its address.
  std::uint32_t row(std::uint32_t tile, const Words& words) {
    Words& r = rows_[tile];
    if (r.size() % 2 != 0) r.push_back(0);
    const std::uint32_t address = kRows + 4 * static_cast<std::uint32_t>(r.size());
    r.insert(r.end(), words.begin(), words.end());
    return address;
  }
  static Words active_call(std::uint32_t row) {
    return {isa::setzi(8, 0),   isa::put(0xA4, 8),
            isa::put(0xA7, 15), isa::call(7, helper(kernel::Helper::WorkerBarrier)),
            isa::setzi(8, 1),   isa::put(0xA6, 8),
            isa::sync(3),       isa::call(10, row)};
  }
  static Words inactive_call() {
    return {isa::setzi(8, 0), isa::put(0xA4, 8), isa::put(0xA7, 15),
            isa::sans(0),     isa::sync(1),      isa::call(10, kRuntime)};
  }
  // One phase: listed tiles take part with their rows.
  void exchange(const std::map<std::uint32_t, Words>& rows) {
    for (std::uint32_t t = 0; t < device.tiles; ++t) {
      const auto it = rows.find(t);
      emit(t, it == rows.end() ? inactive_call() : active_call(row(t, it->second)));
    }
  }
  static Words kernel_call(kernel::Code code, const Words& arguments) {
    Words w;
    for (std::uint32_t i = 0; i < arguments.size(); ++i) w.push_back(isa::setzi(2 + i, arguments[i]));
    w.push_back(isa::call(10, kernel_at(code)));
    return w;
  }
  // One host batch of the program: descriptors of the listed tiles are stored behind 0x5F000.
  void host_batch(const std::map<std::uint32_t, std::array<std::uint32_t, 4>>& descriptors) {
    const std::uint32_t address = 0x5F000 + 16 * batches_++;
    for (std::uint32_t t = 0; t < device.tiles; ++t) {
      const auto it = descriptors.find(t);
      if (it == descriptors.end()) {
        emit(t, {isa::sans(1), isa::sync(1)});
        continue;
      }
      data(t, address, Words(it->second.begin(), it->second.end()));
      emit(t, {isa::setzi(2, address), isa::call(10, helper(kernel::Helper::HostRun))});
    }
  }
  static Words completion() {
    return {isa::setzi(8, 1), isa::setzi(9, 0x58000), isa::st32(8, 9, 15, 0), isa::bri(0)};
  }

  package::DeviceImage& finish() {
    all(completion());
    image.tiles.clear();
    for (std::uint32_t t = 0; t < device.tiles; ++t) {
      package::TileImage tile;
      tile.entry = kEntry;
      std::map<std::uint32_t, package::Segment> segments;
      const auto add = [&](std::uint32_t address, const Words& words, std::uint8_t flags) {
        if (words.empty()) return;
        segments[address] = {address, 4 * static_cast<std::uint32_t>(words.size()), blob(words), flags};
      };
      add(device.load_base, {0, 0}, package::kRead | package::kWrite);
      add(kRuntime, runtime_, package::kRead | package::kExecute);
      add(kEntry, code_[t], package::kRead | package::kExecute);
      add(kRows, rows_[t], package::kRead | package::kWrite | package::kExecute);
      for (const auto& [address, words] : data_[t]) add(address, words, package::kRead | package::kWrite);
      for (const auto& [address, segment] : segments) tile.segments.push_back(segment);
      image.tiles.push_back(std::move(tile));
    }
    return image;
  }

 private:
  std::uint32_t blob(const Words& words) {
    const auto [it, fresh] = blobs_.try_emplace(words, static_cast<std::uint32_t>(image.blobs.size()));
    if (fresh) {
      std::vector<std::uint8_t> bytes(4 * words.size());
      std::memcpy(bytes.data(), words.data(), bytes.size());
      image.blobs.push_back(std::move(bytes));
    }
    return it->second;
  }
  static Words runtime() {
    Words w(256, 0);
    w[0] = isa::kReturnWord;  // the row of a tile that does not take part
    const auto put = [&](std::uint32_t address, const Words& header) {
      std::copy(header.begin(), header.end(), w.begin() + (address - kRuntime) / 4);
    };
    for (std::uint16_t h = 1; h <= 7; ++h)
      put(helper(static_cast<kernel::Helper>(h)), {kernel::kMagic, h | 1U << 16, 32});
    for (const kernel::Code c : kKernels) {
      const std::uint32_t spec = c == kernel::Code::GemmF16 ? 2 : 0;
      put(kernel_at(c), {kernel::kMagic, static_cast<std::uint32_t>(c), 32 | spec << 24, 0, 0});
    }
    return w;
  }

  std::vector<Words> code_, rows_;
  std::vector<std::map<std::uint32_t, Words>> data_;
  std::map<Words, std::uint32_t> blobs_;
  Words runtime_;
  std::uint32_t batches_ = 0;
};

// `n` words that name their tile and position.
inline Words pattern(std::uint32_t tile, std::uint32_t n) {
  Words w(n);
  for (std::uint32_t i = 0; i < n; ++i) w[i] = (tile + 1) << 16 | (i + 1);
  return w;
}
inline Words words_at(const Machine& machine, std::uint32_t tile, std::uint32_t address, std::uint32_t n) {
  const std::vector<std::uint8_t> bytes = machine.read(tile, address, 4 * n);
  Words w(n);
  std::memcpy(w.data(), bytes.data(), bytes.size());
  return w;
}
inline Words slice(const Words& w, std::size_t first, std::size_t n) {
  return Words(w.begin() + static_cast<std::ptrdiff_t>(first),
               w.begin() + static_cast<std::ptrdiff_t>(first + n));
}

// Initialises a machine on the finished image.
struct Started {
  package::DeviceImage& image;
  Machine machine;
  CallResult result;
  explicit Started(Builder& b, const Options& options = {}, std::uint32_t calls = 1,
                   const std::vector<std::vector<std::uint8_t>>& weights = {})
      : image(b.finish()), machine(b.device, image, options), result(machine.initialize(weights, calls)) {}
  std::string fault() const { return result.fault ? name_of(result.fault->kind) : "none"; }
  std::string text() const { return result.fault ? result.fault->what : ""; }
};

}  // namespace tw::sim::testing
