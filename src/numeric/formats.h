// Number formats of the device: F143, F152 (8 bit, tensor-wide power-of-two scale) and F16; models.md A,
// decisions.md 1 and 4. Rounding is nearest-even everywhere. Values are raw bit patterns in uint8_t/uint16_t.
#pragma once
#include <cstdint>
#include <span>

namespace tw::numeric {

// F143: bias 8, 0x80 = NaN, no infinities, no -0; value = decode(code) * 2^scale, scale in -32..31.
float f143_to_f32(std::uint8_t code, int scale = 0);
// NaN -> 0x80; saturates to +-240*2^scale; everything that rounds to zero gives 0x00.
std::uint8_t f32_to_f143(float x, int scale = 0);
float f152_to_f32(std::uint8_t code, int scale = 0);
std::uint8_t f32_to_f152(float x, int scale = 0);
// True when a finite x would saturate (|x| * 2^-scale rounds above 240): a clip (decisions.md 8).
bool f143_clips(float x, int scale);
// clamp(ceil(log2(max|x| / 240)), -32, 31) over finite values; 0 when all are zero.
int f143_scale_for(std::span<const float> values);

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float x);    // RNE, overflow to Inf at >= 65520
std::uint16_t f64_to_f16(double x);   // RNE from double directly
constexpr bool f16_is_finite(std::uint16_t bits) { return (bits & 0x7C00) != 0x7C00; }

// Correctly rounded F16 functions of one F16 argument: 65,536-entry tables made once (decisions.md 4).
std::uint16_t f16_exp(std::uint16_t x);
std::uint16_t f16_tanh(std::uint16_t x);
// F16 arithmetic, one rounding per operation.
std::uint16_t f16_add(std::uint16_t a, std::uint16_t b);
std::uint16_t f16_mul(std::uint16_t a, std::uint16_t b);

// FP32 functions computed in double, rounded once (decisions.md 4).
float exp_f32(float x);
float reciprocal_f32(float x);
float rsqrt_f32(float x);

// Bulk forms (same results).
void f143_to_f32(std::span<const std::uint8_t> in, int scale, std::span<float> out);
void f16_to_f32(std::span<const std::uint16_t> in, std::span<float> out);
void f32_to_f16(std::span<const float> in, std::span<std::uint16_t> out);

}  // namespace tw::numeric
