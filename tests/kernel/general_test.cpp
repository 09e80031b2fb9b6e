// Kernels of general operations against slow formulas in extended precision (docs/numerics.md, "General
// operations"). One FP32 step is a double operation rounded to FP32, which is the IEEE result.
#include <thread>

#include "kernel/macs.h"
#include "numeric/functions.h"
#include "support.h"

namespace tw::kernel::test {
namespace {

using numeric::Binary, numeric::Reduction, numeric::Unary;
using Real = long double;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::uint32_t word(T value) {
  return static_cast<std::uint32_t>(value);
}
float fl(double x) { return static_cast<float>(x); }

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real expected(Unary function, Real x) {
  switch (function) {
    case Unary::GeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x))) / 2;
    case Unary::GeluErf:
      return x * std::erfc(-x * std::sqrt(0.5L)) / 2;
    case Unary::QuickGelu:
      return x * sigmoid(1.702L * x);
    case Unary::Silu:
      return x * sigmoid(x);
    case Unary::Relu:
      return std::max(x, 0.0L);
    case Unary::Tanh:
      return std::tanh(x);
    case Unary::Sigmoid:
      return sigmoid(x);
    case Unary::HardSwish:
      return x * std::min(std::max(x + 3, 0.0L), 6.0L) / 6;
    case Unary::Erf:
      return std::erf(x);
    case Unary::Exp:
      return std::exp(x);
    case Unary::Log:
      return std::log(x);
    case Unary::Sqrt:
      return std::sqrt(x);
    case Unary::Reciprocal:
      return 1 / x;
    case Unary::Negate:
      return -x;
    case Unary::Absolute:
      return std::fabs(x);
  }
  return 0;
}
Real expected(Binary function, Real a, Real b) {
  switch (function) {
    case Binary::Add:
      return a + b;
    case Binary::Subtract:
      return a - b;
    case Binary::Multiply:
      return a * b;
    case Binary::Divide:
      return a / b;
    case Binary::Power:
      return std::pow(a, b);
    case Binary::Maximum:
      return a < b ? b : a;
    case Binary::Minimum:
      return b < a ? b : a;
  }
  return 0;
}
// Inputs below have no real result, or one that the double formula cancels away (1 + tanh).
Real lowest(Unary f) {
  if (f == Unary::Log || f == Unary::Sqrt) return 0x1p-20L;
  return f == Unary::GeluTanh ? -2.5L : -1e30L;
}

std::vector<float> row_of(const Image& image, std::uint32_t address, std::uint32_t r, std::uint32_t width) {
  std::vector<float> x(width);
  for (std::uint32_t i = 0; i < width; ++i) x[i] = image.single(address, std::uint64_t{r} * width + i);
  return x;
}
float sum_of(const std::vector<float>& x) {
  float s = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) s = fl(double{s} + double{x[i]});
  return s;
}
float mean_of(const std::vector<float>& x) { return fl(double{sum_of(x)} / static_cast<double>(x.size())); }
// The largest by sorting; the data hold no NaN.
float maximum_of(std::vector<float> x) {
  std::ranges::sort(x);
  return x.back();
}

TEST(Unary, EveryFunctionOnF32) {
  for (std::uint32_t f = 0; f < numeric::kUnaryFunctions; ++f)
    for (unsigned seed = 0; seed < 4; ++seed) {
      const auto function = static_cast<Unary>(f);
      SCOPED_TRACE(numeric::name_of(function));
      Scene scene(100 * f + seed);
      const std::uint32_t n = scene.between(1, 300) * 2 - seed % 2, in = scene.singles(n, 2);
      for (std::uint32_t i = 0; i < n; ++i)
        scene.image.put(in + 4 * i,
                        std::max(scene.image.single(in, i), static_cast<float>(lowest(function))));
      const std::uint32_t out = seed < 2 ? in : scene.place(n * 4);
      const Invocation v{Code::Unary, {out, in, n}, {f, 1}, {0, 4}};
      const Effects effects = verify(scene, v, [&](Image& image) {
        for (std::uint32_t i = 0; i < n; ++i)
          image.put(out + 4 * i, static_cast<float>(expected(function, image.single(in, i))));
      });
      EXPECT_FALSE(effects.f16_overflow);
    }
}

