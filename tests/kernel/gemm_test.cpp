#include "support.h"

namespace tw::kernel::test {
namespace {

struct Shape {
  std::uint32_t rows, k, columns;
  bool f8, accumulate, interleaved;
  std::uint32_t scale = 0;  // F8: the 6-bit argument
};

int exponent(std::uint32_t word) { return word < 32 ? static_cast<int>(word) : static_cast<int>(word) - 64; }

// decisions.md 2 and the index formulas of compiler.md 2.3, one element at a time. Without `round_groups`,
// F16 rounding happens only at the end.
void multiply(Image& image, const Shape& s, const std::vector<std::uint32_t>& m, bool round_groups = true) {
  const std::uint32_t mu = s.f8 ? 32 : 16;
  const auto value = [&](std::uint32_t address, std::uint64_t i) {
    return s.f8 ? numeric::f143_to_f32(image.get<std::uint8_t>(address + i)) : image.half(address, i);
  };
  for (std::uint32_t r = 0; r < s.rows; ++r)
    for (std::uint32_t c = 0; c < s.columns; ++c) {
      const std::uint64_t at = (c / 16 * std::uint64_t{s.rows} + r) * 16 + c % 16;
      float a = s.accumulate ? image.half(m[0], at) : 0.0F;
      for (std::uint32_t k = 0; k < s.k; ++k) {
        const float x = value(m[1], (k / mu * std::uint64_t{s.rows} + r) * mu + k % mu);
        const float w =
            value(m[2], (c / 16 * std::uint64_t{s.k / mu} + k / mu) * mu * 16 + c % 16 * mu + k % mu);
        a = std::fma(x, std::ldexp(w, exponent(s.scale)), a);
        if (round_groups && k % mu == mu - 1) a = to16(double{a});
      }
      image.put(m[0] + 2 * at, numeric::f32_to_f16(a));
    }
}

Invocation place(Scene& scene, const Shape& s) {
  const std::uint64_t left = std::uint64_t{s.rows} * s.k, right = std::uint64_t{s.k} * s.columns;
  const std::uint32_t out = scene.halves(std::uint64_t{s.rows} * s.columns, 1.0, 32);
  const std::uint32_t a = s.f8 ? scene.codes(left, 32) : scene.halves(left, 1.0, 32);
  if (s.interleaved) scene.next = std::max(scene.next, 0x80000U);
  const std::uint32_t b = s.f8 ? scene.codes(right, 32) : scene.halves(right, 0.3, 32);
  return {s.f8 ? Code::GemmF8 : Code::GemmF16,
          {out, a, b, s.rows, s.k, s.columns, s.scale},
          {s.accumulate, s.interleaved},
          s.f8 ? std::vector<std::uint32_t>{2, 1, 1} : std::vector<std::uint32_t>{2, 2, 2}};
}

TEST(Gemm, MatchesTheScalarOrderOnRandomShapes) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Scene scene(seed);
    const bool f8 = seed % 2 == 0;
    const Shape s{scene.between(1, seed < 30 ? 30 : 75),
                  scene.between(1, 7) * (f8 ? 32 : 16),
                  scene.between(1, 5) * 16,
                  f8,
                  seed % 4 < 2,
                  seed % 3 == 0,
                  f8 ? (seed % 8 == 0 ? 56U : 54U) : 0U};
    const Invocation v = place(scene, s);
    const Effects effects = verify(scene, v, [&](Image& image) { multiply(image, s, v.m); });
    EXPECT_FALSE(effects.f16_overflow) << seed;
    if (s.k < 96 || s.rows < 8) continue;
    Image rounded = scene.image, unrounded = scene.image;
    multiply(rounded, s, v.m);
    multiply(unrounded, s, v.m, false);
    EXPECT_NE(rounded.bytes, unrounded.bytes) << "data blind to the rounding of groups";
  }
}

TEST(Gemm, EveryRowCountAndModelShapes) {
  for (std::uint32_t rows = 1; rows <= 40; ++rows) {
    Scene scene(rows);
    const Shape s{rows, 64, 32, rows % 2 == 0, rows % 3 == 0, true, rows % 2 == 0 ? 56U : 0U};
    const Invocation v = place(scene, s);
    Image expected = scene.image;
    multiply(expected, s, v.m);
    run(scene.image, v);
    expect_same(expected, scene.image, "rows");
  }
  for (const Shape& s : {Shape{82, 192, 160, true, false, true, 56}, Shape{81, 80, 80, false, true, false}}) {
    Scene scene(1);
    const Invocation v = place(scene, s);
    Image expected = scene.image;
    multiply(expected, s, v.m);
    run(scene.image, v);
    expect_same(expected, scene.image, "model shape");
  }
}

