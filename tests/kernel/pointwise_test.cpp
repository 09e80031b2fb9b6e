#include "support.h"

namespace tw::kernel::test {
namespace {

using numeric::f64_to_f16;

// The vectors of models.md A.2: sqrt(2/pi), 0.044715 and their product as halves.
constexpr double kA = 0.7978515625, kB = 0.044708251953125;
const double kAB = to16(kA * kB);

double clamp8(double x) { return x < -8 ? -8 : x > 8 ? 8 : x; }
double tanh16(double x) { return to16(std::tanh(x)); }

double plain_gelu(double x) {
  const double z = clamp8(x);
  double t = to16(z * z);
  t = to16(t * z);
  t = to16(kB * t);
  t = to16(z + t);
  t = to16(kA * t);
  t = to16(1 + tanh16(t));
  return to16(x * to16(0.5 * t));
}
double fused_gelu(double z) {
  const double c = clamp8(z), cube = to16(to16(c * c) * c);
  const auto u = static_cast<float>(kAB * cube + kA * c);
  return to16(z * to16(0.5 * to16(1 + tanh16(to16(double{u})))));
}

TEST(Sum, AddsPartsAscendingWithTheSeedInItsPlace) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Scene scene(seed);
    const std::uint32_t n = 8 * scene.between(1, seed < 20 ? 12 : 150), parts = scene.between(2, 7);
    const std::uint32_t own = scene.below(parts + 1), remote_parts = own < parts ? parts - 1 : parts;
    const std::uint32_t seed_address = scene.halves(n, 3.0), remote = scene.halves(n * remote_parts, 3.0);
    const bool in_place = seed % 3 == 0 && own < parts;
    const std::uint32_t out = in_place ? seed_address : scene.place(n * 2);
    const Invocation v{Code::Sum, {out, seed_address, remote, n, parts, own}, {}, {0, 2, 2}};
    bool order_seen = false;
    const Effects effects = verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t i = 0; i < n; ++i) {
        double forward = 0, seed_first = own < parts ? before.half(seed_address, i) : 0;
        std::uint32_t next = 0;
        for (std::uint32_t p = 0; p < parts; ++p) {
          const double x = p == own ? before.half(seed_address, i) : before.half(remote, n * next++ + i);
          forward = p == 0 ? x : to16(forward + x);
          if (p != own) seed_first = to16(seed_first + x);
        }
        order_seen |= forward != seed_first;
        image.put_half(out, i, forward);
      }
    });
    EXPECT_FALSE(effects.f16_overflow);
    EXPECT_TRUE(order_seen || own < 2 || own == parts || parts < 3 || n < 40) << "data blind to the order";
  }
}

TEST(Sum, RefusesAndReports) {
  Scene scene(1);
  const std::uint32_t n = 16;
  const std::uint32_t seed = scene.halves(n, 1), remote = scene.halves(2 * n, 1), out = scene.place(2 * n);
  scene.image.put_half(seed, 3, 60000);
  scene.image.put_half(remote, 3, 60000);
  const Invocation v{Code::Sum, {out, seed, remote, n, 3, 0}, {}, {}};
  Image image = scene.image;
  EXPECT_TRUE(run(image, v).f16_overflow);
  expect_refused(v, 3, 12, "multiple of 8");
  expect_refused(v, 4, 1, "fewer than two");
  expect_refused(v, 5, 4, "seed part");
  expect_refused(v, 0, remote, "overlap");
  expect_refused(v, 1, seed + 4, "multiple of 8");
}

TEST(Add, DenseAndSuffix) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Scene scene(seed);
    const std::uint32_t width = scene.between(1, 60), repeats = seed % 2 == 0 ? 1 : scene.between(1, 9);
    const std::uint32_t n = width * repeats, a = scene.halves(n, 2), b = scene.halves(width, 2);
    const std::uint32_t out = seed % 4 == 0 ? a : seed % 4 == 2 ? b : scene.place(n * 2);
    const Invocation v{Code::Add, {out, a, b, n, width}, {}, {0, 2, 2}};
    verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t i = 0; i < n; ++i)
        image.put_half(out, i, double{before.half(a, i)} + double{before.half(b, i % width)});
    });
  }
}