TEST(Unary, EveryFunctionOnEveryHalf) {
  for (std::uint32_t f = 0; f < numeric::kUnaryFunctions; ++f) {
    const auto function = static_cast<Unary>(f);
    Scene scene(f);
    const std::uint32_t n = 65536, in = scene.place(n * 2), out = scene.place(n * 2);
    for (std::uint32_t x = 0; x < n; ++x) scene.image.put(in + 2 * x, static_cast<std::uint16_t>(x));
    run(scene.image, {Code::Unary, {out, in, n}, {f, 0}, {}});
    for (std::uint32_t x = 0; x < n; ++x) {
      if (!numeric::f16_is_finite(static_cast<std::uint16_t>(x))) continue;
      const auto y =
          static_cast<float>(expected(function, numeric::f16_to_f32(static_cast<std::uint16_t>(x))));
      if (std::isnan(y))
        ASSERT_TRUE(std::isnan(scene.image.half(out, x))) << numeric::name_of(function) << ' ' << x;
      else
        ASSERT_EQ(scene.image.get<std::uint16_t>(out + 2 * x), numeric::f64_to_f16(double{y}))
            << numeric::name_of(function) << ' ' << x;
    }
    EXPECT_TRUE(std::isnan(scene.image.half(out, 0x7E01))) << numeric::name_of(function);
  }
}

TEST(Unary, HalvesOddAndInPlace) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Scene scene(seed);
    const std::uint32_t n = scene.between(1, 99), in = scene.halves(n, 3);
    const std::uint32_t out = seed % 2 == 0 ? in : scene.place(n * 2);
    const Invocation v{Code::Unary, {out, in, n}, {word(Unary::Silu), 0}, {0, 2}};
    const Effects effects = verify(scene, v, [&](Image& image) {
      for (std::uint32_t i = 0; i < n; ++i)
        image.put_half(out, i, fl(static_cast<double>(expected(Unary::Silu, image.half(in, i)))));
    });
    EXPECT_FALSE(effects.f16_overflow);
  }
}

struct Point {
  Unary function;
  float x, y;
  bool fault;
};

TEST(Unary, InfinitiesAndFaults) {
  const Point points[] = {{Unary::Exp, 11.0F, to16(59874.1417), false},
                          {Unary::Exp, 11.125F, kInfinity, true},
                          {Unary::Exp, kInfinity, kInfinity, false},
                          {Unary::Exp, -kInfinity, 0, false},
                          {Unary::Reciprocal, 0x1p-15F, 32768, false},
                          {Unary::Reciprocal, 0x1p-16F, kInfinity, true},
                          {Unary::Reciprocal, -0.0F, -kInfinity, true},
                          {Unary::Reciprocal, -kInfinity, 0, false},
                          {Unary::Log, 0, -kInfinity, true},
                          {Unary::Log, -1, kNan, false},
                          {Unary::Sqrt, -1, kNan, false},
                          {Unary::Negate, 65504, -65504, false},
                          {Unary::Absolute, -kInfinity, kInfinity, false},
                          {Unary::Silu, -kInfinity, 0, false},
                          {Unary::GeluErf, kInfinity, kInfinity, false},
                          {Unary::GeluTanh, -kInfinity, 0, false},
                          {Unary::HardSwish, -kInfinity, 0, false},
                          {Unary::Tanh, kInfinity, 1, false},
                          {Unary::Relu, kNan, kNan, false}};
  for (const Point& p : points)
    for (const std::uint32_t at : {0U, 16U}) {
      SCOPED_TRACE(std::string(numeric::name_of(p.function)) + ' ' + std::to_string(p.x));
      Scene scene(1);
      const std::uint32_t n = 17, halves = scene.place(2 * n), singles = scene.place(4 * n);
      for (std::uint32_t i = 0; i < n; ++i) {
        scene.image.put_half(halves, i, i == at ? double{p.x} : 1.0);
        scene.image.put(singles + 4 * i, i == at ? p.x : 1.0F);
      }
      EXPECT_EQ(run(scene.image, {Code::Unary, {halves, halves, n}, {word(p.function), 0}, {}}).f16_overflow,
                p.fault);
      EXPECT_FALSE(
          run(scene.image, {Code::Unary, {singles, singles, n}, {word(p.function), 1}, {}}).f16_overflow);
      EXPECT_EQ(std::isnan(scene.image.half(halves, at)), std::isnan(p.y));
      EXPECT_EQ(std::isnan(scene.image.single(singles, at)), std::isnan(p.y));
      if (!std::isnan(p.y)) {
        EXPECT_EQ(scene.image.half(halves, at), p.y);
      }
      if (p.x == kInfinity || p.x == -kInfinity) {
        EXPECT_EQ(scene.image.single(singles, at), p.y);
      }
    }
}

