#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "numeric/formats.h"

namespace tw::numeric {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Value of a code by the table of models.md A.1, in double.
double value_of(std::uint32_t code, int mantissa_bits, int bias) {
  const int e = static_cast<int>(code & 0x7F) >> mantissa_bits;
  const int m = static_cast<int>(code & ((1u << mantissa_bits) - 1));
  const double unit = std::pow(2.0, -mantissa_bits);
  const double magnitude =
      e == 0 ? m * unit * std::pow(2.0, 1 - bias) : (1 + m * unit) * std::pow(2.0, e - bias);
  return code & 0x80 ? -magnitude : magnitude;
}

// Slow encoder: the nearest of all codes, ties to the even code, in exact double arithmetic.
std::uint8_t nearest_code(double y, int mantissa_bits, int bias) {
  if (std::isnan(y)) return 0x80;
  y = std::clamp(y, -1e6, 1e6);  // beyond every code, and small enough for exact distances
  std::uint32_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t code = 0; code < 128; ++code) {
    const double distance = std::fabs(std::fabs(y) - value_of(code, mantissa_bits, bias));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0))
      best = code, best_distance = distance;
  }
  return static_cast<std::uint8_t>(best != 0 && y < 0 ? best | 0x80 : best);
}

TEST(F143, DecodeVectors) {  // models.md A.1.4
  const std::vector<std::pair<int, double>> vectors = {{0x00, 0},
                                                       {0x01, 0.0009765625},
                                                       {0x02, 0.001953125},
                                                       {0x07, 0.0068359375},
                                                       {0x08, 0.0078125},
                                                       {0x09, 0.0087890625},
                                                       {0x0f, 0.0146484375},
                                                       {0x10, 0.015625},
                                                       {0x38, 0.5},
                                                       {0x39, 0.5625},
                                                       {0x40, 1},
                                                       {0x41, 1.125},
                                                       {0x44, 1.5},
                                                       {0x48, 2},
                                                       {0x58, 8},
                                                       {0x60, 16},
                                                       {0x70, 64},
                                                       {0x78, 128},
                                                       {0x7c, 192},
                                                       {0x7e, 224},
                                                       {0x7f, 240},
                                                       {0x81, -0x1p-10},
                                                       {0x88, -0.0078125},
                                                       {0xb8, -0.5},
                                                       {0xc0, -1},
                                                       {0xff, -240}};
  for (const auto& [code, value] : vectors) {
    EXPECT_EQ(f143_to_f32(static_cast<std::uint8_t>(code)), value) << code;
    EXPECT_EQ(f143_to_f32(static_cast<std::uint8_t>(code), -4), value / 16) << code;
  }
  EXPECT_EQ(f143_to_f32(0x01, -4), 6.103515625e-5f);
  EXPECT_EQ(f143_to_f32(0x09, -4), 5.4931640625e-4f);
  EXPECT_EQ(f143_to_f32(0x41, -4), 0.0703125f);
  EXPECT_TRUE(std::isnan(f143_to_f32(0x80)));
  EXPECT_FALSE(std::signbit(f143_to_f32(0x00)));
}

TEST(F152, DecodeVectors) {  // models.md A.1.4
  const std::vector<std::pair<int, double>> vectors = {
      {0x01, 0x1p-17}, {0x04, 0x1p-15}, {0x08, 0x1p-14}, {0x10, 0x1p-12}, {0x38, 0.25}, {0x39, 0.3125},
      {0x3c, 0.5},     {0x40, 1},       {0x41, 1.25},    {0x44, 2},       {0x48, 4},    {0x60, 256},
      {0x7c, 32768},   {0x7e, 49152},   {0x7f, 57344},   {0xff, -57344},  {0x00, 0}};
  for (const auto& [code, value] : vectors)
    EXPECT_EQ(f152_to_f32(static_cast<std::uint8_t>(code)), value) << code;
  EXPECT_TRUE(std::isnan(f152_to_f32(0x80)));
}