TEST(Add, ReportsOverflowInBodyAndTail) {
  for (const std::uint32_t at : {0U, 17U, 35U, 36U}) {
    Scene scene(at);
    const std::uint32_t n = 37, a = scene.halves(n, 1), b = scene.halves(n, 1), out = scene.place(2 * n);
    const Invocation v{Code::Add, {out, a, b, n, n}, {}, {}};
    Image image = scene.image;
    EXPECT_FALSE(run(image, v).f16_overflow);
    scene.image.put_half(a, at, 65504);
    scene.image.put_half(b, at, 15.9);
    image = scene.image;
    EXPECT_FALSE(run(image, v).f16_overflow) << "65519.9 rounds down";
    scene.image.put_half(b, at, 16);
    image = scene.image;
    EXPECT_TRUE(run(image, v).f16_overflow);
    EXPECT_EQ(image.get<std::uint16_t>(out + 2 * at), 0x7C00);
    scene.image.put_half(a, at, std::numeric_limits<double>::infinity());
    image = scene.image;
    EXPECT_FALSE(run(image, v).f16_overflow);
  }
  Scene scene(2);
  const std::uint32_t a = scene.halves(24, 1), b = scene.halves(8, 1), out = scene.place(48);
  const Invocation v{Code::Add, {out, a, b, 24, 8}, {}, {}};
  expect_refused(v, 4, 7, "multiple of nb");
  expect_refused(v, 0, b, "overlap");
  expect_refused(v, 4, 0, "zero");
}

TEST(Gelu, EveryFiniteHalf) {
  Scene scene(1);
  const std::uint32_t n = 65536, in = scene.place(n * 2), out = scene.place(n * 2);
  for (std::uint32_t x = 0; x < n; ++x) scene.image.put(in + 2 * x, static_cast<std::uint16_t>(x));
  run(scene.image, {Code::Gelu, {out, in, n}, {}, {}});
  double worst = 0;
  for (std::uint32_t x = 0; x < n; ++x) {
    if (!numeric::f16_is_finite(static_cast<std::uint16_t>(x))) continue;
    const double value = numeric::f16_to_f32(static_cast<std::uint16_t>(x));
    ASSERT_EQ(scene.image.half(out, x), plain_gelu(value)) << x;
    const double exact =
        0.5 * value * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
    if (std::abs(value) < 8) worst = std::max(worst, std::abs(scene.image.half(out, x) - exact));
  }
  EXPECT_NEAR(worst, 0.0020131, 0.00001);  // models.md A.4
  EXPECT_TRUE(std::isnan(scene.image.half(out, 0x7E01)));
}

TEST(Gelu, ChainVectors) {  // models.md A.4, F16 chain
  Scene scene(1);
  const std::uint32_t in = scene.place(16), out = scene.place(16);
  const double x[] = {-3, -1, 0.5, 1, 3, 0}, y[] = {-0.003662, -0.158936, 0.345703, 0.840820, 2.996094, 0};
  for (std::uint32_t i = 0; i < 6; ++i) scene.image.put_half(in, i, x[i]);
  const Invocation v{Code::Gelu, {out, in, 6}, {}, {0, 2}};
  verify(scene, v, [&](Image& image) {
    for (std::uint32_t i = 0; i < 6; ++i) image.put_half(out, i, y[i]);
  });
  expect_refused(v, 2, 5, "multiple of 2");
}

TEST(BiasGelu, EveryFiniteHalf) {
  Scene scene(1);
  const std::uint32_t n = 65536, in = scene.place(n * 2), bias = scene.place(8), out = scene.place(n * 2);
  for (std::uint32_t x = 0; x < n; ++x) scene.image.put(in + 2 * x, static_cast<std::uint16_t>(x));
  for (std::uint32_t i = 0; i < 4; ++i) scene.image.put_half(bias, i, 0);
  run(scene.image, {Code::BiasGelu, {out, in, bias, n / 4, 4}, {}, {}});
  for (std::uint32_t x = 0; x < n; ++x) {
    if (!numeric::f16_is_finite(static_cast<std::uint16_t>(x))) continue;
    ASSERT_EQ(scene.image.half(out, x), fused_gelu(numeric::f16_to_f32(static_cast<std::uint16_t>(x)))) << x;
  }
}

TEST(BiasGelu, FusedBodyAndPlainTail) {
  bool tail_differs = false;
  for (unsigned seed = 0; seed < 24; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 12), width = seed < 4 ? 16 + seed : scene.between(1, 90);
    const std::uint32_t in = scene.halves(rows * width, seed % 2 == 0 ? 1.5 : 9),
                        bias = scene.halves(width, 1);
    const std::uint32_t out = seed % 3 == 0 ? in : scene.place(rows * width * 2);
    const Invocation v{Code::BiasGelu, {out, in, bias, rows, width}, {}, {0, 2, 2}};
    verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t i = 0; i < rows * width; ++i) {
        const double z = to16(double{before.half(in, i)} + double{before.half(bias, i % width)});
        const bool tail = i % width >= width / 4 * 4;
        tail_differs |= tail && plain_gelu(z) != fused_gelu(z);
        image.put_half(out, i, tail ? plain_gelu(z) : fused_gelu(z));
      }
    });
  }
  EXPECT_TRUE(tail_differs) << "data blind to the tail's chain";
}

}  // namespace
}  // namespace tw::kernel::test
