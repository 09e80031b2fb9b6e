#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support.h"

namespace tw::plan {
namespace {

using namespace test;

// decisions.md 2 for one output element: k of one part, `physical` long, from value `start`.
float one_output(const std::function<float(std::size_t)>& x, const std::function<float(std::size_t)>& w,
                 std::size_t k, std::size_t physical, std::size_t group, float start) {
  float a = start;
  for (std::size_t i = 0; i < physical; ++i) {
    a = std::fma(i < k ? x(i) : 0.0F, i < k ? w(i) : 0.0F, a);
    if (i % group == group - 1) a = f16(a);
  }
  return a;
}

struct Case {
  std::uint32_t streams, rows, inner, cols, parts;
  int scale;  // F8 scale; 1: F16
  bool transposed, accumulate;
};

void check(const Case& c) {
  const bool half = c.scale == 1;
  const tensor::Encoding encoding{half ? Precision::F16 : Precision::F8, half ? 0 : c.scale};
  const std::uint32_t group = half ? 16 : 32;
  Maker m;
  const std::uint32_t local = (c.inner + c.parts * group - 1) / (c.parts * group) * group;
  const TensorId left =
      m.input("left", {c.streams, c.rows, c.inner}, 1.0F, {tiling(2, c.parts, local)}, encoding);
  Shape right_shape = c.transposed ? Shape{c.cols, c.inner} : Shape{c.inner, c.cols};
  if (c.streams > 1) right_shape.insert(right_shape.begin(), c.streams);
  const TensorId right = m.input("right", right_shape, 1.0F, {}, encoding);
  Shape out_shape{c.streams, c.rows, c.cols};
  if (c.parts > 1) out_shape.insert(out_shape.begin(), c.parts);
  TensorId out;
  if (c.accumulate) {
    out = m.input("out", out_shape, 30.0F);
    m.plan.outputs.push_back(out);
  } else {
    out = m.output(out_shape);
  }
  Product product{left, right, out};
  product.k_parts = c.parts;
  product.right_transposed = c.transposed;
  product.accumulate = c.accumulate;
  m.step(product);
  Values expected;
  const Values &x = m.data["left"], &w = m.data["right"];
  for (std::size_t p = 0; p < c.parts; ++p)
    for (std::size_t s = 0; s < c.streams; ++s)
      for (std::size_t r = 0; r < c.rows; ++r)
        for (std::size_t n = 0; n < c.cols; ++n) {
          const std::size_t first = p * local, k = std::min<std::size_t>(local, c.inner - first);
          const auto at_x = [&](std::size_t i) { return x[(s * c.rows + r) * c.inner + first + i]; };
          const auto at_w = [&](std::size_t i) {
            return c.transposed ? w[(s * c.cols + n) * c.inner + first + i]
                                : w[(s * c.inner + first + i) * c.cols + n];
          };
          const float start = c.accumulate ? m.data["out"][expected.size()] : 0.0F;
          expected.push_back(one_output(at_x, at_w, k, local, group, start));
        }
  expect_same_bits(m.run(1)[0], expected);
  expect_same_bits(m.run(3)[0], expected);
}

TEST(Product, EqualsTheScalarRule) {
  check({1, 1, 32, 1, 1, -4, false, false});
  check({1, 7, 96, 65, 1, -4, false, false});
  check({1, 131, 588, 144, 1, -4, false, false});
  check({1, 6, 588, 70, 3, -4, false, false});
  check({1, 5, 300, 130, 4, 2, false, false});
  check({1, 9, 590, 17, 1, 1, false, false});
  check({1, 9, 590, 17, 5, 1, false, false});
  check({1, 5, 100, 20, 1, 1, false, true});
  check({1, 5, 100, 20, 2, -4, false, true});
}

TEST(Product, EqualsTheScalarRuleForBatches) {
  check({3, 9, 72, 29, 1, 1, true, false});   // queries times keys
  check({3, 9, 29, 72, 1, 1, false, false});  // weights times values
  check({3, 9, 72, 29, 1, -4, true, false});
  check({3, 5, 200, 33, 4, 1, false, false});
}

// models.md A.3: a group of padding alone turns the -0 of an underflow into +0; without padding it stays.
TEST(Product, PaddingTakesPart) {
  for (const auto& [block, expected] :
       std::vector<std::pair<std::uint32_t, float>>{{16, -0.0F}, {32, 0.0F}}) {
    Maker m;
    const TensorId left = m.input("left", {1, 16}, 1.0F, {tiling(1, 1, block)});
    const TensorId right = m.input("right", {16, 1});
    m.data["left"].assign(16, 0.0F);
    m.data["right"].assign(16, 0.0F);
    m.data["left"][0] = -0x1p-13F;
    m.data["right"][0] = 0x1p-13F;
    m.step(Product{left, right, m.output({1, 1})});
    EXPECT_EQ(bits(m.run()[0][0]), bits(expected)) << block;
  }
}

// 2048 + 1 is a tie that goes to 2048 in each group; without the rounding between the groups 2050 survives.
TEST(Product, TheTestSwitchDropsTheRoundingOfOneOperation) {
  Maker m;
  const TensorId left = m.input("left", {1, 32}, 1.0F, {tiling(1, 1, 32)});
  const TensorId right = m.input("right", {32, 1});
  m.data["left"].assign(32, 0.0F);
  m.data["right"].assign(32, 1.0F);
  m.data["left"][0] = 2048;
  m.data["left"][15] = m.data["left"][16] = 1;
  m.step(Product{left, right, m.output({1, 1})}, "first");
  m.step(Product{left, right, m.output({1, 1})}, "second");
  EXPECT_EQ(m.run()[0][0], 2048.0F);
  EXPECT_EQ(m.run(2, "second")[0][0], 2048.0F);
  EXPECT_EQ(m.run(2, "second")[1][0], 2050.0F);
  EXPECT_EQ(m.run(2, "sec")[1][0], 2048.0F);
}

// The order of k matters in FP32: 2^24 + 1 - 2^24 is 0 ascending, 1 in another order.
TEST(Product, AddsInAscendingOrder) {
  Maker m;
  const TensorId left = m.input("left", {1, 16}, 1.0F, {tiling(1, 1, 16)});
  const TensorId right = m.input("right", {16, 2});
  m.data["left"].assign(16, 0.0F);
  m.data["right"].assign(32, 0.0F);
  m.data["left"][2] = m.data["left"][9] = 4096;
  m.data["left"][5] = 1;
  m.data["right"][4] = 4096, m.data["right"][10] = 1, m.data["right"][18] = -4096;
  m.data["right"][5] = 4096, m.data["right"][11] = 2, m.data["right"][19] = -4096;
  m.step(Product{left, right, m.output({1, 2})});
  EXPECT_EQ(m.run()[0], (Values{0, 2}));
}

TEST(Product, OverflowIsADeviceFault) {
  Maker m;
  const TensorId left = m.input("left", {1, 16}, 1.0F, {tiling(1, 1, 16)});
  const TensorId right = m.input("right", {16, 1});
  m.data["left"].assign(16, 64.0F);
  m.data["right"].assign(16, 64.0F);
  m.step(Product{left, right, m.output({1, 1})}, "vit.product");
  try {
    m.run();
    FAIL() << "65536 passed as F16";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::DeviceFault);
    EXPECT_NE(std::string(error.what()).find("vit.product"), std::string::npos);
  }
}

TEST(Sum, AddsPartsAscendingWithOneRoundingEach) {
  Maker m;
  const TensorId partials = m.input("partials", {5, 7, 9}, 100.0F);
  m.data["partials"][0] = 2048, m.data["partials"][63] = 1, m.data["partials"][126] = 1,
  m.data["partials"][189] = 0, m.data["partials"][252] = 0;
  m.step(Sum{partials, m.output({7, 9})});
  Values expected;
  for (std::size_t i = 0; i < 63; ++i) {
    float total = m.data["partials"][i];
    for (std::size_t p = 1; p < 5; ++p) total = f16(total + m.data["partials"][p * 63 + i]);
    expected.push_back(total);
  }
  EXPECT_EQ(expected[0], 2048.0F);
  expect_same_bits(m.run()[0], expected);
}

}  // namespace
}  // namespace tw::plan
