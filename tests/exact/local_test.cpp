#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support.h"

namespace tw::plan {
namespace {

using namespace test;

Local local(LocalKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
  Local l;
  l.kind = kind;
  l.inputs = std::move(inputs);
  l.outputs = std::move(outputs);
  return l;
}
float correct_tanh(float x) {
  return numeric::f16_to_f32(numeric::f64_to_f16(std::tanh(static_cast<double>(x))));
}
float correct_exp(float x) {
  return numeric::f16_to_f32(numeric::f64_to_f16(std::exp(static_cast<double>(x))));
}

// models.md A.4 with the clamped working copy of decisions.md 7.
float gelu_by_steps(float x) {
  const float w = std::fmin(8.0F, std::fmax(-8.0F, x));
  const float a = numeric::f16_to_f32(0x3a62), b = numeric::f16_to_f32(0x29b9);
  float t = f16(w * w);
  t = f16(t * w);
  t = f16(b * t);
  t = f16(w + t);
  t = f16(a * t);
  t = correct_tanh(t);
  t = f16(1 + t);
  t = f16(0.5F * t);
  return f16(x * t);
}

Values every_half() {
  Values all;
  for (std::uint32_t h = 0; h < 65536; ++h)
    if (numeric::f16_is_finite(static_cast<std::uint16_t>(h)))
      all.push_back(numeric::f16_to_f32(static_cast<std::uint16_t>(h)));
  return all;
}

TEST(Gelu, FollowsTheChainForEveryHalf) {
  Maker m;
  const Values all = every_half();
  const TensorId x = m.input("x", {1, static_cast<std::uint32_t>(all.size())});
  m.data["x"] = all;
  m.step(local(LocalKind::Gelu, {x}, {m.output({1, static_cast<std::uint32_t>(all.size())})}));
  Values expected;
  for (float v : all) expected.push_back(gelu_by_steps(v));
  const Values actual = m.run()[0];
  expect_same_bits(actual, expected);
  // models.md A.4: 0.0020131 is the largest error of the chain.
  double worst = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double v = all[i],
                 exact = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    if (std::abs(v) < 8) worst = std::max(worst, std::abs(exact - static_cast<double>(actual[i])));
  }
  EXPECT_NEAR(worst, 0.0020131, 1e-6);
}

TEST(Gelu, PublishedValues) {
  Maker m;
  const TensorId x = m.input("x", {1, 5});
  m.data["x"] = {-3, -1, 0.5F, 1, 3};
  m.step(local(LocalKind::Gelu, {x}, {m.output({1, 5})}));
  const Values actual = m.run()[0];
  const Values expected{-0.003662F, -0.158936F, 0.345703F, 0.840820F, 2.996094F};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(actual[i], expected[i], 5e-7);
}

TEST(BiasGelu, FusesTheMixAndKeepsThePlainChainInTheTail) {
  Maker m;
  const std::uint32_t width = 23;
  const TensorId x = m.input("x", {40, width}, 3.0F), bias = m.input("bias", {1, 1, width});
  m.step(local(LocalKind::BiasGelu, {x, bias}, {m.output({40, width})}));
  Values expected;
  std::size_t different = 0;
  for (std::size_t i = 0; i < 40 * width; ++i) {
    const float z = f16(m.data["x"][i] + m.data["bias"][i % width]);
    const float w = std::fmin(8.0F, std::fmax(-8.0F, z)), c = f16(f16(w * w) * w);
    const double mix = static_cast<double>(numeric::f16_to_f32(0x2891)) * c +
                       static_cast<double>(numeric::f16_to_f32(0x3a62)) * w;
    const float u = f16(static_cast<float>(mix));
    const float fused = f16(z * f16(0.5F * f16(1 + correct_tanh(u))));
    different += fused != gelu_by_steps(z);
    expected.push_back(i % width < 20 ? fused : gelu_by_steps(z));
  }
  EXPECT_GT(different, 10U);
  expect_same_bits(m.run()[0], expected);
}

// decisions.md 5, worker by worker.
float device_sum(const std::vector<float>& terms) {
  const std::size_t whole = terms.size() / 8 * 8;
  float total = 0;
  for (std::size_t worker = 0; worker < 6; ++worker) {
    float subtotal = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      float sum = 0;
      for (std::size_t i = worker * 8 + lane; i < whole; i += 48) sum = sum + terms[i];
      subtotal = subtotal + sum;
    }
    total = total + subtotal;
  }
  for (std::size_t i = whole; i < terms.size(); ++i) total = total + terms[i];
  return total;
}
std::pair<float, float> device_moments(const std::vector<float>& row) {
  const auto n = static_cast<float>(row.size());
  const float mean = device_sum(row) / n;
  std::vector<float> squares;
  for (float v : row) {
    const float d = v - mean;
    squares.push_back(d * d);
  }
  return {mean, device_sum(squares) / n};
}
float device_normalised(float x, float mean, float variance, float epsilon, float gamma, float beta,
                        bool aligned) {
  const float biased = variance + epsilon;
  const auto r = static_cast<float>(1.0 / std::sqrt(static_cast<double>(biased)));
  const float d = x - mean, n = d * r;
  if (aligned) return f16(f16(f16(n) * gamma) + beta);
  const float scaled = n * gamma;
  return f16(scaled + beta);
}

