// The kinds of values of users.md section 7 on the simulated device: zeros, equal scores, rows of no
// variance, outliers, subnormal numbers, and F16 overflow, which is a fault that says where.
#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "encoder.h"

namespace tw::device_test {
namespace {

using graph::Builder;
using plan::Attention;
using tensor::Precision;

compile::Options options(Precision precision = Precision::F16, Attention attention = Attention::Auto) {
  compile::Options o;
  o.plan.tiles = 24;
  o.plan.precision = precision;
  o.plan.attention = attention;
  return o;
}

Case encoder(const Extents& e, const compile::Options& o) {
  Case c{.graph = Encoder(e).build(), .options = o};
  c.data = trained_like(c.graph);
  return c;
}

// Even and odd extents take different kernels.
const Extents kEven{.tokens = 9}, kOdd{.tokens = 9, .width = 37, .heads = 3, .head_width = 11, .hidden = 41};

void set(Case& c, const std::string& name, const std::function<float(std::size_t)>& value) {
  for (const graph::Value& v : c.graph.values) {
    if (v.name != name) continue;
    Values& values = c.data[name];
    values.resize(tensor::elements(v.shape));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(i);
    return;
  }
  FAIL() << "no value " << name;
}

TEST(Values, EverythingZeroGivesZero) {
  for (const Precision precision : {Precision::F16, Precision::F8})
    for (const Extents& e : {kEven, kOdd}) {
      Case c = encoder(e, options(precision));
      for (const graph::Value& v : c.graph.values)
        if (v.kind != graph::ValueKind::Result) c.data[v.name] = Values(tensor::elements(v.shape), 0.0F);
      const Outcome out = run(std::move(c));
      EXPECT_TRUE(out.bits);
      ASSERT_EQ(out.simulated.size(), 1U);
      for (const float x : out.simulated[0]) EXPECT_EQ(x, 0.0F);
    }
}

TEST(Values, ZeroInputs) {
  for (const Extents& e : {kEven, kOdd}) {
    Case c = encoder(e, options());
    set(c, "patches", [](std::size_t) { return 0.0F; });
    const Outcome out = run(std::move(c));
    EXPECT_TRUE(out.bits);
    EXPECT_GT(out.cosine, 0.999);
  }
}

// Queries of zero: every score is zero, attention is the mean of the values.
TEST(Values, EqualScores) {
  for (const Attention attention : {Attention::Auto, Attention::Streaming, Attention::Materialized})
    for (const std::uint32_t tokens : {3U, 9U, 65U})
      for (const std::uint32_t width : {7U, 8U}) {
        Builder b("scores");
        const ValueId q = b.host("q", {2, tokens, width}), k = b.host("k", {2, tokens, width}),
                      v = b.host("v", {2, tokens, width});
        Case c{.graph = b.finish({b.attention("attention", q, k, v, 0.5F)}),
               .options = options(Precision::F16, attention)};
        set(c, "q", [](std::size_t) { return 0.0F; });
        draw(c);
        const Values values = c.data.at("v");
        const Outcome out = run(std::move(c));
        EXPECT_TRUE(out.bits);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t stream = i / (tokens * width), column = i % width;
          double mean = 0;
          for (std::size_t t = 0; t < tokens; ++t) mean += values[(stream * tokens + t) * width + column];
          EXPECT_NEAR(out.simulated[0][i], mean / tokens, 2e-3) << i;
        }
      }
}

// x - mean(x) is zero: the result is the bias, whatever epsilon and scale are.
TEST(Values, RowsWithoutVariance) {
  for (const std::uint32_t width : {1U, 2U, 37U, 64U, 99U, 144U}) {
    SCOPED_TRACE(width);
    Builder b("flat");
    const ValueId x = b.host("x", {5, width});
    const ValueId y =
        b.layer_norm("norm", x, b.parameter("scale", {width}), b.parameter("bias", {width}), 1e-6F);
    Case c{.graph = b.finish({y}), .options = options()};
    set(c, "x", [&](std::size_t i) { return static_cast<float>(i / width) - 2.0F; });
    draw(c);
    const Values bias = c.data.at("bias");
    const Outcome out = run(std::move(c));
    EXPECT_TRUE(out.bits);
    for (std::size_t i = 0; i < out.simulated.at(0).size(); ++i)
      EXPECT_NEAR(out.simulated[0][i], bias[i % width], 1e-3) << i;
  }
}

TEST(Values, OneOutlierAmongThem) {
  for (const float outlier : {300.0F, 6000.0F})
    for (const Extents& e : {kEven, kOdd}) {
      Case c = encoder(e, options());
      draw(c);
      c.data.at("patches")[7] = outlier;
      const Outcome out = run(std::move(c));
      EXPECT_TRUE(out.bits);
      EXPECT_GT(out.cosine, 0.999);
    }
}

// The smallest numbers of F16 are kept, not flushed: sums and identity products are exact.
TEST(Values, SubnormalNumbers) {
  constexpr float kLeast = 0x1p-24F;
  for (const std::uint32_t width : {7U, 8U}) {
    Builder b("small");
    const ValueId x = b.host("x", {4, width});
    Case c{.graph = b.finish({b.gemm("identity", b.add("twice", x, x), b.parameter("w", {width, width}))}),
           .options = options()};
    set(c, "x", [](std::size_t i) { return kLeast * static_cast<float>(i + 1); });
    set(c, "w", [&](std::size_t i) { return i / width == i % width ? 1.0F : 0.0F; });
    const Outcome out = run(std::move(c));
    EXPECT_TRUE(out.bits);
    for (std::size_t i = 0; i < out.simulated.at(0).size(); ++i)
      EXPECT_EQ(out.simulated[0][i], 2 * kLeast * static_cast<float>(i + 1));
  }
}

struct Faults {
  std::string device, exact;  // empty: none
};
Faults faults_of(Case c) {
  draw(c);
  Progress quiet;
  const auto host = [&](const std::string& name) -> const Values& { return c.data.at(name); };
  const compile::Result built = compile::compile(c600(), c.graph, c.options, quiet);
  Faults faults;
  const sim::CallResult call = call_once(built, host);
  if (call.fault) {
    EXPECT_EQ(call.fault->kind, sim::FaultKind::F16Overflow);
    faults.device = call.fault->what;
  }
  try {
    plan::run_exact(built.plan, host, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::DeviceFault);
    faults.exact = error.what();
  }
  return faults;
}

Case squares(std::uint32_t width, float value) {  // every element of the product is width * value^2
  Builder b("overflow");
  const ValueId x = b.host("x", {4, width});
  Case c{.graph = b.finish({b.gemm("product", x, b.parameter("w", {width, width}))}), .options = options()};
  for (const char* name : {"x", "w"}) set(c, name, [&](std::size_t) { return value; });
  return c;
}

// 65504 is the largest number of F16; from 65520 on, rounding leaves its range.
TEST(Values, OverflowOfAProductIsAFaultWithAName) {
  for (const std::uint32_t width : {16U, 17U, 64U}) {
    SCOPED_TRACE(width);
    const float below = std::floor(std::sqrt(65000.0F / static_cast<float>(width)));
    const Faults fits = faults_of(squares(width, below)), leaves = faults_of(squares(width, below + 2));
    ASSERT_GE(static_cast<double>(width) * (below + 2) * (below + 2), 65520.0);
    EXPECT_EQ(fits.device, "");
    EXPECT_EQ(fits.exact, "");
    EXPECT_TRUE(leaves.device.ends_with("exceeds the F16 range"))
        << leaves.device;  // after the kernel's name
    EXPECT_NE(leaves.exact.find("F16 overflow in product"), std::string::npos) << leaves.exact;
    fmt::print("width {}: device \"{}\", exact \"{}\"\n", width, leaves.device, leaves.exact);
  }
}

TEST(Values, OverflowOfASumIsAFaultWithAName) {
  Builder b("overflow");
  const ValueId x = b.host("x", {4, 8}), y = b.host("y", {4, 8});
  Case c{.graph = b.finish({b.add("sum", x, y)}), .options = options()};
  for (const char* name : {"x", "y"}) set(c, name, [](std::size_t i) { return i == 13 ? 40000.0F : 1.0F; });
  const Faults faults = faults_of(c);
  EXPECT_TRUE(faults.device.starts_with("Add: ") && faults.device.ends_with("exceeds the F16 range"))
      << faults.device;
  EXPECT_NE(faults.exact.find("F16 overflow in sum"), std::string::npos) << faults.exact;
  fmt::print("sum: device \"{}\", exact \"{}\"\n", faults.device, faults.exact);
}

}  // namespace
}  // namespace tw::device_test
