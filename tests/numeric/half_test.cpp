#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "numeric/formats.h"

namespace tw::numeric {
namespace {

bool is_nan16(std::uint16_t h) { return (h & 0x7FFF) > 0x7C00; }

// Value of a finite half by its definition.
double half_value(std::uint16_t h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const double magnitude = e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

// Slow rounding: candidates from the definition by bisection over the codes, tie to the even code.
std::uint16_t nearest_half(double x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double a = std::fabs(x);
  if (a >= 65520.0) return sign | 0x7C00;
  std::uint16_t lo = 0, hi = 0x7C00;  // value(lo) <= a < value(hi), with value(0x7C00) taken as 65536
  while (hi - lo > 1) {
    const auto middle = static_cast<std::uint16_t>((lo + hi) / 2);
    (half_value(middle) <= a ? lo : hi) = middle;
  }
  const double below = a - half_value(lo), above = (hi == 0x7C00 ? 65536.0 : half_value(hi)) - a;
  if (below != above) return sign | (below < above ? lo : hi);
  return sign | (lo % 2 == 0 ? lo : hi);
}

TEST(F16, Vectors) {  // models.md A.2
  EXPECT_EQ(f32_to_f16(0.1f), 0x2e66);
  EXPECT_EQ(f32_to_f16(1.0f / 3.0f), 0x3555);
  EXPECT_EQ(f32_to_f16(2049), 0x6800);
  EXPECT_EQ(f32_to_f16(2051), 0x6802);
  EXPECT_EQ(f64_to_f16(65519.99), 0x7bff);
  EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e-6f), 0x0011);
  EXPECT_EQ(f32_to_f16(0x1p-14f), 0x0400);
  EXPECT_EQ(f32_to_f16(6.0e-8f), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);
  EXPECT_EQ(f64_to_f16(std::sqrt(2 / std::acos(-1.0))), 0x3a62);
  EXPECT_EQ(f64_to_f16(0.044715), 0x29b9);
  EXPECT_EQ(f16_mul(0x3a62, 0x29b9), 0x2891);
  EXPECT_EQ(f64_to_f16(1 / std::sqrt(72.0)), 0x2f8b);
  EXPECT_EQ(f64_to_f16(1 / std::sqrt(64.0)), 0x3000);
  EXPECT_EQ(f64_to_f16(1 / std::sqrt(128.0)), 0x2da8);
  EXPECT_EQ(f16_to_f32(0x3a62), 0.7978515625f);
}

TEST(F16, EveryHalfConvertsExactlyAndRoundTrips) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<std::uint16_t>(i);
    const float x = f16_to_f32(h);
    if (is_nan16(h)) {
      ASSERT_TRUE(std::isnan(x)) << i;
      ASSERT_EQ(f32_to_f16(x), h | 0x0200) << "quieted, sign and payload kept";
      ASSERT_EQ(f64_to_f16(x), h | 0x0200);
      continue;
    }
    if (f16_is_finite(h))
      ASSERT_EQ(x, half_value(h)) << i;
    else
      ASSERT_TRUE(std::isinf(x)) << i;
    ASSERT_EQ(std::signbit(x), (h & 0x8000) != 0);
    ASSERT_EQ(f32_to_f16(x), h);
    ASSERT_EQ(f64_to_f16(x), h);
  }
}

// All boundaries between halves: the tie and one step to both sides, in FP32 and in double.
TEST(F16, BoundariesRoundToNearestEven) {
  for (std::uint16_t h = 0; h < 0x7C00; ++h) {
    const double next = h == 0x7BFF ? 65536.0 : half_value(h + 1);
    const double tie = (half_value(h) + next) / 2;
    const auto tie32 = static_cast<float>(tie);
    ASSERT_EQ(tie32, tie);
    for (const float x : {std::nextafter(tie32, 0.0f), tie32, std::nextafter(tie32, 1e9f)}) {
      ASSERT_EQ(f32_to_f16(x), nearest_half(x)) << x;
      ASSERT_EQ(f32_to_f16(-x), nearest_half(-x)) << x;
    }
    for (const double x : {std::nextafter(tie, 0.0), tie, std::nextafter(tie, 1e9)}) {
      ASSERT_EQ(f64_to_f16(x), nearest_half(x)) << x;
      ASSERT_EQ(f64_to_f16(-x), nearest_half(-x)) << x;
    }
  }
}

TEST(F16, RandomFloatsRoundToTheNearestHalf) {
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    // Exponents around the range of F16, and anything.
    const std::uint32_t bits = i % 4 == 0 ? random() : 0x32000000u + random() % 0x16000000u;
    const float x = std::bit_cast<float>(bits ^ (static_cast<std::uint32_t>(random()) & 0x80000000u));
    if (std::isnan(x)) {
      ASSERT_TRUE(is_nan16(f32_to_f16(x)));
      continue;
    }
    ASSERT_EQ(f32_to_f16(x), nearest_half(x)) << x;
    ASSERT_EQ(f64_to_f16(static_cast<double>(x) * (1 + 0x1p-40)),
              nearest_half(static_cast<double>(x) * (1 + 0x1p-40)));
  }
}

TEST(F16, DoubleIsRoundedOnce) {
  // Just above a tie: FP32 would round to the tie and then down to even.
  EXPECT_EQ(f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(f32_to_f16(static_cast<float>(1 + 0x1p-11 + 0x1p-40)), 0x3c00);
  EXPECT_EQ(f64_to_f16(std::numeric_limits<double>::denorm_min()), 0x0000);
  EXPECT_EQ(f64_to_f16(-std::numeric_limits<double>::infinity()), 0xfc00);
}

TEST(F16, BulkFormsEqualTheScalarOnes) {
  std::vector<std::uint16_t> halves(65536 + 3);  // an odd tail, and an unaligned start below
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size() - 1);
  f16_to_f32(std::span(halves).subspan(1), floats);
  for (std::size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[i]),
              std::bit_cast<std::uint32_t>(f16_to_f32(halves[i + 1])))
        << i;

  std::mt19937 random(2);
  for (float& f : floats) f = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  for (std::size_t i = 0; i < 40'000; ++i)
    floats[i] = std::bit_cast<float>(0x32000000u + static_cast<std::uint32_t>(random()) % 0x16000000u);
  std::vector<std::uint16_t> out(floats.size());
  f32_to_f16(floats, out);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], f32_to_f16(floats[i])) << floats[i];
  EXPECT_THROW(f32_to_f16(floats, std::span(out).first(3)), InternalError);
}

TEST(F16, ArithmeticRoundsOnce) {
  std::mt19937 random(3);
  for (int i = 0; i < 300'000; ++i) {
    const auto a = static_cast<std::uint16_t>(random()), b = static_cast<std::uint16_t>(random());
    if (!f16_is_finite(a) || !f16_is_finite(b)) continue;
    // Sums and products of two halves are exact in double.
    ASSERT_EQ(f16_add(a, b), nearest_half(half_value(a) + half_value(b))) << a << " + " << b;
    ASSERT_EQ(f16_mul(a, b), nearest_half(half_value(a) * half_value(b))) << a << " * " << b;
  }
  EXPECT_EQ(f16_add(0x3c00, 0x7c00), 0x7c00);
  EXPECT_TRUE(is_nan16(f16_add(0x7c00, 0xfc00)));
  EXPECT_TRUE(is_nan16(f16_mul(0x7c00, 0x0000)));
}

}  // namespace
}  // namespace tw::numeric