TEST(LayerNorm, FollowsTheDeviceOrder) {
  for (std::uint32_t width : {3U, 8U, 50U, 52U, 72U, 1152U, 1157U}) {
    Maker m;
    const TensorId x = m.input("x", {2, 5, width}, 2.0F);
    const TensorId scale = m.input("scale", {1, 1, width}), bias = m.input("bias", {1, 1, width});
    Local l = local(LocalKind::LayerNorm, {x, scale, bias}, {m.output({2, 5, width})});
    l.epsilon = 1e-6F;
    m.step(l);
    Values expected;
    for (std::size_t r = 0; r < 10; ++r) {
      const std::vector<float> row(m.data["x"].begin() + static_cast<std::ptrdiff_t>(r * width),
                                   m.data["x"].begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
      const auto [mean, variance] = device_moments(row);
      for (std::size_t i = 0; i < width; ++i)
        expected.push_back(device_normalised(row[i], mean, variance, 1e-6F, m.data["scale"][i],
                                             m.data["bias"][i], width % 4 == 0));
    }
    expect_same_bits(m.run()[0], expected);
  }
}

TEST(LayerNorm, DistributedStatisticsCombineThePartsInOrder) {
  Maker m;
  const std::uint32_t width = 96, parts = 4, part = 24;
  const TensorId x = m.input("x", {3, width}, 2.0F, {tiling(1, parts, part)});
  const TensorId scale = m.input("scale", {width}), bias = m.input("bias", {width});
  const TensorId statistics = m.output({parts, 3, 2}, kF32);
  m.step(local(LocalKind::Moments, {x}, {statistics}));
  Local l = local(LocalKind::Apply, {x, statistics, scale, bias}, {m.output({3, width})});
  l.epsilon = 1e-6F;
  m.step(l);
  Values moments(parts * 3 * 2), expected;
  for (std::size_t r = 0; r < 3; ++r) {
    std::vector<std::pair<float, float>> all;
    for (std::size_t p = 0; p < parts; ++p) {
      const auto first = m.data["x"].begin() + static_cast<std::ptrdiff_t>(r * width + p * part);
      all.push_back(device_moments({first, first + part}));
      moments[(p * 3 + r) * 2] = all.back().first;
      moments[(p * 3 + r) * 2 + 1] = all.back().second;
    }
    float mean = all[0].first;
    for (std::size_t p = 1; p < parts; ++p) mean = mean + all[p].first;
    mean = mean / 4.0F;
    float variance = 0;
    for (const auto& [part_mean, part_variance] : all) {
      const float d = part_mean - mean, square = d * d, one = part_variance + square;
      variance = variance + one;
    }
    variance = variance / 4.0F;
    for (std::size_t i = 0; i < width; ++i)
      expected.push_back(device_normalised(m.data["x"][r * width + i], mean, variance, 1e-6F,
                                           m.data["scale"][i], m.data["bias"][i], true));
  }
  const auto actual = m.run();
  expect_same_bits(actual[0], moments);
  expect_same_bits(actual[1], expected);
}

// decisions.md 6 for one row; runs: 1 whole, 3 split.
struct SoftmaxRow {
  Values weights;
  float maximum, denominator;
};
SoftmaxRow softmax_by_steps(const Values& scores, std::size_t padded, float scale, std::size_t runs) {
  const float hs = f16(scale);
  float largest = scores[0];
  for (float s : scores) largest = std::fmax(largest, s);
  SoftmaxRow row;
  for (float s : scores) {
    const double difference = static_cast<double>(hs) * s - static_cast<double>(hs) * largest;
    row.weights.push_back(correct_exp(f16(static_cast<float>(difference))));
  }
  row.maximum = hs * largest;
  const std::size_t panels = padded / 16, m = (panels + runs - 1) / runs;
  row.denominator = 0;
  for (std::size_t run = 0; run < runs; ++run) {
    float total = 0;
    for (std::size_t panel = run * m; panel < (run + 1) * m && panel < panels; ++panel) {
      float even = 0, odd = 0;
      for (std::size_t k = panel * 16; k < panel * 16 + 16 && k < scores.size(); k += 2)
        even = f16(even + row.weights[k]);
      for (std::size_t k = panel * 16 + 1; k < panel * 16 + 16 && k < scores.size(); k += 2)
        odd = f16(odd + row.weights[k]);
      const float both = even + odd;
      total = total + both;
    }
    row.denominator = row.denominator + total;
  }
  return row;
}

TEST(Softmax, FollowsThePanelsWholeAndSplit) {
  std::size_t different = 0;
  for (const auto& [keys, padded] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {5, 16}, {25, 64}, {64, 64}, {577, 640}, {729, 768}})
    for (bool split : {false, true}) {
      Maker m;
      const TensorId scores =
          m.input("scores", {2, 3, keys}, keys > 100 ? 40.0F : 9.0F, {tiling(2, 1, padded)});
      const TensorId weights = m.output({2, 3, keys}), state = m.output({2, 2, 3}, kF32);
      Local l = local(LocalKind::Softmax, {scores}, {weights, state});
      l.scale = 0.11785113F;
      l.split = split;
      m.step(l);
      Values expected, expected_state(12);
      for (std::size_t r = 0; r < 6; ++r) {
        const auto first = m.data["scores"].begin() + static_cast<std::ptrdiff_t>(r * keys);
        const Values row(first, first + keys);
        const SoftmaxRow result = softmax_by_steps(row, padded, 0.11785113F, split ? 3 : 1);
        different += split && result.denominator != softmax_by_steps(row, padded, 0.11785113F, 1).denominator;
        expected.insert(expected.end(), result.weights.begin(), result.weights.end());
        expected_state[r] = result.maximum;
        expected_state[6 + r] = result.denominator;
      }
      const auto actual = m.run();
      expect_same_bits(actual[0], expected);
      expect_same_bits(actual[1], expected_state);
    }
  EXPECT_GT(different, 0U);  // the mode changes bits, so the test sees it
}