TEST(F143, EncodeVectors) {  // models.md A.1.4
  struct Vector {
    double x;
    int scale, code;
    double value;
  };
  const Vector vectors[] = {{1, 0, 0x40, 1},
                            {1, -4, 0x60, 1},
                            {0.1, 0, 0x25, 0.1015625},
                            {0.1, -4, 0x45, 0.1015625},
                            {1.0625, 0, 0x40, 1},
                            {1.1875, 0, 0x42, 1.25},
                            {3.14159265, -4, 0x6d, 3.25},
                            {0.3, -4, 0x52, 0.3125},
                            {232, 0, 0x7e, 224},
                            {248, 0, 0x7f, 240},
                            {-1000, 0, 0xff, -240},
                            {15.5, -4, 0x7f, 15},
                            {14.5, -4, 0x7e, 14},
                            {0.00048828125, 0, 0x00, 0},
                            {-0.00048828125, 0, 0x00, 0},
                            {-0.00146484375, 0, 0x82, -0.001953125},
                            {0.00732421875, 0, 0x08, 0.0078125},
                            {0x1p-15, -4, 0x00, 0},
                            {0.0295, -4, 0x37, 0.029296875},
                            {-0.0192, -4, 0xb2, -0.01953125},
                            {311.1, 1, 0x7a, 320},
                            {496, 1, 0x7f, 480}};
  for (const Vector& v : vectors) {
    const std::uint8_t code = f32_to_f143(static_cast<float>(v.x), v.scale);
    EXPECT_EQ(code, v.code) << v.x << " scale " << v.scale;
    EXPECT_EQ(f143_to_f32(code, v.scale), v.value) << v.x << " scale " << v.scale;
  }
}

TEST(F143, VendorCastVectors) {  // models.md A.1.3, saturating mode; the output is read with scale 0
  const float inputs[] = {0x1p-12f, -0x1p-12f, 0x1p33f, 8};
  const auto expect = [&](int scale, std::array<float, 4> values) {
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(f143_to_f32(f32_to_f143(inputs[i], scale)), values[i]) << scale;
  };
  expect(0, {0, 0, 240, 8});
  expect(-10, {0.25f, -0.25f, 240, 240});
  expect(31, {0, 0, 4, 0});
}

TEST(F143, SpecialValues) {
  EXPECT_EQ(f32_to_f143(kNan), 0x80);
  EXPECT_EQ(f32_to_f143(-kNan, 5), 0x80);
  EXPECT_EQ(f32_to_f143(kInf), 0x7f);
  EXPECT_EQ(f32_to_f143(-kInf, -4), 0xff);
  EXPECT_EQ(f32_to_f143(-0.0f), 0x00);
  EXPECT_EQ(f32_to_f143(-1e-5f), 0x00);  // users.md L60: a tiny negative number is no NaN
  for (const float x : {239.9f, 240.0f, 241.0f, 448.0f}) {
    EXPECT_EQ(f32_to_f143(x), 0x7f) << x;
    EXPECT_EQ(f32_to_f143(-x), 0xff) << x;
  }
  EXPECT_EQ(f32_to_f143(std::numeric_limits<float>::max(), -32), 0x7f);
  EXPECT_EQ(f32_to_f143(-std::numeric_limits<float>::denorm_min(), 31), 0x00);
  EXPECT_EQ(f32_to_f152(kNan), 0x80);
  EXPECT_EQ(f32_to_f152(kInf), 0x7f);
  EXPECT_EQ(f32_to_f152(-1e9f), 0xff);
  EXPECT_EQ(f32_to_f152(-0x1p-18f), 0x00);  // tie
  EXPECT_THROW(f32_to_f143(1, 32), InternalError);
  EXPECT_THROW(f143_to_f32(0x40, -33), InternalError);
}

TEST(Quarter, EveryCodeDecodesByTheRuleAndRoundTripsAtEveryScale) {
  for (int scale = -32; scale <= 31; ++scale)
    for (std::uint32_t c = 0; c < 256; ++c) {
      const auto code = static_cast<std::uint8_t>(c);
      const float v143 = f143_to_f32(code, scale), v152 = f152_to_f32(code, scale);
      if (code == 0x80) {
        ASSERT_TRUE(std::isnan(v143) && std::isnan(v152));
      } else {
        ASSERT_EQ(v143, std::ldexp(value_of(c, 3, 8), scale)) << c << " scale " << scale;
        ASSERT_EQ(v152, std::ldexp(value_of(c, 2, 16), scale)) << c << " scale " << scale;
      }
      ASSERT_EQ(f32_to_f143(v143, scale), code) << scale;
      ASSERT_EQ(f32_to_f152(v152, scale), code) << scale;
    }
}