TEST(Unary, TablesMadeByManyThreadsAtOnce) {
  Scene scene(1);
  const std::uint32_t n = 1000, in = scene.halves(n, 1);
  std::vector<Image> images(8, scene.image);
  {
    std::vector<std::jthread> threads;
    for (Image& image : images)
      threads.emplace_back([&image, in] {
        for (std::uint32_t f = 0; f < numeric::kUnaryFunctions; ++f)
          run(image, {Code::Unary, {in, in, n}, {f, 0}, {}});
      });
  }
  for (const Image& image : images) expect_same(images[0], image, "another thread");
}

TEST(Unary, Refuses) {
  Scene scene(1);
  const std::uint32_t n = 12, in = scene.singles(n, 1), out = scene.place(4 * n);
  Invocation v{Code::Unary, {out, in, n}, {0, 1}, {}};
  expect_refused(v, 2, 0, "zero");
  expect_refused(v, 0, out + 4, "multiple of 8");
  expect_refused(v, 0, in + 8, "overlap");
  expect_refused(v, 0, in + 40, "overlap");
  expect_refused(v, 0, kEnd - 40, "leaves the memory");
  EXPECT_EQ(find(v.code)->validate(Invocation{Code::Unary, {kEnd - 48, in, n}, {0, 1}, {}}.call()), "");
  v.m[0] = in + 24;  // the halves of n elements end there
  v.spec[1] = 0;
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  v.spec = {numeric::kUnaryFunctions, 1};
  expect_refused(v, 0, out, "unknown function");
  v.spec = {0, 2};
  expect_refused(v, 0, out, "neither F16 nor F32");
  v.spec = {0};
  expect_refused(v, 0, out, "specialisation words");
}

TEST(Binary, EveryFunctionOrderAndRepetition) {
  for (std::uint32_t f = 0; f < numeric::kBinaryFunctions; ++f)
    for (unsigned seed = 0; seed < 8; ++seed) {
      const auto function = static_cast<Binary>(f);
      SCOPED_TRACE(numeric::name_of(function));
      Scene scene(100 * f + seed);
      const std::uint32_t repeats = seed < 4 ? 1 : scene.between(2, 9),
                          nb = seed == 7 ? 1 : scene.between(1, 70);
      const std::uint32_t n = nb * repeats, reversed = seed % 2;
      const std::uint32_t a = scene.singles(n, 3), b = scene.singles(nb, 3);
      for (std::uint32_t i = 0; function == Binary::Power && i < n; ++i)
        scene.image.put(a + 4 * i, std::abs(scene.image.single(a, i)));
      for (std::uint32_t i = 0; function == Binary::Power && i < nb; ++i)
        scene.image.put(b + 4 * i, std::abs(scene.image.single(b, i)));
      const std::uint32_t out = seed % 4 == 2 ? a : seed == 3 ? b : scene.place(n * 4);
      const Invocation v{Code::Binary, {out, a, b, n, nb}, {f, reversed}, {0, 4, 4}};
      verify(scene, v, [&](Image& image) {
        const Image before = image;
        for (std::uint32_t i = 0; i < n; ++i) {
          const Real x = before.single(a, i), y = before.single(b, i % nb);
          image.put(out + 4 * i,
                    static_cast<float>(reversed == 1 ? expected(function, y, x) : expected(function, x, y)));
        }
      });
    }
}

TEST(Binary, InfinitiesAndNan) {
  Scene scene(1);
  const std::uint32_t a = scene.place(8), b = scene.place(8), out = scene.place(8);
  const auto of = [&](Binary function, float x, float y) {
    scene.image.put(a, x);
    scene.image.put(b, y);
    EXPECT_FALSE(run(scene.image, {Code::Binary, {out, a, b, 1, 1}, {word(function), 0}, {}}).f16_overflow);
    return scene.image.single(out);
  };
  EXPECT_EQ(of(Binary::Divide, -1, 0), -kInfinity);
  EXPECT_EQ(of(Binary::Multiply, 1e30F, 1e30F), kInfinity);
  EXPECT_EQ(of(Binary::Power, -2, 3), -8);
  EXPECT_TRUE(std::isnan(of(Binary::Divide, 0, 0)));
  EXPECT_TRUE(std::isnan(of(Binary::Maximum, kNan, 1)));
  EXPECT_TRUE(std::isnan(of(Binary::Minimum, 1, kNan)));
  EXPECT_TRUE(std::isnan(of(Binary::Subtract, kInfinity, kInfinity)));
}

