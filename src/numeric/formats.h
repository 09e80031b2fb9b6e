// Number formats of the device: F143, F152 (8 bit, tensor-wide power-of-two scale) and F16; models.md A,
// decisions.md 1 and 4. Rounding is nearest-even everywhere. Values are raw bit patterns in uint8_t/uint16_t.
#pragma once
#include <bit>
#include <cstdint>
#include <span>

namespace tw::numeric {

// A scale outside -32..31 is an InternalError.
// F143: bias 8, 0x80 = NaN, no infinities, no -0; value = decode(code) * 2^scale, scale in -32..31.
float f143_to_f32(std::uint8_t code, int scale = 0);
// NaN -> 0x80; saturates to +-240*2^scale; everything that rounds to zero gives 0x00.
std::uint8_t f32_to_f143(float x, int scale = 0);
// F152: bias 16, otherwise the same; saturates to +-57344*2^scale.
float f152_to_f32(std::uint8_t code, int scale = 0);
std::uint8_t f32_to_f152(float x, int scale = 0);
// True when a finite x would saturate: |x| * 2^-scale >= 248, which rounds above 240 (decisions.md 8).
bool f143_clips(float x, int scale);
float f143_clip_limit(int scale);  // that, 248 * 2^scale; scale in -32..31
// clamp(ceil(log2(max|x| / 240)), -32, 31) over finite values; 0 when all are zero.
int f143_scale_for(std::span<const float> values);

// Scalar F16 conversions stand in the headers so that loops over them vectorise. A NaN keeps its sign and
// upper payload and becomes quiet, as the conversion instructions of x86 do (the bulk forms may use those).
constexpr float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7FFFu;
  // The multiplication moves the bias from 127 to 15 and makes subnormals normal; it is exact.
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  const std::uint32_t quiet = magnitude > 0x7C00u ? 0x00400000u : 0u;
  const std::uint32_t special = 0x7F800000u | (magnitude << 13) | quiet;
  return std::bit_cast<float>(sign | (magnitude >= 0x7C00u ? special : finite));
}

// RNE, overflow to Inf at >= 65520.
constexpr std::uint16_t f32_to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
  // Adding 0.5 lets the FP32 addition itself round to the spacing of F16 subnormals, 2^-24.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  const std::uint32_t normal = ((magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  if (magnitude >= 0x477FF000u) result = 0x7C00u;
  if (magnitude > 0x7F800000u) result = 0x7E00u | ((magnitude >> 13) & 0x1FFu);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | result);
}

std::uint16_t f64_to_f16(double x);  // RNE from double directly
constexpr bool f16_is_finite(std::uint16_t bits) { return (bits & 0x7C00) != 0x7C00; }

// Correctly rounded F16 functions of one F16 argument: 65,536-entry tables made once (decisions.md 4).
std::uint16_t f16_exp(std::uint16_t x);
std::uint16_t f16_tanh(std::uint16_t x);
// F16 arithmetic, one rounding per operation.
// FP32 has more than 2 * 11 + 1 bits, so rounding its result again gives the once-rounded sum or product.
constexpr std::uint16_t f16_add(std::uint16_t a, std::uint16_t b) {
  return f32_to_f16(f16_to_f32(a) + f16_to_f32(b));
}
constexpr std::uint16_t f16_mul(std::uint16_t a, std::uint16_t b) {
  return f32_to_f16(f16_to_f32(a) * f16_to_f32(b));
}

// FP32 functions computed in double, rounded once (decisions.md 4).
float exp_f32(float x);
float reciprocal_f32(float x);
float rsqrt_f32(float x);

// Bulk forms (same results).
void f143_to_f32(std::span<const std::uint8_t> in, int scale, std::span<float> out);
void f16_to_f32(std::span<const std::uint16_t> in, std::span<float> out);
void f32_to_f16(std::span<const float> in, std::span<std::uint16_t> out);

}  // namespace tw::numeric
