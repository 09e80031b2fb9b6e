#include "numeric/balance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "numeric/formats.h"

namespace tw::numeric {
namespace {

constexpr int kScale = -4;

float nearest(float x) { return f143_to_f32(f32_to_f143(x, kScale), kScale); }

std::vector<float> gaussian(std::size_t count, float deviation, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> out(count);
  for (float& x : out) x = normal(engine);
  return out;
}

TEST(RoundBalanced, FlipsTheWeightNearestToTheMiddle) {
  // With scale 0 and values in [16, 32) neighbours are 2 apart: 16.9, 18.8 and 20.6 all round with errors
  // -0.9, -0.8 and -0.6, together -2.3; 16.9 goes up to 18 and leaves -0.3.
  std::vector<float> w{16.9F, 18.8F, 20.6F};
  round_balanced(w, 3, 1, 0, 1);
  EXPECT_EQ(w, (std::vector<float>{18, 18, 20}));
}

TEST(RoundBalanced, StepsOverZeroAndOverAPowerOfTwo) {
  // Subnormals are 2^-10 apart. -0.3 of a spacing rounds to 0, the other neighbour is below zero.
  const float step = 0x1p-10F;
  std::vector<float> below{-0.4F * step, -0.3F * step, -0.3F * step};
  round_balanced(below, 3, 1, 0, 1);
  EXPECT_EQ(below, (std::vector<float>{-step, 0, 0}));
  // 15.6 lies between 15 and 16, where 16 is the nearest; the sum of the errors, 1.2, sends one down to 15.
  std::vector<float> power{15.6F, 15.6F, 15.6F};
  round_balanced(power, 3, 1, 0, 1);
  EXPECT_EQ(power, (std::vector<float>{15, 16, 16}));
}

TEST(RoundBalanced, ErrorsOfEveryColumnCancel) {
  constexpr std::uint32_t kRows = 1152, kCols = 24;
  const std::vector<float> w = gaussian(kRows * kCols, 0.02F, 7);
  std::vector<float> q = w;
  round_balanced(q, kRows, kCols, kScale, 2);
  for (std::uint32_t c = 0; c < kCols; ++c) {
    double sum = 0, plain = 0, square = 0, plain_square = 0;
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const std::size_t i = r * kCols + c;
      const double error = double(q[i]) - w[i], rounded = double(nearest(w[i])) - w[i];
      EXPECT_EQ(q[i], nearest(q[i]));
      EXPECT_LE(std::abs(error), 1.2 * std::abs(rounded) + 0x1p-10) << "one of the two neighbours";
      sum += error, plain += rounded;
      square += error * error, plain_square += rounded * rounded;
    }
    EXPECT_LE(std::abs(sum), 0x1p-8) << "half a spacing of the largest weights, " << plain << " before";
    EXPECT_LE(square, 1.02 * plain_square);
  }
}

TEST(RoundBalanced, LeavesWhatIsRepresentable) {
  std::vector<float> w;
  for (int code = 0; code < 256; ++code) {
    if (code != 0x80) w.push_back(f143_to_f32(static_cast<std::uint8_t>(code), kScale));
  }
  const std::vector<float> before = w;
  round_balanced(w, static_cast<std::uint32_t>(w.size()), 1, kScale, 1);
  EXPECT_EQ(w, before);
}

TEST(RoundBalanced, RoundsPlainlyWhereAValueSaturatesOrIsNone) {
  for (const float odd : {1000.0F, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> w{odd, 16.9F * 0x1p-4F, 18.8F * 0x1p-4F, 20.6F * 0x1p-4F};
    const std::vector<float> before = w;
    round_balanced(w, 4, 1, kScale, 1);
    for (std::size_t i = 1; i < w.size(); ++i) EXPECT_EQ(w[i], nearest(before[i]));
  }
}

TEST(RoundBalanced, SameForAnyThreadCount) {
  std::vector<float> one = gaussian(512 * 40, 0.03F, 3), four = one;
  round_balanced(one, 512, 40, kScale, 1);
  round_balanced(four, 512, 40, kScale, 4);
  EXPECT_EQ(one, four);
}

}  // namespace
}  // namespace tw::numeric
