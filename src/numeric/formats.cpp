#include "numeric/formats.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tw::numeric {
namespace {

constexpr int kMinScale = -32, kMaxScale = 31;  // 6-bit two's complement (models.md A.1.1)
constexpr std::uint8_t kNan8 = 0x80;

float power_of_two(int exponent) {  // exact, normal FP32 exponents only
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

void check_scale(int scale) {
  TW_CHECK(scale >= kMinScale && scale <= kMaxScale, "FP8 scale outside -32..31");
}

// An 8-bit format with `mantissa` explicit bits: models.md A.1.
template <int mantissa, int bias>
struct Quarter {
  static constexpr std::uint32_t kShift = 23 - mantissa;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - bias) << mantissa;
  static constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(1 - bias + 127) << 23;
  static constexpr std::uint32_t kLargest = (0x7Fu + kRebias) << kShift;
  // FP32 numbers from here to twice as much are spaced by the format's smallest positive number.
  static constexpr std::uint32_t kSpacing = static_cast<std::uint32_t>(1 - bias - mantissa + 23 + 127) << 23;

  static constexpr float decode(std::uint32_t code) {
    if (code == kNan8) return std::bit_cast<float>(0x7FC00000u);
    const std::uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
    float value = std::bit_cast<float>(kSpacing + magnitude) - std::bit_cast<float>(kSpacing);  // subnormal
    if (magnitude >> mantissa != 0) value = std::bit_cast<float>((magnitude + kRebias) << kShift);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }

  static constexpr std::array<float, 256> kValues = [] {
    std::array<float, 256> values{};
    for (std::uint32_t code = 0; code < 256; ++code) values[code] = decode(code);
    return values;
  }();

  static float to_f32(std::uint8_t code, int scale) {
    check_scale(scale);
    return kValues[code] * power_of_two(scale);
  }

  static std::uint8_t from_f32(float x, int scale) {
    check_scale(scale);
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x * power_of_two(-scale));
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return kNan8;
    std::uint32_t code;
    if (magnitude >= kLargest) {
      code = 0x7Fu;
    } else if (magnitude < kSmallestNormal) {  // the addition rounds to nearest even
      code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kSpacing)) -
             kSpacing;
    } else {
      const std::uint32_t half = (1u << (kShift - 1)) - 1 + (magnitude >> kShift & 1u);
      code = ((magnitude + half) >> kShift) - kRebias;
    }
    return static_cast<std::uint8_t>(code == 0 ? 0u : code | (bits >> 24 & 0x80u));
  }
};

using F143 = Quarter<3, 8>;
using F152 = Quarter<2, 16>;

// A correctly rounded table of one function of an F16 argument. Computed in long double: no value of exp or
// tanh at a half lies nearer than 2^-27 (relative) to a rounding boundary, so the step over double is
// harmless.
using HalfTable = std::array<std::uint16_t, 65536>;

HalfTable tabulate(long double (*function)(long double)) {
  HalfTable table;
  for (std::uint32_t bits = 0; bits < table.size(); ++bits) {
    const long double x = f16_to_f32(static_cast<std::uint16_t>(bits));
    table[bits] = f64_to_f16(static_cast<double>(function(x)));
  }
  return table;
}

#if defined(__x86_64__)
bool has_f16c() {
  static const bool supported = __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx");
  return supported;
}

// Both convert the elements of the longest multiple of 8 and return their count.
__attribute__((target("avx,f16c"))) std::size_t widen_f16c(const std::uint16_t* in, std::size_t n,
                                                           float* out) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  return i;
}
__attribute__((target("avx,f16c"))) std::size_t narrow_f16c(const float* in, std::size_t n,
                                                            std::uint16_t* out) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
#else
bool has_f16c() { return false; }
std::size_t widen_f16c(const std::uint16_t*, std::size_t, float*) { return 0; }
std::size_t narrow_f16c(const float*, std::size_t, std::uint16_t*) { return 0; }
#endif

}  // namespace

float f143_to_f32(std::uint8_t code, int scale) { return F143::to_f32(code, scale); }
std::uint8_t f32_to_f143(float x, int scale) { return F143::from_f32(x, scale); }
float f152_to_f32(std::uint8_t code, int scale) { return F152::to_f32(code, scale); }
std::uint8_t f32_to_f152(float x, int scale) { return F152::from_f32(x, scale); }

float f143_clip_limit(int scale) {
  check_scale(scale);
  // 248 is the tie between 240 and the 256 that the format does not have; 256 would be the even code.
  return std::ldexp(248.0F, scale);
}

bool f143_clips(float x, int scale) { return std::isfinite(x) && std::fabs(x) >= f143_clip_limit(scale); }

int f143_scale_for(std::span<const float> values) {
  float largest = 0;
  for (const float v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  if (largest == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(largest, &exponent);
  const int scale = exponent - 8 + (fraction > 0.9375f ? 1 : 0);  // 240 = 0.9375 * 2^8
  return std::clamp(scale, kMinScale, kMaxScale);
}

std::uint16_t f64_to_f16(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), magnitude = bits & 0x7FFFFFFFFFFFFFFFull;
  const double value = std::bit_cast<double>(magnitude);
  std::uint64_t result;
  if (magnitude > 0x7FF0000000000000ull) {
    result = 0x7E00u | (magnitude >> 42 & 0x1FFu);
  } else if (value >= 65520.0) {
    result = 0x7C00u;
  } else if (value < 0x1p-14) {  // the addition rounds to the spacing 2^-24
    result = std::bit_cast<std::uint64_t>(value + 0x1p28) - std::bit_cast<std::uint64_t>(0x1p28);
  } else {
    result = ((magnitude + 0x1FFFFFFFFFFull + (magnitude >> 42 & 1u)) >> 42) - (1008ull << 10);
  }
  return static_cast<std::uint16_t>((bits >> 48 & 0x8000u) | result);
}

std::uint16_t f16_exp(std::uint16_t x) {
  static const HalfTable table = tabulate([](long double v) { return std::exp(v); });
  return table[x];
}
std::uint16_t f16_tanh(std::uint16_t x) {
  static const HalfTable table = tabulate([](long double v) { return std::tanh(v); });
  return table[x];
}

float exp_f32(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float reciprocal_f32(float x) { return static_cast<float>(1.0 / static_cast<double>(x)); }
float rsqrt_f32(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }

void f143_to_f32(std::span<const std::uint8_t> in, int scale, std::span<float> out) {
  TW_CHECK(in.size() == out.size(), "f143_to_f32: sizes differ");
  check_scale(scale);
  const float factor = power_of_two(scale);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = F143::kValues[in[i]] * factor;
}

void f16_to_f32(std::span<const std::uint16_t> in, std::span<float> out) {
  TW_CHECK(in.size() == out.size(), "f16_to_f32: sizes differ");
  std::size_t i = has_f16c() ? widen_f16c(in.data(), in.size(), out.data()) : 0;
  for (; i < in.size(); ++i) out[i] = f16_to_f32(in[i]);
}

void f32_to_f16(std::span<const float> in, std::span<std::uint16_t> out) {
  TW_CHECK(in.size() == out.size(), "f32_to_f16: sizes differ");
  std::size_t i = has_f16c() ? narrow_f16c(in.data(), in.size(), out.data()) : 0;
  for (; i < in.size(); ++i) out[i] = f32_to_f16(in[i]);
}

}  // namespace tw::numeric
