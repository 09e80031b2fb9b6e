#include "support.h"

namespace tw::kernel::test {
namespace {

// Worker and lane of decisions.md 5, written element by element.
float ordered_sum(const std::vector<float>& v) {
  float lane[6][8] = {}, total = 0;
  const std::size_t grouped = v.size() / 8 * 8;
  for (std::size_t i = 0; i < grouped; ++i) {
    float& sum = lane[i / 8 % 6][i % 8];
    sum = sum + v[i];
  }
  for (auto& worker : lane) {
    float sum = 0;
    for (const float l : worker) sum = sum + l;
    total = total + sum;
  }
  for (std::size_t i = grouped; i < v.size(); ++i) total = total + v[i];
  return total;
}

struct Moment {
  float mean, variance;
};
Moment moments(const std::vector<float>& x) {
  const auto width = static_cast<float>(x.size());
  const float mean = ordered_sum(x) / width;
  std::vector<float> squares;
  for (const float v : x) {
    const float d = v - mean;
    squares.push_back(d * d);
  }
  return {mean, ordered_sum(squares) / width};
}

std::vector<float> row_of(const Image& image, std::uint32_t address, std::uint32_t r, std::uint32_t width) {
  std::vector<float> x(width);
  for (std::uint32_t i = 0; i < width; ++i) x[i] = image.half(address, std::uint64_t{r} * width + i);
  return x;
}

float normalised(float x, Moment s, float epsilon, float scale, float bias, bool stepwise) {
  const float shifted = s.variance + epsilon;
  const auto r = static_cast<float>(1.0 / std::sqrt(double{shifted}));
  const float d = x - s.mean, n = d * r;
  if (stepwise) return to16(to16(double{to16(double{n})} * scale) + double{bias});
  const float scaled = n * scale, y = scaled + bias;
  return to16(double{y});
}

TEST(LayerNorm, WidthsWithAndWithoutTails) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Scene scene(seed);
    const std::uint32_t widths[] = {2, 6, 8, 10, 50, 96, 100, 102, 144, 590, 768, 1152};
    const std::uint32_t rows = scene.between(1, 5), width = widths[seed % 12];
    const std::uint32_t x = scene.halves(rows * width, 2), scale = scene.halves(width, 1),
                        bias = scene.halves(width, 1);
    const std::uint32_t out = seed % 3 == 0 ? x : scene.place(rows * width * 2);
    const float epsilon = 1e-6F;
    const Invocation v{Code::LayerNorm,
                       {out, x, scale, bias, rows, width},
                       {std::bit_cast<std::uint32_t>(epsilon)},
                       {0, 2, 2, 2}};
    verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const auto row = row_of(before, x, r, width);
        const Moment s = moments(row);
        for (std::uint32_t i = 0; i < width; ++i) {
          const float y =
              normalised(row[i], s, epsilon, before.half(scale, i), before.half(bias, i), width % 4 == 0);
          image.put_half(out, r * width + i, y);
        }
      }
    });
  }
}

TEST(LayerNorm, SummationOrderIsVisible) {
  // Lane 0 of worker 0 sees 2^24 then 1 then 1 (elements 0, 48, 96): each 1 is lost there.
  Scene scene(1);
  const std::uint32_t width = 144, x = scene.place(width * 2), out = scene.place(8);
  for (std::uint32_t i = 0; i < width; ++i) scene.image.put_half(x, i, 0);
  for (const std::uint32_t i : {0U, 1U, 2U}) scene.image.put_half(x, i, 32768);
  const float even = std::ldexp(1.0F, -9);  // half a unit of 2^15 in FP32
  for (const std::uint32_t i : {48U, 96U, 49U, 97U, 50U, 98U}) scene.image.put_half(x, i, even);
  run(scene.image, {Code::Moments, {out, x, 1, width}, {}, {}});
  EXPECT_EQ(scene.image.single(out), 3 * 32768.0F / 144.0F);
  // In a lane of their own the small ones add up: 2^-9 * 2 is one unit at 32768 and survives.
  for (const std::uint32_t i : {0U, 1U, 2U}) scene.image.put_half(x, i, 0);
  scene.image.put_half(x, 3, 32768);
  for (const std::uint32_t i : {49U, 97U, 50U, 98U}) scene.image.put_half(x, i, 0);
  run(scene.image, {Code::Moments, {out, x, 1, width}, {}, {}});
  EXPECT_EQ(scene.image.single(out), (32768.0F + std::ldexp(1.0F, -8)) / 144.0F);
}

TEST(LayerNorm, ReportsOverflowAndRefuses) {
  Scene scene(4);
  const std::uint32_t width = 8, x = scene.halves(width, 1), scale = scene.halves(width, 1);
  const std::uint32_t bias = scene.halves(width, 1), out = scene.place(16);
  const Invocation v{Code::LayerNorm, {out, x, scale, bias, 1, width}, {0x358637BD}, {}};
  Image image = scene.image;
  EXPECT_FALSE(run(image, v).f16_overflow);
  scene.image.put_half(bias, 7, 65504);
  scene.image.put_half(scale, 7, 65504);
  scene.image.put_half(x, 7, 50);
  EXPECT_TRUE(run(scene.image, v).f16_overflow);
  expect_refused(v, 5, 7, "multiple of 2");
  expect_refused(v, 0, scale, "overlap");
  expect_refused(v, 4, 0, "zero");
}

