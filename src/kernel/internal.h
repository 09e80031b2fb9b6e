// Shared by the kernel families: typed access to SRAM bytes, access rectangles and argument checks.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace tw::kernel {

inline constexpr std::uint32_t kMemoryBegin = 0x4C000, kMemoryEnd = 0xE8000;  // hardware.md 1.2
inline constexpr std::uint32_t kInterleavedBegin = 0x80000;
inline constexpr std::uint64_t kPanel = 16;  // columns of an F16 AL panel, output columns of a matrix pass

template <class T>
T load(const std::uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void store(std::uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

// SRAM as a host function sees it.
struct Sram {
  std::uint8_t* bytes;
  std::uint32_t base;
  std::uint8_t* at(std::uint32_t address) const { return bytes + (address - base); }
};

// Specialisation word i; 0 when the call has none (costs may be asked before a call is complete).
inline std::uint32_t spec_word(const Call& call, std::size_t i) {
  return i < call.spec.size() ? call.spec[i] : 0;
}

// Signed value of a 6-bit scale argument.
constexpr int signed_scale(std::uint32_t word) {
  const int field = static_cast<int>(word & 0x3F);
  return field < 32 ? field : field - 64;
}

// Collects access rectangles; a rectangle without gaps becomes one row, one that continues the last joins it.
class Accesses {
 public:
  void read(std::uint32_t argument, std::uint64_t address, std::uint64_t row_bytes, std::uint64_t rows = 1,
            std::uint64_t stride = 0) {
    add(argument, false, address, row_bytes, rows, stride);
  }
  void write(std::uint32_t argument, std::uint64_t address, std::uint64_t row_bytes, std::uint64_t rows = 1,
             std::uint64_t stride = 0) {
    add(argument, true, address, row_bytes, rows, stride);
  }
  // The first `columns` columns of AL(rows, .) with panels of `panel_bytes`.
  void read_left(std::uint32_t argument, std::uint64_t address, std::uint64_t rows, std::uint64_t columns);
  std::vector<Access> take() { return std::move(list_); }

 private:
  void add(std::uint32_t argument, bool write, std::uint64_t address, std::uint64_t row_bytes,
           std::uint64_t rows, std::uint64_t stride);
  std::vector<Access> list_;
};

// Argument checks: the first broken rule is kept as text. Sizes are computed in 64 bits, so no 20-bit
// argument can wrap.
class Checker {
 public:
  Checker(const char* kernel, const Call& call, std::uint32_t arguments, std::uint32_t spec_words);
  std::uint64_t m(std::size_t i) const { return call_.m[i]; }
  std::uint32_t spec(std::size_t i) const { return spec_word(call_, i); }
  // An SRAM operand of `bytes` bytes at m[i].
  void operand(std::size_t i, const char* name, std::uint64_t bytes, std::uint32_t alignment = 8);
  // m[i] is at least 1 and a multiple of k.
  void count(std::size_t i, const char* name, std::uint64_t k = 1);
  void require(bool good, const std::string& problem);
  // Operands i and j do not overlap; with `same_start`, they may also begin at one address.
  void disjoint(std::size_t i, std::size_t j, bool same_start = false);
  bool good() const { return problem_.empty(); }
  std::string result() const { return problem_; }

 private:
  const char* kernel_;
  const Call& call_;
  std::array<std::uint64_t, 8> bytes_{};
  std::string problem_;
};

// Element index of row r, column c in AL(rows, .) with panels of `mu` columns (compiler.md 2.3).
constexpr std::size_t left_index(std::size_t r, std::size_t c, std::size_t rows, std::size_t mu) {
  return (c / mu * rows + r) * mu + c % mu;
}

// Families, one file each; image_bytes is filled in by the registry.
std::span<const Kernel> gemm_kernels();
std::span<const Kernel> reduce_kernels();
std::span<const Kernel> pointwise_kernels();
std::span<const Kernel> norm_kernels();
std::span<const Kernel> attention_kernels();
std::span<const Kernel> general_kernels();
std::span<const Kernel> cast_kernels();
std::span<const Kernel> move_kernels();
std::span<const Kernel> copy_kernels();

}  // namespace tw::kernel
