#include <array>

#include "support.h"

namespace tw::kernel::test {
namespace {

std::uint64_t left(std::uint32_t r, std::uint32_t c, std::uint32_t rows) {
  return (c / 16 * std::uint64_t{rows} + r) * 16 + c % 16;
}

// decisions.md 6 for one row, keys as doubles; returns weights and sets maximum and denominator.
struct Soft {
  std::vector<double> weights;
  float maximum = 0, denominator = 0;
  std::vector<float> maxima, sums;
};
Soft softmax(const std::vector<double>& s, std::uint32_t padded, double scale, bool split) {
  Soft out;
  const double top = *std::ranges::max_element(s);
  for (const double x : s) {
    const auto difference = static_cast<float>(scale * x - scale * top);
    out.weights.push_back(to16(std::exp(double{to16(double{difference})})));
  }
  out.maximum = static_cast<float>(top * scale);
  const std::uint32_t panels = padded / 16, per_run = split ? (panels + 2) / 3 : panels;
  for (std::uint32_t run = 0; run * per_run < panels || (split && run < 3); ++run) {
    float total = 0, best = -std::numeric_limits<float>::infinity();
    for (std::uint32_t p = run * per_run; p < std::min((run + 1) * per_run, panels); ++p) {
      double lane[2] = {0, 0};
      for (std::uint32_t k = p * 16; k < std::min<std::size_t>(p * 16 + 16, s.size()); ++k) {
        lane[k % 2] = to16(lane[k % 2] + out.weights[k]);
        best = std::max(best, static_cast<float>(s[k]));
      }
      const auto sum = static_cast<float>(lane[0] + lane[1]);
      if (p * 16 < s.size()) total = total + sum;
    }
    out.maxima.push_back(best);
    out.sums.push_back(total);
    out.denominator = out.denominator + total;
  }
  return out;
}

void check_softmax(unsigned seed, std::uint32_t rows, std::uint32_t keys, std::uint32_t padded, bool split) {
  SCOPED_TRACE(::testing::Message() << rows << " " << keys << " " << padded << " " << split);
  Scene scene(seed);
  const std::uint32_t n = rows * padded, scores = scene.halves(n, seed % 2 == 0 ? 20 : 60),
                      state = scene.place(rows * 8);
  const std::uint32_t scratch = split ? scene.place(rows * 24) : 0;
  const std::uint32_t out = seed % 3 == 0 ? scores : scene.place(n * 2);
  const std::uint32_t scale = 0x2F8B;  // 1/sqrt(72)
  const Invocation v{
      Code::Softmax, {out, scores, state, rows, keys, padded, split ? 1U : 0U, scratch}, {scale}, {0, 2}};
  const Effects effects = verify(scene, v, [&](Image& image) {
    const Image before = image;
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::vector<double> s(keys);
      for (std::uint32_t k = 0; k < keys; ++k) s[k] = before.half(scores, left(r, k, rows));
      const Soft e = softmax(s, padded, numeric::f16_to_f32(scale), split);
      for (std::uint32_t k = 0; k < padded; ++k)
        image.put_half(out, left(r, k, rows), k < keys ? e.weights[k] : 0.0);
      image.put(state + 4 * r, e.maximum);
      image.put(state + 4 * (rows + r), e.denominator);
      for (std::uint32_t j = 0; split && j < 3; ++j) {
        image.put(scratch + 4 * (r * 3 + j), e.maxima[j]);
        image.put(scratch + 4 * ((rows + r) * 3 + j), e.sums[j]);
      }
    }
  });
  EXPECT_FALSE(effects.f16_overflow);
}

TEST(Softmax, WholeRows) {
  unsigned seed = 1;
  for (const std::uint32_t keys : {1U, 2U, 15U, 16U, 17U, 25U, 48U, 64U, 100U, 729U})
    for (const std::uint32_t extra : {0U, 2U})
      check_softmax(++seed, keys % 7 + extra + 1, keys, (keys + 15) / 16 * 16 + extra * 16, false);
}

TEST(Softmax, SplitRows) {
  unsigned seed = 40;
  for (const std::uint32_t keys : {128U, 129U, 200U, 577U, 729U})
    for (const std::uint32_t extra : {0U, 3U})
      check_softmax(++seed, keys % 7 + extra + 1, keys, (keys + 15) / 16 * 16 + extra * 16, true);
}

TEST(Softmax, SplittingChangesTheDenominator) {
  int different = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Scene scene(seed);
    std::vector<double> s(729);
    for (double& x : s) x = to16(scene.normal(60));
    different +=
        softmax(s, 768, 0.1178, true).denominator != softmax(s, 768, 0.1178, false).denominator ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

TEST(Softmax, ExponentIsRoundedToSingleFirst) {
  // Pairs whose difference lies so near a tie of F16 that rounding through FP32 shows in the weight.
  const double scale = numeric::f16_to_f32(0x2F8B);
  Scene scene(6);
  std::vector<std::array<double, 2>> pairs;
  while (pairs.size() < 8) {
    const double top = to16(scene.normal(30)), s = to16(scene.normal(0.1)),
                 difference = scale * s - scale * top;
    const double once = to16(difference), twice = to16(double{static_cast<float>(difference)});
    if (s < top && to16(std::exp(once)) != to16(std::exp(twice))) pairs.push_back({top, s});
  }
  const std::uint32_t rows = 8, scores = scene.place(rows * 32), out = scene.place(rows * 32);
  const std::uint32_t state = scene.place(rows * 8);
  for (std::uint32_t r = 0; r < rows; ++r)
    for (std::uint32_t k = 0; k < 2; ++k) scene.image.put_half(scores, r * 16 + k, pairs[r][k]);
  run(scene.image, {Code::Softmax, {out, scores, state, rows, 2, 16, 0, 0}, {0x2F8B}, {}});
  for (std::uint32_t r = 0; r < rows; ++r)
    EXPECT_EQ(scene.image.half(out, r * 16 + 1),
              softmax({pairs[r][0], pairs[r][1]}, 16, scale, false).weights[1]);
}

TEST(Softmax, RefusesAndReports) {
  Scene scene(1);
  const std::uint32_t scores = scene.halves(64, 1), out = scene.place(128), state = scene.place(16);
  const Invocation v{Code::Softmax, {out, scores, state, 1, 25, 64, 0, 0}, {0x2F8B}, {}};
  EXPECT_EQ(find(v.code)->validate(v.call()), "");
  expect_refused(v, 4, 65, "more keys");
  expect_refused(v, 4, 0, "zero");
  expect_refused(v, 5, 40, "multiple of 16");
  expect_refused(v, 6, 1, "128 keys");
  expect_refused(v, 2, out, "overlap");
  Invocation overflow = v;
  overflow.spec = {0x4000};  // scale 2: the exponent can leave F16
  scene.image.put_half(scores, 0, 60000);
  scene.image.put_half(scores, 1, -60000);
  Image image = scene.image;
  EXPECT_TRUE(run(image, overflow).f16_overflow);
  EXPECT_EQ(image.half(out, 1), 0);
}

struct MergeShape {
  std::uint32_t rows, v;
  bool initial, final;
};

// Values of the accumulator after the merge, as FP32, state in columns v and v + 1.
void merge(Image& image, const MergeShape& s, const std::vector<std::uint32_t>& m) {
  const Image before = image;
  const std::uint32_t width = (s.v + 2 + 15) / 16 * 16, padded = m[6];
  for (std::uint32_t r = 0; r < s.rows; ++r) {
    const float block_max = before.single(m[2], r), block_sum = before.single(m[2], s.rows + r);
    float alpha = 0, beta = 1, maximum = block_max, denominator = block_sum;
    if (!s.initial) {
      const float old_max = before.single(m[3], r * width + s.v),
                  old_sum = before.single(m[3], r * width + s.v + 1);
      maximum = std::max(old_max, block_max);
      const float old_step = old_max - maximum, step = block_max - maximum;
      alpha = static_cast<float>(std::exp(double{old_step}));
      beta = static_cast<float>(std::exp(double{step}));
      const float kept = old_sum * alpha, added = block_sum * beta;
      denominator = kept + added;
    }
    if (s.final) {
      const auto reciprocal = static_cast<float>(1.0 / double{denominator});
      alpha = alpha * reciprocal, beta = beta * reciprocal;
    }
    for (std::uint32_t i = 0; i < (s.final ? padded : width); ++i) {
      float y = 0;
      if (i < s.v) {
        y = before.half(m[1], left(r, i, s.rows)) * beta;
        if (!s.initial) {
          const float kept = before.single(m[3], r * width + i) * alpha;
          y = kept + y;
        }
      } else if (!s.final && i < s.v + 2) {
        y = i == s.v ? maximum : denominator;
      }
      if (s.final) image.put_half(m[0], r * padded + i, double{y});
      if (!s.final) image.put(m[0] + 4 * (r * width + i), y);
    }
  }
}

TEST(Merge, EveryStage) {
  unsigned seed = 0;
  for (const std::uint32_t v : {2U, 16U, 64U, 72U, 128U, 15U})
    for (const bool initial : {false, true})
      for (const bool final : {false, true}) {
        Scene scene(++seed);
        const MergeShape s{scene.between(1, 9), v, initial, final};
        const std::uint32_t width = (v + 2 + 15) / 16 * 16, padded = (v + 15) / 16 * 16;
        const std::uint32_t pv = scene.halves(s.rows * padded, 5), state = scene.singles(s.rows * 2, 3);
        const std::uint32_t previous = initial ? 0 : scene.singles(s.rows * width, 4);
        for (std::uint32_t r = 0; r < s.rows; ++r) {  // denominators are at least one
          scene.image.put(state + 4 * (s.rows + r), 1 + std::abs(scene.image.single(state, s.rows + r)));
          if (initial) continue;
          const std::uint32_t at = previous + 4 * (r * width + v + 1);
          scene.image.put(at, 1 + std::abs(scene.image.single(at)));
        }
        const std::uint32_t out = scene.place(s.rows * (final ? padded * 2 : width * 4));
        const Invocation call{Code::Merge,
                              {out, pv, state, previous, s.rows, v, padded},
                              {(initial ? 1U : 0U) + (final ? 2U : 0U)},
                              {0, 2}};
        SCOPED_TRACE(::testing::Message() << "v " << v << " initial " << initial << " final " << final);
        EXPECT_FALSE(verify(scene, call, [&](Image& image) { merge(image, s, call.m); }).f16_overflow);
        if (initial && !final) expect_refused(call, 3, pv, "previous");
        expect_refused(call, 5, padded + 1, "v above");
        expect_refused(call, 0, pv, "overlap");
      }
}

TEST(Merge, FinalMultipliesByTheRoundedReciprocal) {
  // Previous accumulator zero with maximum 0, block maximum -1; rows on which dividing by the denominator, or
  // dividing the factor by it, would show in the result.
  Scene scene(8);
  const std::uint32_t rows = 16, pv = scene.place(rows * 32), state = scene.place(rows * 8);
  const std::uint32_t previous = scene.singles(rows * 16, 0), out = scene.place(rows * 32);
  const auto beta = static_cast<float>(std::exp(-1.0));
  std::vector<double> expected;
  while (expected.size() < rows) {
    const auto r = static_cast<std::uint32_t>(expected.size());
    const auto p = to16(scene.normal(5)), l = static_cast<float>(1 + std::abs(scene.normal(30)));
    const float added = l * beta, denominator = 3.0F + added, reciprocal = 1 / denominator;
    const float factor = beta * reciprocal, product = p * factor;
    const float other_factor = beta / denominator, weighted = p * beta;
    const float other = r % 2 == 0 ? p * other_factor : weighted / denominator;
    if (to16(double{product}) == to16(double{other})) continue;
    scene.image.put_half(pv, r * 16, p);
    scene.image.put(state + 4 * r, -1.0F);
    scene.image.put(state + 4 * (rows + r), l);
    scene.image.put(previous + r * 64 + 4, 0.0F);
    scene.image.put(previous + r * 64 + 8, 3.0F);
    expected.push_back(to16(double{product}));
  }
  run(scene.image, {Code::Merge, {out, pv, state, previous, rows, 1, 16}, {2}, {}});
  for (std::uint32_t r = 0; r < rows; ++r) EXPECT_EQ(scene.image.half(out, r * 16), expected[r]);
}

TEST(Merge, StateReplacesTheRunningMaximumOnlyWhenLarger) {
  // Previous maximum 5 and denominator 2, block maximum 3 and denominator 4: alpha 1, beta e^-2.
  Scene scene(2);
  const std::uint32_t pv = scene.halves(16, 0), state = scene.place(8), previous = scene.singles(16, 0);
  const std::uint32_t out = scene.place(64);
  scene.image.put_half(pv, 0, 8);
  scene.image.put(state, 3.0F);
  scene.image.put(state + 4, 4.0F);
  scene.image.put(previous, 10.0F);
  scene.image.put(previous + 4, 5.0F);
  scene.image.put(previous + 8, 2.0F);
  run(scene.image, {Code::Merge, {out, pv, state, previous, 1, 1, 16}, {0}, {}});
  const float beta = 0.13533528323661269F;
  EXPECT_EQ(scene.image.single(out, 0), 10.0F + 8.0F * beta);
  EXPECT_EQ(scene.image.single(out, 1), 5.0F);
  EXPECT_EQ(scene.image.single(out, 2), 2.0F + 4.0F * beta);
}

}  // namespace
}  // namespace tw::kernel::test