TEST(Merge, OneBlockIsAProductWithTheReciprocal) {
  Maker m;
  const TensorId pv = m.input("pv", {2, 3, 10}, 20.0F), state = m.input("state", {2, 2, 3}, 1.0F, {}, kF32);
  for (std::size_t i = 6; i < 12; ++i) m.data["state"][i] = 3.0F + static_cast<float>(i);
  m.step(local(LocalKind::Merge, {pv, state}, {m.output({2, 3, 10})}));
  Values expected;
  for (std::size_t i = 0; i < 60; ++i) {
    const auto r = static_cast<float>(1.0 / static_cast<double>(m.data["state"][6 + i / 10]));
    expected.push_back(f16(m.data["pv"][i] * r));
  }
  expect_same_bits(m.run()[0], expected);
}

// Three key blocks; maxima in both orders, so that either side is the one scaled down.
TEST(Merge, OnlineBlocksKeepMaximumAndSumBehindTheRow) {
  Maker m;
  const std::uint32_t rows = 4, width = 6;
  std::vector<TensorId> pv, state;
  for (int b = 0; b < 3; ++b) {
    pv.push_back(m.input(fmt::format("pv{}", b), {1, rows, width}, 20.0F));
    state.push_back(m.input(fmt::format("state{}", b), {2, 1, rows}, 2.0F, {}, kF32));
    for (std::size_t i = rows; i < 2 * rows; ++i)
      m.data[fmt::format("state{}", b)][i] = 2.0F + static_cast<float>(i);
  }
  const TensorId first = m.output({1, rows, width + 2}, kF32), second = m.output({1, rows, width + 2}, kF32);
  Local l = local(LocalKind::Merge, {pv[0], state[0]}, {first});
  l.final = false;
  m.step(l);
  l = local(LocalKind::Merge, {pv[1], state[1], first}, {second});
  l.initial = l.final = false;
  m.step(l);
  l = local(LocalKind::Merge, {pv[2], state[2], second}, {m.output({1, rows, width})});
  l.initial = false;
  m.step(l);

  const auto e = [](float x) { return static_cast<float>(std::exp(static_cast<double>(x))); };
  Values expected_first, expected_second, expected;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto block = [&](int b) { return &m.data[fmt::format("pv{}", b)][r * width]; };
    const auto top = [&](int b) { return m.data[fmt::format("state{}", b)][r]; };
    const auto sum = [&](int b) { return m.data[fmt::format("state{}", b)][rows + r]; };
    expected_first.insert(expected_first.end(), block(0), block(0) + width);
    expected_first.insert(expected_first.end(), {top(0), sum(0)});
    const float m1 = std::fmax(top(0), top(1)), a1 = e(top(0) - m1), b1 = e(top(1) - m1);
    const float l1a = sum(0) * a1, l1b = sum(1) * b1, l1 = l1a + l1b;
    std::vector<float> acc;
    for (std::size_t i = 0; i < width; ++i) {
      const float x = block(0)[i] * a1, y = block(1)[i] * b1;
      acc.push_back(x + y);
    }
    expected_second.insert(expected_second.end(), acc.begin(), acc.end());
    expected_second.insert(expected_second.end(), {m1, l1});
    const float m2 = std::fmax(m1, top(2)), a2 = e(m1 - m2), b2 = e(top(2) - m2);
    const float l2a = l1 * a2, l2b = sum(2) * b2, l2 = l2a + l2b;
    const auto reciprocal = static_cast<float>(1.0 / static_cast<double>(l2));
    const float a3 = a2 * reciprocal, b3 = b2 * reciprocal;
    for (std::size_t i = 0; i < width; ++i) {
      const float x = acc[i] * a3, y = block(2)[i] * b3;
      expected.push_back(f16(x + y));
    }
  }
  const auto actual = m.run();
  expect_same_bits(actual[0], expected_first);
  expect_same_bits(actual[1], expected_second);
  expect_same_bits(actual[2], expected);
}