// Every boundary between neighbouring codes: the tie and one FP32 step to both sides.
TEST(Quarter, BoundariesRoundToNearestEven) {
  for (std::uint32_t c = 0; c < 127; ++c) {
    const auto check = [&](int mantissa_bits, int bias, auto encode) {
      const auto tie =
          static_cast<float>((value_of(c, mantissa_bits, bias) + value_of(c + 1, mantissa_bits, bias)) / 2);
      for (const float x : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, kInf)})
        for (const float signed_x : {x, -x})
          EXPECT_EQ(encode(signed_x), nearest_code(signed_x, mantissa_bits, bias)) << signed_x;
    };
    check(3, 8, [](float x) { return f32_to_f143(x); });
    check(2, 16, [](float x) { return f32_to_f152(x); });
  }
}

RC_GTEST_PROP(Quarter, EncodesTheNearestCode, ()) {
  const auto scale = *rc::gen::inRange(-32, 32);
  for (int i = 0; i < 32; ++i) {
    const auto bits = *rc::gen::resize(1000, rc::gen::arbitrary<std::uint32_t>());
    // Half of the cases lie in the range of the format, half anywhere.
    const float anywhere = std::bit_cast<float>(bits);
    const float near = std::ldexp(static_cast<float>(static_cast<std::int32_t>(bits)), scale - 23);
    for (const float x : {anywhere, near}) {
      RC_ASSERT(f32_to_f143(x, scale) == nearest_code(std::ldexp(static_cast<double>(x), -scale), 3, 8));
      RC_ASSERT(f32_to_f152(x, scale) == nearest_code(std::ldexp(static_cast<double>(x), -scale), 2, 16));
    }
  }
}

TEST(F143, ClipsStartWhereRoundingLeavesTheRange) {
  EXPECT_FALSE(f143_clips(240, 0));
  EXPECT_FALSE(f143_clips(std::nextafter(248.0f, 0.0f), 0));  // rounds to 240
  EXPECT_TRUE(f143_clips(248, 0));                            // tie, 256 is even
  EXPECT_TRUE(f143_clips(-1000, 0));
  EXPECT_TRUE(f143_clips(15.5f, -4));
  EXPECT_FALSE(f143_clips(15.4f, -4));
  EXPECT_FALSE(f143_clips(kNan, 0));
  EXPECT_FALSE(f143_clips(kInf, 0));
  EXPECT_FALSE(f143_clips(0, -32));
}

TEST(F143, ScaleChosenFromData) {
  const auto scale = [](std::vector<float> v) { return f143_scale_for(v); };
  EXPECT_EQ(scale({0}), 0);  // models.md A.1.1
  EXPECT_EQ(scale({240, -120}), 0);
  EXPECT_EQ(scale({241}), 1);
  EXPECT_EQ(scale({-15, kNan}), -4);
  EXPECT_EQ(scale({}), 0);
  EXPECT_EQ(scale({kInf, -kInf}), 0);
  EXPECT_EQ(scale({kInf, 480}), 1);
  EXPECT_EQ(scale({1e-30f}), -32);
  EXPECT_EQ(scale({1e30f}), 31);
}

RC_GTEST_PROP(F143, ScaleIsTheSmallestWithoutSaturation, ()) {
  const auto bits = *rc::gen::inRange<std::uint32_t>(0x33000000, 0x4E000000);  // 2^-25 .. 2^29
  const float x = std::bit_cast<float>(bits);
  const int s = f143_scale_for(std::vector<float>{x});
  RC_ASSERT(static_cast<double>(x) <= std::ldexp(240.0, s));
  RC_ASSERT(s == -32 || static_cast<double>(x) > std::ldexp(240.0, s - 1));
}

TEST(F143, BulkDecodeEqualsScalar) {
  std::vector<std::uint8_t> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> out(codes.size());
  f143_to_f32(codes, -7, out);
  for (std::size_t i = 0; i < codes.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(f143_to_f32(codes[i], -7)));
  EXPECT_THROW(f143_to_f32(codes, 0, std::span(out).first(3)), InternalError);
}

}  // namespace
}  // namespace tw::numeric
