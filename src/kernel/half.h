// Bulk F16 and F143 conversions and additions for the host functions, vectorised over elements. Every
// function gives the bits of the scalar ones in numeric/formats.h. F16 data are bytes of SRAM.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tw::kernel {

void promote(const std::uint8_t* halves, float* out, std::size_t n);
// The next three return true when a finite value rounded to infinity (decisions.md 8).
bool demote(const float* in, std::uint8_t* halves, std::size_t n);
bool round_to_half(float* values, std::size_t n);
// out[i] = F16(a[i] + b[i]); out may begin where a or b begins.
bool add_halves(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out, std::size_t n);

// Rounds the sum of two F16 numbers of magnitude below 32768 to F16. Sums below the smallest normal F16 are
// multiples of 2^-24 with at most 11 significant bits, so rounding to 11 bits leaves them alone.
inline float round_half_sum(float sum) {
  const auto bits = std::bit_cast<std::uint32_t>(sum);
  return std::bit_cast<float>((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFFU);
}

}  // namespace tw::kernel
