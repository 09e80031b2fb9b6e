// Fused kernels against the chain of kernels that they replace: the same bits, the same clips and faults.
#include "support.h"

namespace tw::kernel::test {
namespace {

constexpr float kEpsilon = 1e-6F;
const std::vector<std::uint32_t> kEpsilonWord{std::bit_cast<std::uint32_t>(kEpsilon)};
constexpr std::uint32_t kExponent = 60;  // -4

// Runs the chain on a copy of `image`; only [out, out + bytes) of the result replaces what `image` holds.
Effects chained(Image& image, const std::vector<Invocation>& chain,
                const std::vector<std::pair<std::uint32_t, std::uint32_t>>& results) {
  Image work = image;
  Effects all;
  for (const Invocation& v : chain) {
    const Effects e = run(work, v);
    all.fp8_clips += e.fp8_clips;
    all.f16_overflow |= e.f16_overflow;
  }
  for (const auto& [address, bytes] : results)
    std::memcpy(&image.bytes[address - kBase], &work.bytes[address - kBase], bytes);
  return all;
}

Effects verify_chain(Scene& scene, const Invocation& v, const std::vector<Invocation>& chain,
                     const std::vector<std::pair<std::uint32_t, std::uint32_t>>& results) {
  Effects expected;
  const Effects effects = verify(scene, v, [&](Image& image) { expected = chained(image, chain, results); });
  EXPECT_EQ(effects.fp8_clips, expected.fp8_clips);
  EXPECT_EQ(effects.f16_overflow, expected.f16_overflow);
  return effects;
}

std::uint32_t padded(std::uint32_t width) { return (width + 31) / 32 * 32; }

TEST(AddLayerNorm, IsAddThenLayerNorm) {
  const std::uint32_t widths[] = {2, 6, 8, 50, 96, 100, 102, 144, 1152};
  for (unsigned seed = 0; seed < 27; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 4), width = widths[seed % 9], n = rows * width;
    const std::uint32_t a = scene.halves(n, 2), b = scene.halves(n, 0.3), scale = scene.halves(width, 1),
                        bias = scene.halves(width, 1), sum = scene.place(n * 2);
    const std::uint32_t out = seed % 3 == 0 ? a : seed % 3 == 1 ? b : scene.place(n * 2);
    const Invocation v{
        Code::AddLayerNorm, {out, a, b, scale, bias, rows, width}, kEpsilonWord, {0, 2, 2, 2, 2}};
    verify_chain(scene, v,
                 {{Code::Add, {sum, a, b, n, n}, {}, {}},
                  {Code::LayerNorm, {out, sum, scale, bias, rows, width}, kEpsilonWord, {}}},
                 {{out, n * 2}});
  }
}

// The statistics are those of the rounded sum: 2048 + 1 rounds to 2048, so that a row of such sums is flat.
TEST(AddLayerNorm, NormalisesTheRoundedSum) {
  Scene scene(1);
  const std::uint32_t width = 8, a = scene.place(16), b = scene.place(16), scale = scene.place(16),
                      bias = scene.place(16), out = scene.place(16);
  for (std::uint32_t i = 0; i < width; ++i) {
    scene.image.put_half(a, i, 2048);
    scene.image.put_half(b, i, i % 2);
    scene.image.put_half(scale, i, 1);
    scene.image.put_half(bias, i, 0.25);
  }
  run(scene.image, {Code::AddLayerNorm, {out, a, b, scale, bias, 1, width}, kEpsilonWord, {}});
  for (std::uint32_t i = 0; i < width; ++i) EXPECT_EQ(scene.image.half(out, i), 0.25F);
}

TEST(AddLayerNorm, ReportsOverflowOfTheSumAndRefuses) {
  Scene scene(2);
  const std::uint32_t width = 8, a = scene.halves(width, 1), b = scene.halves(width, 1);
  const std::uint32_t scale = scene.halves(width, 1), bias = scene.halves(width, 1), out = scene.place(16);
  const Invocation v{Code::AddLayerNorm, {out, a, b, scale, bias, 1, width}, kEpsilonWord, {}};
  Image image = scene.image;
  EXPECT_FALSE(run(image, v).f16_overflow);
  scene.image.put_half(a, 5, 60000);
  scene.image.put_half(b, 5, 60000);
  EXPECT_TRUE(run(scene.image, v).f16_overflow);
  expect_refused(v, 6, 7, "multiple of 2");
  expect_refused(v, 5, 0, "zero");
  expect_refused(v, 0, scale, "overlap");
  expect_refused(v, 2, b + 2, "multiple of 8");
}

TEST(AddMoments, IsAddThenMoments) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 6), width = 4 * scene.between(1, 60), n = rows * width;
    const std::uint32_t a = scene.halves(n, 2), b = scene.halves(n, 0.3), statistics = scene.place(rows * 8);
    const std::uint32_t sum = seed % 3 == 0 ? a : seed % 3 == 1 ? b : scene.place(n * 2);
    const Invocation v{Code::AddMoments, {sum, a, b, statistics, rows, width}, {}, {0, 2, 2}};
    verify_chain(
        scene, v,
        {{Code::Add, {sum, a, b, n, n}, {}, {}}, {Code::Moments, {statistics, sum, rows, width}, {}, {}}},
        {{sum, n * 2}, {statistics, rows * 8}});
    expect_refused(v, 5, width + 2, "multiple of 4");
    expect_refused(v, 3, sum, "overlap");
  }
}

