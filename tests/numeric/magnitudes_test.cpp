#include "numeric/magnitudes.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/formats.h"

namespace tw::numeric {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

Magnitudes of(const std::vector<float>& values) {
  Magnitudes m;
  m.add(values);
  return m;
}

TEST(Magnitudes, ScaleIsThatOfTheLargestFiniteValue) {
  EXPECT_EQ(of({0}).scale(), 0);  // models.md A.1.1
  EXPECT_EQ(of({240, -120}).scale(), 0);
  EXPECT_EQ(of({241}).scale(), 1);
  EXPECT_EQ(of({-15, kNan}).scale(), -4);
  EXPECT_EQ(of({}).scale(), 0);
  EXPECT_EQ(of({kInf}).scale(), 0);
  EXPECT_EQ(of({-15, kNan}).largest(), 15.0F);
  EXPECT_EQ(of({-15, kNan, -kInf, 0}).not_finite(), 2U);
  EXPECT_EQ(of({-15, kNan, -kInf, 0}).finite(), 2U);
  EXPECT_EQ(of({-15, kNan, -kInf, 0}).nonzero(), 1U);
}

TEST(Magnitudes, ValuesOfSeveralTensorsAddUp) {
  Magnitudes m;
  m.add(std::vector<float>{1, 300});
  m.add(std::vector<float>{-500, 0.5F});
  EXPECT_EQ(m.largest(), 500.0F);
  EXPECT_EQ(m.finite(), 4U);
  EXPECT_EQ(m.clipped(0), 2U);
  EXPECT_EQ(m.clipped(1), 1U);  // from 496 on
}

// 248 rounds to 256, above the largest value of 240; below it everything goes to 240 (models.md A.1.2).
TEST(Magnitudes, ThresholdsAreExact) {
  for (const int scale : {-32, -4, 0, 15, 31}) {
    const float limit = std::ldexp(248.0F, scale), normal = std::ldexp(1.0F, scale - 7);
    const Magnitudes m = of({limit, -limit, std::nextafter(limit, 0.0F), 2 * limit, normal,
                             std::nextafter(normal, 0.0F), 0, -std::ldexp(1.0F, scale - 20), kInf});
    EXPECT_EQ(m.clipped(scale), 3U) << scale;
    EXPECT_EQ(m.below_normal(scale), 2U) << scale;
  }
}

TEST(Magnitudes, ScaleWithoutAShare) {
  std::vector<float> values(99, 1.0F);  // 1 <= 248 * 2^-7
  values.push_back(6e4F);               // 6e4 < 248 * 2^8
  EXPECT_EQ(of(values).scale_without(0), 8);
  EXPECT_EQ(of(values).scale_without(0.0099), 8);
  EXPECT_EQ(of(values).scale_without(0.01), -7);
  values.resize(100'000);  // zeros do not count
  EXPECT_EQ(of(values).scale_without(0.0099), 8);
  EXPECT_EQ(of({0, 0}).scale_without(0.01), 0);
}

RC_GTEST_PROP(Magnitudes, CountsEqualThoseOfEveryValue, ()) {
  std::vector<float> values;
  for (const auto bits : *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>()))
    values.push_back(std::bit_cast<float>(bits));
  const int scale = *rc::gen::inRange(-32, 32);
  std::uint64_t clipped = 0, small = 0;
  for (const float x : values) {
    if (!std::isfinite(x)) continue;
    clipped += f143_clips(x, scale);
    small += x != 0 && std::fabs(static_cast<double>(x)) < std::ldexp(1.0, scale - 7);
  }
  RC_ASSERT(of(values).clipped(scale) == clipped);
  RC_ASSERT(of(values).below_normal(scale) == small);
}

}  // namespace
}  // namespace tw::numeric