TEST(Binary, Refuses) {
  Scene scene(1);
  const std::uint32_t a = scene.singles(24, 1), b = scene.singles(24, 1), out = scene.place(96);
  Invocation v{Code::Binary, {out, a, b, 24, 8}, {0, 0}, {}};
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  expect_refused(v, 3, 0, "zero");
  expect_refused(v, 4, 0, "zero");
  expect_refused(v, 4, 7, "multiple of nb");
  expect_refused(v, 4, 48, "multiple of nb");
  expect_refused(v, 0, b, "overlap");
  expect_refused(v, 0, a + 8, "overlap");
  expect_refused(v, 2, b + 4, "multiple of 8");
  v.spec = {numeric::kBinaryFunctions, 0};
  expect_refused(v, 0, out, "unknown function");
  v.spec = {0, 2};
  expect_refused(v, 0, out, "order of the operands");
}

TEST(Reduce, AscendingSumsMeansAndMaxima) {
  bool order_seen = false;
  for (unsigned seed = 0; seed < 30; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 14), width = seed < 3 ? 1 : scene.between(1, 90);
    const std::uint32_t in = scene.singles(rows * width, 3), out = scene.place(rows * 4);
    const auto function = static_cast<Reduction>(seed % numeric::kReductions);
    // A NaN behind the first element of a maximum is passed over.
    const std::uint32_t unit = function == Reduction::Maximum ? 0 : 4;
    const Invocation v{Code::Reduce, {out, in, rows, width}, {word(function)}, {0, unit}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r) {
        std::vector<float> x = row_of(image, in, r, width);
        const float y = function == Reduction::Sum    ? sum_of(x)
                        : function == Reduction::Mean ? mean_of(x)
                                                      : maximum_of(x);
        image.put(out + 4 * r, y);
        std::vector<float> back(x.rbegin(), x.rend());
        order_seen |= sum_of(back) != sum_of(x);
      }
    });
  }
  EXPECT_TRUE(order_seen) << "data blind to the order";
}

TEST(Reduce, MaximumOfNanAndZerosAndRefuses) {
  Scene scene(1);
  const std::uint32_t in = scene.place(48), out = scene.place(16);
  const float x[] = {kNan, 1, 2, 1, kNan, 3, -0.0F, 0.0F, -1, -kInfinity, -kInfinity, -kInfinity};
  for (std::uint32_t i = 0; i < 12; ++i) scene.image.put(in + 4 * i, x[i]);
  const Invocation v{Code::Reduce, {out, in, 4, 3}, {word(Reduction::Maximum)}, {}};
  run(scene.image, v);
  EXPECT_TRUE(std::isnan(scene.image.single(out, 0)));
  EXPECT_EQ(scene.image.single(out, 1), 3);
  EXPECT_EQ(scene.image.get<std::uint32_t>(out + 8), 0x80000000U) << "the first of two equal ones";
  EXPECT_EQ(scene.image.single(out, 3), -kInfinity);
  expect_refused(v, 2, 0, "zero");
  expect_refused(v, 3, 0, "zero");
  expect_refused(v, 0, in, "overlap");
  expect_refused(v, 1, in + 4, "multiple of 8");
  expect_refused(v, 3, 0xFFFFF, "leaves the memory");
  EXPECT_THAT(find(v.code)->validate(Invocation{Code::Reduce, v.m, {numeric::kReductions}, {}}.call()),
              ::testing::HasSubstr("unknown function"));
}