TEST(AddMoments, WorkedRow) {
  Scene scene(3);
  const std::uint32_t a = scene.place(8), b = scene.place(8), sum = scene.place(8),
                      statistics = scene.place(8);
  const double first[] = {1, 2, 3, 4}, second[] = {0, 1, 0, 1};  // 1 3 3 5: mean 3, variance 2
  for (std::uint32_t i = 0; i < 4; ++i) {
    scene.image.put_half(a, i, first[i]);
    scene.image.put_half(b, i, second[i]);
  }
  Invocation v{Code::AddMoments, {sum, a, b, statistics, 1, 4}, {}, {}};
  EXPECT_FALSE(run(scene.image, v).f16_overflow);
  EXPECT_EQ(scene.image.half(sum, 3), 5.0F);
  EXPECT_EQ(scene.image.single(statistics), 3.0F);
  EXPECT_EQ(scene.image.single(statistics, 1), 2.0F);
  scene.image.put_half(a, 0, 65504);
  scene.image.put_half(b, 0, 65504);
  EXPECT_TRUE(run(scene.image, v).f16_overflow);
}

// One part of a row: its moments and Apply give what LayerNorm gives.
TEST(AddMoments, WithApplyIsLayerNormOfTheSum) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 4), width = 4 * scene.between(1, 300), n = rows * width;
    const std::uint32_t a = scene.halves(n, 2), b = scene.halves(n, 1), scale = scene.halves(width, 1),
                        bias = scene.halves(width, 1), statistics = scene.place(rows * 8),
                        sum = scene.place(n * 2), out = scene.place(n * 2);
    Image parts = scene.image, whole = scene.image;
    chained(parts,
            {{Code::AddMoments, {sum, a, b, statistics, rows, width}, {}, {}},
             {Code::Apply, {out, sum, statistics, scale, bias, rows, width, 1}, kEpsilonWord, {}}},
            {{out, n * 2}});
    chained(whole,
            {{Code::Add, {sum, a, b, n, n}, {}, {}},
             {Code::LayerNorm, {out, sum, scale, bias, rows, width}, kEpsilonWord, {}}},
            {{out, n * 2}});
    expect_same(whole, parts, "Apply of one part");
  }
}

const std::uint32_t kPanelWidths[] = {4, 28, 32, 36, 72, 96, 144, 590 / 4 * 4, 1152};

