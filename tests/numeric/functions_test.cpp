#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "numeric/formats.h"

namespace tw::numeric {
namespace {

// exp and tanh from their series and the doubling formulas, without the mathematics library.
long double exp_series(long double x) {
  if (x < 0) return 1 / exp_series(-x);
  int halvings = 0;
  while (std::fabs(x) > 0.25L) x /= 2, ++halvings;
  long double term = 1,
              sum = 0;  // sum = exp(x) - 1, doubled as s -> s (s + 2) so that small results stay exact
  for (int k = 1; k < 24; ++k) sum += term *= x / k;
  for (; halvings > 0; --halvings) sum *= sum + 2;
  return 1 + sum;
}

long double tanh_series(long double x) {
  int halvings = 0;
  while (std::fabs(x) > 0.25L) x /= 2, ++halvings;
  long double power = x, sinh = 0, cosh = 0, even = 1;
  for (int k = 1; k < 24; k += 2) {
    sinh += power, cosh += even;
    power *= x * x / ((k + 1) * (k + 2)), even *= x * x / (k * (k + 1));
  }
  long double t = sinh / cosh;
  for (; halvings > 0; --halvings) t = 2 * t / (1 + t * t);
  return t;
}

double half_step_above(std::uint16_t h) {  // distance from |h| to the next boundary away from zero
  const int e = h >> 10 & 31;
  return std::ldexp(1.0, (e == 0 ? 1 : e) - 26);
}

// h is the correct rounding of `value`: no boundary between them (values here are never exact ties).
void expect_rounded(std::uint16_t x, std::uint16_t h, long double value) {
  if ((h & 0x7FFF) == 0x7C00) {
    ASSERT_GE(std::fabs(value), 65520.0L) << x;
    return;
  }
  const long double r = f16_to_f32(h), error = value - r;
  const bool away = std::fabs(value) > std::fabs(r);
  const std::uint16_t inner = (h & 0x7FFF) == 0 ? h : static_cast<std::uint16_t>(h - 1);
  ASSERT_LE(std::fabs(error), away ? half_step_above(h) : half_step_above(inner)) << std::hex << x;
}

TEST(HalfFunctions, ExpIsCorrectlyRoundedEverywhere) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto x = static_cast<std::uint16_t>(i);
    if (!f16_is_finite(x)) continue;
    expect_rounded(x, f16_exp(x), exp_series(f16_to_f32(x)));
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(f16_exp(0x0000), 0x3c00);
  EXPECT_EQ(f16_exp(0x8000), 0x3c00);
  EXPECT_EQ(f16_exp(0x3c00), 0x4170);  // e = 2.71828 -> 2.71875
  EXPECT_EQ(f16_exp(0xfc00), 0x0000);
  EXPECT_EQ(f16_exp(0x7c00), 0x7c00);
  EXPECT_EQ(f16_exp(0xfbff), 0x0000);
  EXPECT_TRUE(std::isnan(f16_to_f32(f16_exp(0x7e00))));
}

TEST(HalfFunctions, TanhIsCorrectlyRoundedEverywhere) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto x = static_cast<std::uint16_t>(i);
    if (!f16_is_finite(x)) continue;
    expect_rounded(x, f16_tanh(x), tanh_series(f16_to_f32(x)));
    if (HasFatalFailure()) return;
    ASSERT_EQ(f16_tanh(x ^ 0x8000), f16_tanh(x) ^ 0x8000);
  }
  EXPECT_EQ(f16_tanh(0x7c00), 0x3c00);
  EXPECT_EQ(f16_tanh(0xfc00), 0xbc00);
  EXPECT_EQ(f16_tanh(0x0001), 0x0001);
  EXPECT_TRUE(std::isnan(f16_to_f32(f16_tanh(0xfe00))));
}

// models.md A.4: the plain chain over all finite halves is within 0.0020131 of the exact (erf) GELU.
TEST(HalfFunctions, GeluChainReproducesThePublishedValues) {
  const auto gelu = [](std::uint16_t x) {
    std::uint16_t c = x;
    if (f16_to_f32(x) > 8) c = 0x4800;
    if (f16_to_f32(x) < -8) c = 0xC800;
    std::uint16_t t = f16_mul(f16_mul(c, c), c);
    t = f16_mul(0x3a62, f16_add(c, f16_mul(0x29b9, t)));
    return f16_mul(x, f16_mul(0x3800, f16_add(0x3c00, f16_tanh(t))));
  };
  const auto at = [&](float x) { return f16_to_f32(gelu(f32_to_f16(x))); };
  EXPECT_NEAR(at(-3), -0.003662, 5e-7);
  EXPECT_NEAR(at(-1), -0.158936, 5e-7);
  EXPECT_NEAR(at(0.5), 0.345703, 5e-7);
  EXPECT_NEAR(at(1), 0.840820, 5e-7);
  EXPECT_NEAR(at(3), 2.996094, 5e-7);
  double worst = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<std::uint16_t>(i);
    if (!f16_is_finite(h)) continue;
    const double x = f16_to_f32(h), a = std::sqrt(2 / std::acos(-1.0));
    const double exact = 0.5 * x * (1 + std::tanh(a * (x + 0.044715 * x * x * x)));
    worst = std::max(worst, std::fabs(f16_to_f32(gelu(h)) - exact));
  }
  EXPECT_NEAR(worst, 0.0020131, 5e-7);
}

TEST(HalfFunctions, TablesAreSafeToBuildFromManyThreads) {
  std::vector<std::uint16_t> results(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&results, i] { results[i] = f16_add(f16_exp(0x3c00), f16_tanh(0x0000)); });
  for (std::thread& t : threads) t.join();
  for (const std::uint16_t r : results) EXPECT_EQ(r, 0x4170);
}

TEST(FloatFunctions, AreRoundedOnce) {
  std::mt19937 random(4);
  for (int i = 0; i < 20'000; ++i) {
    const float x = std::ldexp(1 + static_cast<float>(random() % (1u << 23)) * 0x1p-23f,
                               static_cast<int>(random() % 40) - 20);
    const float small = std::fmod(x, 80.0f);
    ASSERT_EQ(exp_f32(-small), static_cast<float>(exp_series(-static_cast<long double>(small))));
    ASSERT_EQ(reciprocal_f32(x), 1.0f / x);
    // r is the nearest: the neighbouring boundaries (exact in long double) enclose 1/sqrt(x).
    const float r = rsqrt_f32(x);
    const long double low = (static_cast<long double>(r) + std::nextafter(r, 0.0f)) / 2;
    const long double high = (static_cast<long double>(r) + std::nextafter(r, 1e30f)) / 2;
    ASSERT_LE(low * low * x, 1.0L + 1e-18L);
    ASSERT_GE(high * high * x, 1.0L - 1e-18L);
  }
  EXPECT_EQ(exp_f32(0), 1.0f);
  EXPECT_EQ(exp_f32(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(rsqrt_f32(4), 0.5f);
  EXPECT_TRUE(std::isinf(reciprocal_f32(0)));
}

}  // namespace
}  // namespace tw::numeric