TEST(SoftmaxRows, IsTheFormula) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 14), width = seed == 0 ? 1 : scene.between(1, 120);
    const std::uint32_t in = scene.singles(rows * width, seed % 4 < 2 ? 2 : 40);
    if (width > 2) scene.image.put(in + 4, -kInfinity);  // a masked key
    const std::uint32_t out = seed % 2 == 0 ? in : scene.place(rows * width * 4);
    const Invocation v{Code::SoftmaxRows, {out, in, rows, width}, {}, {0, 4}};
    verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t r = 0; r < rows; ++r) {
        std::vector<float> e = row_of(before, in, r, width);
        const float m = maximum_of(e);
        for (float& x : e) x = static_cast<float>(std::exp(Real{fl(double{x} - double{m})}));
        const float s = sum_of(e);
        double total = 0;
        for (std::uint32_t i = 0; i < width; ++i) {
          const float y = fl(double{e[i]} / double{s});
          image.put(out + 4 * (r * width + i), y);
          total += double{y};
        }
        EXPECT_NEAR(total, 1, 1e-5);
      }
    });
  }
}

TEST(SoftmaxRows, Refuses) {
  Scene scene(1);
  const std::uint32_t in = scene.singles(30, 1), out = scene.place(120);
  const Invocation v{Code::SoftmaxRows, {out, in, 3, 10}, {}, {}};
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  expect_refused(v, 2, 0, "zero");
  expect_refused(v, 3, 0, "zero");
  expect_refused(v, 0, in + 8, "overlap");
  expect_refused(v, 0, out + 4, "multiple of 8");
}

TEST(NormRows, IsTheFormula) {
  bool steps_seen = false;
  for (unsigned seed = 0; seed < 16; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 14), width = seed == 0 ? 1 : scene.between(1, 120);
    const std::uint32_t x = scene.singles(rows * width, 2), scale = scene.singles(width, 1),
                        bias = scene.singles(width, 1);
    for (std::uint32_t i = 0; i < rows * width; ++i) scene.image.put(x + 4 * i, scene.image.single(x, i) + 5);
    const std::uint32_t out = seed % 2 == 0 ? x : scene.place(rows * width * 4);
    const float epsilon = seed % 3 == 0 ? 1e-6F : 0.5F;
    const Invocation v{Code::NormRows,
                       {out, x, scale, bias, rows, width},
                       {std::bit_cast<std::uint32_t>(epsilon)},
                       {0, 4, 4, 4}};
    verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t r = 0; r < rows; ++r) {
        std::vector<float> d = row_of(before, x, r, width), squares(width);
        const float mean = mean_of(d);
        for (std::uint32_t i = 0; i < width; ++i) {
          d[i] = fl(double{d[i]} - double{mean});
          squares[i] = fl(double{d[i]} * double{d[i]});
        }
        const Real shifted = fl(double{mean_of(squares)} + double{epsilon});
        const auto factor = static_cast<float>(1 / std::sqrt(shifted));
        for (std::uint32_t i = 0; i < width; ++i) {
          const float n = fl(double{d[i]} * double{factor});
          const float g = before.single(scale, i), b = before.single(bias, i);
          const float y = fl(double{fl(double{n} * double{g})} + double{b});
          steps_seen |= y != std::fma(n, g, b);
          image.put(out + 4 * (r * width + i), y);
        }
      }
    });
  }
  EXPECT_TRUE(steps_seen) << "data blind to contraction";
}

TEST(NormRows, Refuses) {
  Scene scene(1);
  const std::uint32_t x = scene.singles(30, 1), scale = scene.singles(10, 1), bias = scene.singles(10, 1);
  const std::uint32_t out = scene.place(120);
  Invocation v{Code::NormRows, {out, x, scale, bias, 3, 10}, {0}, {}};
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  expect_refused(v, 4, 0, "zero");
  expect_refused(v, 5, 0, "zero");
  expect_refused(v, 0, x + 8, "overlap");
  expect_refused(v, 2, out, "overlap");
  expect_refused(v, 3, out + 80, "overlap");
  expect_refused(v, 2, scale + 4, "multiple of 8");
  v.spec = {};
  expect_refused(v, 0, out, "specialisation words");
}