TEST(LayerNormF8, IsLayerNormThenCast) {
  std::uint64_t clips = 0;
  for (unsigned seed = 0; seed < 27; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 4), width = kPanelWidths[seed % 9], n = rows * width;
    const std::uint32_t columns = padded(width) + 32 * scene.below(2);
    const std::uint32_t exponent = seed % 4 == 0 ? 57 : kExponent;  // -7 clips at 1.94
    const std::uint32_t x = scene.halves(n, 2), scale = scene.halves(width, 1), bias = scene.halves(width, 1),
                        y = scene.place(n * 2), out = scene.place(rows * columns);
    const Invocation v{
        Code::LayerNormF8, {out, x, scale, bias, rows, width, columns, exponent}, kEpsilonWord, {0, 2, 2, 2}};
    clips += verify_chain(scene, v,
                          {{Code::LayerNorm, {y, x, scale, bias, rows, width}, kEpsilonWord, {}},
                           {Code::PackRowToF8Left, {out, y, rows, width, width, columns, exponent}, {}, {}}},
                          {{out, rows * columns}})
                 .fp8_clips;
    expect_refused(v, 5, width + 2, "multiple of 4");
    expect_refused(v, 6, columns + 16, "multiple of 32");
    expect_refused(v, 7, 64, "exponent");
    expect_refused(v, 0, x, "overlap");
  }
  EXPECT_GT(clips, 0U);
}

TEST(LayerNormF8, NanStaysNanAndPaddingIsZero) {
  Scene scene(5);
  const std::uint32_t width = 4, x = scene.place(8), scale = scene.halves(4, 1), bias = scene.halves(4, 1),
                      out = scene.place(32);
  for (std::uint32_t i = 0; i < width; ++i) scene.image.put_half(x, i, i);
  scene.image.put<std::uint16_t>(x + 2, 0x7E00);
  const Invocation v{Code::LayerNormF8, {out, x, scale, bias, 1, width, 32, kExponent}, kEpsilonWord, {}};
  EXPECT_EQ(run(scene.image, v).fp8_clips, 0U);
  EXPECT_EQ(scene.image.get<std::uint32_t>(out), 0x80808080U);
  for (std::uint32_t i = 4; i < 32; ++i) EXPECT_EQ(scene.image.get<std::uint8_t>(out + i), 0U);
}

TEST(GeluF8, IsGeluThenCast) {
  for (unsigned seed = 0; seed < 18; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 4), width = kPanelWidths[seed % 9], n = rows * width;
    const std::uint32_t columns = padded(width) + 32 * scene.below(2);
    const std::uint32_t x = scene.halves(n, seed % 2 == 0 ? 8 : 1), y = scene.place(n * 2),
                        out = scene.place(rows * columns);
    const Invocation v{Code::GeluF8, {out, x, rows, width, columns, kExponent}, {}, {0, 2}};
    verify_chain(scene, v,
                 {{Code::Gelu, {y, x, n}, {}, {}},
                  {Code::PackRowToF8Left, {out, y, rows, width, width, columns, kExponent}, {}, {}}},
                 {{out, rows * columns}});
    expect_refused(v, 3, width + 2, "multiple of 4");
    expect_refused(v, 4, columns + 16, "multiple of 32");
    expect_refused(v, 5, 64, "exponent");
    expect_refused(v, 0, x, "overlap");
  }
}

// models.md A.4: gelu(1) = 0.840820 in F16; at S = -4 that is 13.45, between the codes 13 and 14.
TEST(GeluF8, WorkedValues) {
  Scene scene(6);
  const std::uint32_t x = scene.place(8), out = scene.place(32);
  const double in[] = {1, -1, 40, 0};
  for (std::uint32_t i = 0; i < 4; ++i) scene.image.put_half(x, i, in[i]);
  EXPECT_EQ(run(scene.image, {Code::GeluF8, {out, x, 1, 4, 32, kExponent}, {}, {}}).fp8_clips,
            1U);                                            // 40 > 15
  EXPECT_EQ(scene.image.get<std::uint8_t>(out), 0x5D);      // 13 = (1 + 5/8) * 2^3
  EXPECT_EQ(scene.image.get<std::uint8_t>(out + 1), 0xCA);  // -0.158936 * 16 = -2.54: -(1 + 2/8) * 2
  EXPECT_EQ(scene.image.get<std::uint8_t>(out + 2), 0x7F);
  EXPECT_EQ(scene.image.get<std::uint8_t>(out + 3), 0x00);
}

