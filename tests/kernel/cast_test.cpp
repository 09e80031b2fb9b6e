#include "support.h"

namespace tw::kernel::test {
namespace {

int exponent(std::uint32_t word) { return word < 32 ? static_cast<int>(word) : static_cast<int>(word) - 64; }

// The encoder of models.md A.1.2 by search: nearest value, ties to the even code, saturating.
std::uint8_t encode(double x, int scale) {
  const double y = std::ldexp(x, -scale);
  if (std::isnan(y)) return 0x80;
  int best = 0;
  double best_distance = std::abs(y);
  for (int magnitude = 1; magnitude < 128; ++magnitude) {
    const int e = magnitude >> 3, m = magnitude & 7;
    const double value = e == 0 ? std::ldexp(m, -10) : std::ldexp(8 + m, e - 11);
    const double distance = std::abs(std::abs(y) - value);
    if (distance < best_distance || (distance == best_distance && magnitude % 2 == 0))
      best = magnitude, best_distance = distance;
  }
  return best == 0 ? 0 : static_cast<std::uint8_t>(best | (y < 0 ? 0x80 : 0));
}

const std::uint32_t kScales[] = {60, 0, 5, 58, 36};  // -4, 0, 5, -6, -28

TEST(CastF16ToF8, RoundsSaturatesAndCounts) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Scene scene(seed);
    const std::uint32_t n = scene.between(1, 300), scale = kScales[seed % 5];
    const std::uint32_t in = scene.halves(n, seed % 2 == 0 ? 5 : 0.05), out = scene.place(n);
    for (std::uint32_t i = 0; i < n; i += 7)  // ties of the S = -4 grid
      scene.image.put_half(
          in, i, (scene.between(8, 15) + 0.5) * std::ldexp(1.0, static_cast<int>(scene.below(10)) - 9));
    const Invocation v{Code::CastF16ToF8, {out, in, n, scale}, {}, {0, 2}};
    std::uint64_t clips = 0;
    const Effects effects = verify(scene, v, [&](Image& image) {
      for (std::uint32_t i = 0; i < n; ++i) {
        const double x = image.half(in, i);
        image.put(out + i, encode(x, exponent(scale)));
        // 248 is the tie between 240 and the 256 that does not exist; it would round to the even 256.
        clips += std::ldexp(std::abs(x), -exponent(scale)) >= 248 ? 1 : 0;
      }
    });
    EXPECT_EQ(effects.fp8_clips, clips) << seed;
    EXPECT_FALSE(effects.f16_overflow);
  }
}

TEST(CastF16ToF8, NanStaysNan) {
  Scene scene(1);
  const std::uint32_t in = scene.place(8), out = scene.place(8);
  scene.image.put<std::uint16_t>(in, 0x7E00);
  scene.image.put<std::uint16_t>(in + 2, 0xFE01);
  scene.image.put_half(in, 2, -0.0);
  scene.image.put_half(in, 3, -1e-7);
  const Effects effects = run(scene.image, {Code::CastF16ToF8, {out, in, 4, 60}, {}, {}});
  EXPECT_EQ(scene.image.get<std::uint32_t>(out), 0x00008080U);
  EXPECT_EQ(effects.fp8_clips, 0U);
}

TEST(CastF8ToF16, EveryCodeAndOverflow) {
  Scene scene(2);
  const std::uint32_t in = scene.place(256), out = scene.place(512);
  for (std::uint32_t i = 0; i < 256; ++i)
    scene.image.put(in + i, static_cast<std::uint8_t>(i == 0x80 ? 0 : i));
  Invocation v{Code::CastF8ToF16, {out, in, 256, 60}, {}, {0, 1}};
  const Effects effects = verify(scene, v, [&](Image& image) {
    for (std::uint32_t i = 0; i < 256; ++i) {
      const std::uint32_t code = i == 0x80 ? 0 : i, e = code >> 3 & 15, m = code & 7;
      const double value = e == 0 ? std::ldexp(m, -14) : std::ldexp(8 + m, static_cast<int>(e) - 15);
      image.put_half(out, i, code & 0x80 ? -value : value);
    }
  });
  EXPECT_FALSE(effects.f16_overflow);
  v.m[3] = 9;  // 240 * 2^9 leaves F16
  EXPECT_TRUE(run(scene.image, v).f16_overflow);
  scene.image.put<std::uint8_t>(in, 0x80);
  v.m[2] = 1;
  EXPECT_FALSE(run(scene.image, v).f16_overflow);
  EXPECT_TRUE(std::isnan(scene.image.half(out)));
  expect_refused(v, 3, 64, "scale");
}

TEST(CastF32ToF16, RoundsOnce) {
  Scene scene(3);
  const std::uint32_t n = 1500, in = scene.singles(n, 100), out = scene.place(n * 2);
  scene.image.put(in, 2049.0F);
  scene.image.put(in + 4 * 1499, 2051.0F);
  const Invocation v{Code::CastF32ToF16, {out, in, n}, {}, {0, 4}};
  const Effects effects = verify(scene, v, [&](Image& image) {
    for (std::uint32_t i = 0; i < n; ++i) image.put_half(out, i, image.single(in, i));
    image.put<std::uint16_t>(out, 0x6800);
    image.put<std::uint16_t>(out + 2 * 1499, 0x6802);
  });
  EXPECT_FALSE(effects.f16_overflow);
  scene.image.put(in + 4 * 1499, 65520.0F);
  EXPECT_TRUE(run(scene.image, v).f16_overflow);
}

TEST(RepackF8Left, CompletesHalfPanelsWithZeros) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 20), source = 16 * scene.between(1, 6),
                        scale = kScales[seed % 5];
    const std::uint32_t columns = (source + 31) / 32 * 32;
    const std::uint32_t in = scene.halves(rows * source, 3), out = scene.place(rows * columns);
    const Invocation v{Code::RepackF8Left, {out, in, rows, source, columns, scale}, {}, {0, 2}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t c = 0; c < columns; ++c) {
          const double x = c < source ? image.half(in, (c / 16 * rows + r) * 16 + c % 16) : 0;
          image.put(out + (c / 32 * rows + r) * 32 + c % 32, encode(x, exponent(scale)));
        }
    });
    expect_refused(v, 4, columns + 32, "rounded up");
    expect_refused(v, 3, source + 8, "multiple of 16");
  }
}

TEST(PackRowToF8Left, PadsColumnsAndSkipsBetweenRows) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 12), columns = scene.between(1, 90),
                        scale = kScales[seed % 5];
    const std::uint32_t stride = columns + scene.below(9),
                        padded = (columns + 31) / 32 * 32 + 32 * scene.below(2);
    const std::uint32_t in = scene.halves(rows * stride, 3), out = scene.place(rows * padded);
    const Invocation v{Code::PackRowToF8Left, {out, in, rows, stride, columns, padded, scale}, {}, {0, 2}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t c = 0; c < padded; ++c)
          image.put(out + (c / 32 * rows + r) * 32 + c % 32,
                    encode(c < columns ? image.half(in, r * stride + c) : 0, exponent(scale)));
    });
    if (rows > 1) expect_refused(v, 3, columns - 1, "overlap");
    expect_refused(v, 4, padded + 1, "more columns");
  }
}

}  // namespace
}  // namespace tw::kernel::test