TEST(Rope, NeighboursAndHalves) {
  bool table_seen = false;
  for (unsigned seed = 0; seed < 24; ++seed) {
    Scene scene(seed);
    const std::uint32_t neighbours = seed % 2,
                        width = seed < 4 ? 2 + 4 * (seed / 2) : 2 * scene.between(1, 40);
    const std::uint32_t outer = scene.between(1, 4), rows = scene.between(1, 9), n = outer * rows * width;
    const std::uint32_t x = scene.halves(n, 3), cosine = scene.halves(rows * width, 0.7),
                        sine = scene.halves(rows * width, 0.7);
    const std::uint32_t out = seed % 3 == 0 ? x : scene.place(n * 2);
    const Invocation v{Code::Rope, {out, x, cosine, sine, outer, rows, width}, {neighbours}, {0, 2, 2, 2}};
    const Effects effects = verify(scene, v, [&](Image& image) {
      const Image before = image;
      for (std::uint32_t i = 0; i < n; ++i) {  // each result by itself: its partner and the sign of the sine
        const std::uint32_t c = i % width, t = i % (rows * width);
        const bool second = neighbours == 1 ? c % 2 == 1 : c >= width / 2;
        const std::uint32_t distance = neighbours == 1 ? 1 : width / 2;
        const double partner = before.half(x, second ? i - distance : i + distance);
        const double straight = double{before.half(x, i)} * before.half(cosine, t);
        const double crossed = partner * before.half(sine, t);
        image.put_half(out, i, fl(second ? straight + crossed : straight - crossed));
        table_seen |= second && before.half(sine, t) != before.half(sine, t - distance);
      }
    });
    EXPECT_FALSE(effects.f16_overflow);
  }
  EXPECT_TRUE(table_seen) << "data blind to the place in the tables";
}

TEST(Rope, TurnsByTheAngle) {
  Scene scene(1);
  const std::uint32_t x = scene.place(8), cosine = scene.place(8), sine = scene.place(8),
                      out = scene.place(8);
  for (std::uint32_t i = 0; i < 4; ++i) {
    scene.image.put_half(x, i, i + 1);
    scene.image.put_half(cosine, i, 0);
    scene.image.put_half(sine, i, 1);
  }
  const auto result = [&](std::uint32_t neighbours) {
    run(scene.image, {Code::Rope, {out, x, cosine, sine, 1, 1, 4}, {neighbours}, {}});
    return std::vector<float>{scene.image.half(out, 0), scene.image.half(out, 1), scene.image.half(out, 2),
                              scene.image.half(out, 3)};
  };
  EXPECT_EQ(result(1), (std::vector<float>{-2, 1, -4, 3}));
  EXPECT_EQ(result(0), (std::vector<float>{-3, -4, 1, 2}));
}

TEST(Rope, ReportsOverflowAndRefuses) {
  for (const std::uint32_t sign : {0U, 1U}) {  // in the first element of a pair, in the second
    Scene scene(1);
    const std::uint32_t x = scene.place(8), cosine = scene.place(8), sine = scene.place(8),
                        out = scene.place(8);
    for (std::uint32_t i = 0; i < 4; ++i) {
      scene.image.put_half(x, i, 40000);
      scene.image.put_half(cosine, i, 0.5);
      scene.image.put_half(sine, i, 0.5);
    }
    const Invocation v{Code::Rope, {out, x, cosine, sine, 1, 1, 4}, {1}, {}};
    EXPECT_FALSE(run(scene.image, v).f16_overflow);
    scene.image.put_half(cosine, 2 + sign, 1.5);
    scene.image.put_half(sine, 2 + sign, sign == 1 ? 0.5 : -0.5);
    EXPECT_TRUE(run(scene.image, v).f16_overflow);
    scene.image.put_half(x, 2, kInfinity);
    EXPECT_FALSE(run(scene.image, v).f16_overflow) << "an infinity that came in";
  }
  Scene scene(1);
  const std::uint32_t x = scene.halves(48, 1), cosine = scene.halves(24, 1), sine = scene.halves(24, 1);
  const std::uint32_t out = scene.place(96);
  Invocation v{Code::Rope, {out, x, cosine, sine, 2, 3, 8}, {0}, {}};
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  expect_refused(v, 4, 0, "zero");
  expect_refused(v, 5, 0, "zero");
  expect_refused(v, 6, 7, "multiple of 2");
  expect_refused(v, 0, x + 8, "overlap");
  expect_refused(v, 0, cosine, "overlap");
  expect_refused(v, 3, out + 80, "overlap");
  v.spec = {2};
  expect_refused(v, 0, out, "neither halves nor neighbours");
}