TEST(Moments, StatisticsPerRow) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 6), width = 4 * scene.between(1, 60);
    const std::uint32_t x = scene.halves(rows * width, 3), out = scene.place(rows * 8);
    const Invocation v{Code::Moments, {out, x, rows, width}, {}, {0, 2}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r) {
        const Moment s = moments(row_of(image, x, r, width));
        image.put(out + r * 8, s.mean);
        image.put(out + r * 8 + 4, s.variance);
      }
    });
    expect_refused(v, 3, width + 2, "multiple of 4");
  }
}

// Rows on which a shortcut in FP32 (single-precision square root, square added apart from the part's
// variance) shows in the F16 result: random data hardly ever sees it.
TEST(Apply, EveryFp32RoundingShows) {
  Scene scene(11);
  const std::uint32_t rows = 16, width = 4, parts = 3, x = scene.halves(rows * width, 1);
  const std::uint32_t statistics = scene.place(parts * rows * 8), out = scene.place(rows * width * 2);
  const std::uint32_t scale = scene.place(8), bias = scene.place(8);
  for (std::uint32_t i = 0; i < width; ++i) {
    scene.image.put_half(scale, i, 1);
    scene.image.put_half(bias, i, 0);
  }
  const auto half_of = [](float d, float r) {
    const float n = d * r;
    return to16(double{n});
  };
  std::vector<float> expected;
  while (expected.size() < rows) {
    float mean = 0, variance = 0, apart = 0, part[3][2];
    for (auto& [m, v] : part) {
      m = static_cast<float>(scene.normal(1)), v = static_cast<float>(1 + std::abs(scene.normal(1)));
      mean = mean + m;
    }
    mean = mean / 3;
    for (const auto& [m, v] : part) {
      const float d = m - mean, square = d * d, term = v + square;
      variance = variance + term;
      apart = apart + v;
      apart = apart + square;
    }
    variance = variance / 3, apart = apart / 3;
    const auto r = static_cast<float>(1 / std::sqrt(double{variance}));
    const bool first = expected.size() < rows / 2;
    const float other = first ? 1.0F / std::sqrt(variance) : static_cast<float>(1 / std::sqrt(double{apart}));
    const float value = to16(scene.normal(1)), d = value - mean;
    if (half_of(d, r) == half_of(d, other)) continue;
    const auto row = static_cast<std::uint32_t>(expected.size());
    scene.image.put_half(x, row * width, value);
    for (std::uint32_t p = 0; p < parts; ++p) {
      scene.image.put(statistics + (p * rows + row) * 8, part[p][0]);
      scene.image.put(statistics + (p * rows + row) * 8 + 4, part[p][1]);
    }
    expected.push_back(half_of(d, r));
  }
  run(scene.image, {Code::Apply, {out, x, statistics, scale, bias, rows, width, parts}, {0}, {}});
  for (std::uint32_t r = 0; r < rows; ++r) EXPECT_EQ(scene.image.half(out, r * width), expected[r]) << r;
}

TEST(Apply, MergesPartsAscending) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 6), width = 4 * scene.between(1, 30),
                        parts = scene.between(1, 8);
    const std::uint32_t x = scene.halves(rows * width, 2), scale = scene.halves(width, 1),
                        bias = scene.halves(width, 1);
    const std::uint32_t statistics = scene.singles(parts * rows * 2, 1.0);
    for (std::uint32_t i = 1; i < parts * rows * 2; i += 2)
      scene.image.put(statistics + 4 * i, std::abs(scene.image.single(statistics, i)) + 1);
    const std::uint32_t out = scene.place(rows * width * 2);
    const float epsilon = 1e-5F;
    const Invocation v{Code::Apply,
                       {out, x, statistics, scale, bias, rows, width, parts},
                       {std::bit_cast<std::uint32_t>(epsilon)},
                       {0, 2, 4, 2, 2}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r) {
        const auto mean_of = [&](std::uint32_t p) { return image.single(statistics, (p * rows + r) * 2); };
        Moment s{0, 0};
        for (std::uint32_t p = 0; p < parts; ++p) s.mean = s.mean + mean_of(p);
        s.mean = s.mean / static_cast<float>(parts);
        for (std::uint32_t p = 0; p < parts; ++p) {
          const float d = mean_of(p) - s.mean, square = d * d;
          const float term = image.single(statistics, (p * rows + r) * 2 + 1) + square;
          s.variance = s.variance + term;
        }
        s.variance = s.variance / static_cast<float>(parts);
        const auto row = row_of(image, x, r, width);
        for (std::uint32_t i = 0; i < width; ++i)
          image.put_half(out, r * width + i,
                         normalised(row[i], s, epsilon, image.half(scale, i), image.half(bias, i), true));
      }
    });
  }
}

}  // namespace
}  // namespace tw::kernel::test