TEST(Add, RepeatsTheSuffixAndRoundsOnce) {
  Maker m;
  const TensorId a = m.input("a", {3, 4, 5}, 100.0F), b = m.input("b", {1, 4, 5}, 0.1F);
  m.step(local(LocalKind::Add, {a, b}, {m.output({3, 4, 5})}));
  Values expected;
  for (std::size_t i = 0; i < 60; ++i) expected.push_back(f16(m.data["a"][i] + m.data["b"][i % 20]));
  expect_same_bits(m.run()[0], expected);
}

TEST(Add, OverflowIsADeviceFault) {
  Maker m;
  const TensorId a = m.input("a", {1, 2});
  m.data["a"] = {65504, 1};
  m.step(local(LocalKind::Add, {a, a}, {m.output({1, 2})}));
  EXPECT_THROW(m.run(), Error);
}

TEST(Cast, SaturatesToEightBits) {
  Maker m;
  const TensorId x = m.input("x", {2, 50}, 8.0F);
  m.data["x"][0] = 15.5F, m.data["x"][1] = 14.5F, m.data["x"][2] = -1000, m.data["x"][3] = -0x1p-20F;
  m.step(local(LocalKind::Cast, {x}, {m.output({2, 50}, {Precision::F8, -4})}));
  Values expected;
  for (float v : m.data["x"]) expected.push_back(f8(v, -4));
  EXPECT_EQ(expected[0], 15.0F);  // models.md A.1.4
  EXPECT_EQ(expected[1], 14.0F);
  EXPECT_EQ(expected[2], -15.0F);
  expect_same_bits(m.run()[0], expected);
}

}  // namespace
}  // namespace tw::plan