TEST(CastF16ToF32, IsExact) {
  for (const std::uint32_t n : {1U, 7U, 1024U, 1025U, 2051U}) {
    Scene scene(n);
    const std::uint32_t in = scene.halves(n, 50), out = scene.place(n * 4);
    scene.image.put<std::uint16_t>(in, 0x8001);  // the smallest subnormal
    const Invocation v{Code::CastF16ToF32, {out, in, n}, {}, {0, 2}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t bits = image.get<std::uint16_t>(in + 2 * i);
        const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        const double size =
            exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
        image.put(out + 4 * i, fl(bits & 0x8000 ? -size : size));
      }
    });
    expect_refused(v, 0, in, "overlap");
    expect_refused(v, 2, 0, "zero");
    expect_refused(v, 1, in + 2, "multiple of 8");
  }
}

std::uint64_t cycles(Code code, std::vector<std::uint32_t> m, std::vector<std::uint32_t> spec) {
  const Invocation v{code, std::move(m), std::move(spec), {}};
  return find(code)->cycles(v.call());
}

TEST(GeneralCost,
     Unary) {  // 330 + 6 * pairs of the busiest worker * bundles, worked by hand from docs/costs.md
  const auto unary = [](Unary f, std::uint32_t n, std::uint32_t format) {
    return cycles(Code::Unary, {0, 0, n}, {word(f), format});
  };
  EXPECT_EQ(unary(Unary::Relu, 1000, 1), 2346U);  // 500 pairs: 84 of 4 bundles
  EXPECT_EQ(unary(Unary::Relu, 1009, 1), 330U + 6 * 85 * 4);
  EXPECT_EQ(unary(Unary::GeluErf, 12, 1), 708U);
  EXPECT_EQ(unary(Unary::Sqrt, 12, 1), 330U + 6 * 13);
  EXPECT_EQ(unary(Unary::GeluTanh, 24, 1), 330U + 12 * 33);
  EXPECT_EQ(unary(Unary::Tanh, 96, 0), 666U);
  EXPECT_EQ(unary(Unary::Exp, 13, 0), 420U);
  EXPECT_EQ(unary(Unary::Silu, 24, 0), 558U);
}
TEST(GeneralCost, Binary) {
  const auto binary = [](Binary f, std::uint32_t nb) {
    return cycles(Code::Binary, {0, 0, 0, 24, nb}, {word(f), 0});
  };
  EXPECT_EQ(binary(Binary::Add, 24), 390U);
  EXPECT_EQ(binary(Binary::Maximum, 1), 378U);
  EXPECT_EQ(binary(Binary::Multiply, 8), 414U);
  EXPECT_EQ(binary(Binary::Subtract, 3), 498U);
  EXPECT_EQ(binary(Binary::Divide, 3), 594U);
  EXPECT_EQ(binary(Binary::Power, 24), 858U);
}
TEST(GeneralCost, Rows) {
  EXPECT_EQ(cycles(Code::Reduce, {0, 0, 7, 10}, {word(Reduction::Sum)}), 834U);
  EXPECT_EQ(cycles(Code::Reduce, {0, 0, 7, 10}, {word(Reduction::Mean)}), 894U);
  EXPECT_EQ(cycles(Code::Reduce, {0, 0, 7, 10}, {word(Reduction::Maximum)}), 834U);
  EXPECT_EQ(cycles(Code::SoftmaxRows, {0, 0, 7, 10}, {}), 2490U);
  EXPECT_EQ(cycles(Code::NormRows, {0, 0, 0, 0, 6, 64}, {0}), 7038U);
  EXPECT_EQ(cycles(Code::Rope, {0, 0, 0, 0, 2, 5, 8}, {0}), 1098U);
  EXPECT_EQ(cycles(Code::Rope, {0, 0, 0, 0, 2, 5, 8}, {1}), 1098U);
  EXPECT_EQ(cycles(Code::Rope, {0, 0, 0, 0, 2, 5, 6}, {0}), 1410U);
  EXPECT_EQ(cycles(Code::Rope, {0, 0, 0, 0, 2, 5, 6}, {1}), 942U);
  EXPECT_EQ(cycles(Code::CastF16ToF32, {0, 0, 100}, {}), 86U);
}
TEST(GeneralCost, NoMacs) {
  const Call call = Invocation{Code::Rope, {0, 0, 0, 0, 2, 5, 8}, {0}, {}}.call();
  for (const Code code : {Code::Unary, Code::Binary, Code::Reduce, Code::SoftmaxRows, Code::NormRows,
                          Code::Rope, Code::CastF16ToF32}) {
    EXPECT_EQ(macs(code, call), 0U);
    EXPECT_EQ(peak_macs(code), 0U);
  }
}

}  // namespace
}  // namespace tw::kernel::test