// 1 x 16 x 16, every weight one: the output is the sum of the left values in the kernel's order.
std::uint16_t sum_of(std::vector<double> left, double initial, bool accumulate, Effects* effects = nullptr) {
  Scene scene(3);
  const Shape s{1, 16, 16, false, accumulate, false};
  const Invocation v = place(scene, s);
  left.resize(16);
  for (std::uint32_t i = 0; i < 16; ++i) {
    scene.image.put_half(v.m[0], i, initial);
    scene.image.put_half(v.m[1], i, left[i]);
  }
  for (std::uint32_t i = 0; i < 256; ++i) scene.image.put_half(v.m[2], i, 1.0);
  const Effects e = run(scene.image, v);
  if (effects) *effects = e;
  return scene.image.get<std::uint16_t>(v.m[0]);
}

TEST(Gemm, AddsInAscendingOrderInSinglePrecision) {
  const double tiny = std::ldexp(1.0, -13);  // half a unit of FP32 at 2048: lost twice, never added together
  EXPECT_EQ(sum_of({2048, 1, tiny, tiny}, 0, false), numeric::f64_to_f16(2048));
  EXPECT_EQ(sum_of({tiny, tiny, 1, 2048}, 0, false), numeric::f64_to_f16(2050));
  EXPECT_EQ(sum_of({1, tiny, tiny}, 2048, true), numeric::f64_to_f16(2048)) << "starts from the partial";
  EXPECT_EQ(sum_of({1, tiny, tiny}, 2048, false), numeric::f64_to_f16(1 + std::ldexp(1.0, -12)));
  EXPECT_EQ(sum_of({}, -0.0, true), 0x0000) << "a group of zeros turns -0 into +0";
}

TEST(Gemm, ReportsFiniteOverflowOnly) {
  Effects effects;
  EXPECT_EQ(sum_of({60000, 5516}, 0, false, &effects), 0x7BFF);
  EXPECT_FALSE(effects.f16_overflow);
  EXPECT_EQ(sum_of({60000, 5520}, 0, false, &effects), 0x7C00);
  EXPECT_TRUE(effects.f16_overflow);
  EXPECT_EQ(sum_of({-60000}, -60000, true, &effects), 0xFC00);
  EXPECT_TRUE(effects.f16_overflow);
  EXPECT_EQ(sum_of({1}, std::numeric_limits<double>::infinity(), true, &effects), 0x7C00);
  EXPECT_FALSE(effects.f16_overflow) << "an infinity that came in is not an overflow";
  EXPECT_EQ(sum_of({60000, 60000, -60000, -60000}, 0, false, &effects), 0x0000);
  EXPECT_FALSE(effects.f16_overflow) << "sums inside a group are FP32";
}

TEST(Gemm, NanCodeAndScaleOfF8) {
  Scene scene(5);
  const Shape s{2, 32, 16, true, false, false, 0x3F & static_cast<std::uint32_t>(-32)};
  const Invocation v = place(scene, s);
  for (std::uint32_t i = 0; i < 64; ++i) scene.image.put<std::uint8_t>(v.m[1] + i, i == 0 ? 0x80 : 0);
  for (std::uint32_t i = 0; i < 512; ++i) scene.image.put<std::uint8_t>(v.m[2] + i, 0x7F);
  for (std::uint32_t k = 0; k < 32; ++k) scene.image.put<std::uint8_t>(v.m[1] + 32 + k, 0x7F);
  EXPECT_FALSE(run(scene.image, v).f16_overflow);
  EXPECT_TRUE(std::isnan(scene.image.half(v.m[0], 0)));
  EXPECT_EQ(scene.image.half(v.m[0], 16), to16(32 * 240.0 * 240.0 * std::ldexp(1.0, -32)));
}

TEST(Gemm, RefusesWhatTheContractForbids) {
  Scene scene(9);
  const Invocation v = place(scene, {4, 64, 32, true, false, false, 56});
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  expect_refused(v, 0, v.m[0] + 16, "multiple of 32");
  expect_refused(v, 1, v.m[1] + 8, "multiple of 32");
  expect_refused(v, 3, 0, "rows is zero");
  expect_refused(v, 4, 48, "K 48 is not a multiple of 32");
  expect_refused(v, 5, 24, "columns 24");
  expect_refused(v, 6, 64, "scale");
  expect_refused(v, 6, 7, "scale");
  expect_refused(v, 2, 0x4BFE0, "leaves the memory");
  expect_refused(v, 2, 0xE7FE0, "leaves the memory");
  expect_refused(v, 1, v.m[0], "overlap");
  expect_refused(v, 3, 1U << 20, "20 bits");
  Invocation wide = v;
  wide.spec = {0, 1};
  EXPECT_THAT(find(v.code)->validate(wide.call()), ::testing::HasSubstr("interleaved"));
  wide.spec = {0};
  EXPECT_THAT(find(v.code)->validate(wide.call()), ::testing::HasSubstr("specialisation"));
}

}  // namespace
}  // namespace tw::kernel::test