TEST(BiasGeluF8, IsBiasGeluThenCast) {
  for (unsigned seed = 0; seed < 18; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 4), width = kPanelWidths[seed % 9], n = rows * width;
    const std::uint32_t columns = padded(width) + 32 * scene.below(2);
    const std::uint32_t x = scene.halves(n, seed % 2 == 0 ? 8 : 1), bias = scene.halves(width, 1),
                        y = scene.place(n * 2), out = scene.place(rows * columns);
    const Invocation v{Code::BiasGeluF8, {out, x, bias, rows, width, columns, kExponent}, {}, {0, 2, 2}};
    verify_chain(scene, v,
                 {{Code::BiasGelu, {y, x, bias, rows, width}, {}, {}},
                  {Code::PackRowToF8Left, {out, y, rows, width, width, columns, kExponent}, {}, {}}},
                 {{out, rows * columns}});
    expect_refused(v, 4, width + 2, "multiple of 4");
    expect_refused(v, 5, columns + 16, "multiple of 32");
    expect_refused(v, 6, 64, "exponent");
    expect_refused(v, 0, bias, "overlap");
  }
  Scene scene(1);
  const std::uint32_t x = scene.halves(4, 1), bias = scene.halves(4, 1), out = scene.place(32);
  scene.image.put_half(x, 2, 65504);
  scene.image.put_half(bias, 2, 65504);
  EXPECT_TRUE(run(scene.image, {Code::BiasGeluF8, {out, x, bias, 1, 4, 32, kExponent}, {}, {}}).f16_overflow);
}

std::uint64_t cycles(Code code, std::vector<std::uint32_t> m, std::vector<std::uint32_t> spec = {}) {
  const Invocation v{code, std::move(m), std::move(spec), {}};
  return find(code)->cycles(v.call());
}

// compiler.md 5.4; the first figure is measured there.
TEST(Cost, FusedNorm) {
  EXPECT_EQ(cycles(Code::AddLayerNorm, {0, 0, 0, 0, 0, 1, 1152}, {0}), 8376U);
  EXPECT_EQ(cycles(Code::AddLayerNorm, {0, 0, 0, 0, 0, 2, 50}, {0}), 132U + 2 * (72 * 5 + 72 * 5 + 1290));
  EXPECT_EQ(cycles(Code::AddMoments, {0, 0, 0, 0, 1, 1152}), 126U + 1752 + 1080 + 108 + 24 * 24);
  const std::uint64_t pairs = 132 + 1752 + 60 * 96 + 1329;
  EXPECT_EQ(cycles(Code::LayerNormF8, {0, 0, 0, 0, 1, 1152, 1152, 60}, {0}), pairs + 270 + 48 * 6);
  EXPECT_EQ(cycles(Code::LayerNormF8, {0, 0, 0, 0, 2, 1152, 1152, 60}, {0}),
            132 + 2 * (pairs - 132 + 270 + 48 * 162));
}
TEST(Cost, FusedGelu) {
  EXPECT_EQ(cycles(Code::GeluF8, {0, 0, 2, 4304, 4320, 60}), 138U + 2 * (372 + 1002 * 23));
  EXPECT_EQ(cycles(Code::BiasGeluF8, {0, 0, 0, 1, 4304, 4320, 60}), 330U + 198 + 1104 * 23);
  EXPECT_EQ(cycles(Code::BiasGeluF8, {0, 0, 0, 2, 4304, 4320, 60}), 330U + 2 * (198 + 1104 * 23 + 12));
}

}  // namespace
}  // namespace tw::kernel::test
