#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "plan/exact_kernels.h"
#include "plan/exact_round.h"

namespace tw::plan::exact {
namespace {

constexpr std::size_t kGrain = 1 << 14;
std::size_t row_grain(std::size_t width) {
  return std::max<std::size_t>(1, kGrain / std::max<std::size_t>(width, 1));
}

// Sum of term(x[i]) over a row in the device's order (decisions.md 5): 6 workers of 8 lanes take turns at
// groups of 8; lanes then workers ascending; the last width mod 8 elements at the end.
template <class Term>
float ordered_sum(const float* x, std::size_t width, Term&& term) {
  constexpr std::size_t kWorkers = 6, kLanes = 8;
  std::array<std::array<float, kLanes>, kWorkers> lanes{};
  const std::size_t whole = width / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; ++i) lanes[i / kLanes % kWorkers][i % kLanes] += term(x[i]);
  float total = 0;
  for (const auto& worker : lanes) {
    float subtotal = 0;
    for (float lane : worker) subtotal += lane;
    total += subtotal;
  }
  for (std::size_t i = whole; i < width; ++i) total += term(x[i]);
  return total;
}

struct Statistics {
  float mean = 0, variance = 0;
};

Statistics row_statistics(const float* x, std::size_t width) {
  const auto n = static_cast<float>(width);
  Statistics s;
  s.mean = ordered_sum(x, width, [](float v) { return v; }) / n;
  s.variance = ordered_sum(x, width, [&](float v) { return (v - s.mean) * (v - s.mean); }) / n;
  return s;
}

Statistics combine(std::span<const Statistics> parts) {
  const auto n = static_cast<float>(parts.size());
  Statistics s;
  for (const Statistics& part : parts) s.mean += part.mean;
  s.mean /= n;
  for (const Statistics& part : parts) {
    const float d = part.mean - s.mean;
    s.variance += part.variance + d * d;
  }
  s.variance /= n;
  return s;
}

// Normalises, scales and shifts `width` columns of one row. Widths that are a multiple of 4 round to F16
// after every step, others only at the end.
void normalise(const float* x, Statistics s, float epsilon, const float* scale, const float* bias,
               std::size_t width, float* out, Rounder& round) {
  const float r = numeric::rsqrt_f32(s.variance + epsilon);
  for (std::size_t i = 0; i < width; ++i) {
    const float n = (x[i] - s.mean) * r;
    if (width % 4 == 0)
      out[i] = round(round(round(n) * scale[i]) + bias[i]);
    else
      out[i] = round(n * scale[i] + bias[i]);
  }
}

}  // namespace

bool layer_norm(const Values& x, const Values& scale, const Values& bias, float epsilon, Values& out,
                unsigned threads) {
  const std::size_t width = scale.size();
  TW_CHECK(width > 0 && bias.size() == width && x.size() % width == 0, "layer norm operands do not match");
  return each_piece(x.size() / width, row_grain(width), threads,
                    [&](std::size_t begin, std::size_t end, Rounder& round) {
                      for (std::size_t row = begin; row < end; ++row) {
                        const float* in = x.data() + row * width;
                        normalise(in, row_statistics(in, width), epsilon, scale.data(), bias.data(), width,
                                  out.data() + row * width, round);
                      }
                    });
}

bool moments(const Values& x, std::size_t width, std::span<const AxisSpan> parts, Values& statistics,
             unsigned threads) {
  const std::size_t rows = x.size() / width;
  TW_CHECK(statistics.size() == parts.size() * rows * 2, "statistics do not match the column parts");
  return each_piece(rows, row_grain(width), threads, [&](std::size_t begin, std::size_t end, Rounder&) {
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const Statistics s = row_statistics(x.data() + row * width + parts[p].start, parts[p].logical());
        statistics[(p * rows + row) * 2] = s.mean;
        statistics[(p * rows + row) * 2 + 1] = s.variance;
      }
  });
}

bool apply(const Values& x, const Values& statistics, const Values& scale, const Values& bias, float epsilon,
           std::span<const AxisSpan> parts, Values& out, unsigned threads) {
  const std::size_t width = scale.size();
  TW_CHECK(width > 0 && bias.size() == width && x.size() % width == 0, "layer norm operands do not match");
  const std::size_t rows = x.size() / width, count = statistics.size() / (rows * 2);
  TW_CHECK(count > 0 && statistics.size() == count * rows * 2, "statistics do not match the rows");
  return each_piece(rows, row_grain(width), threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
    std::vector<Statistics> all(count);
    for (std::size_t row = begin; row < end; ++row) {
      for (std::size_t p = 0; p < count; ++p)
        all[p] = {statistics[(p * rows + row) * 2], statistics[(p * rows + row) * 2 + 1]};
      const Statistics s = combine(all);
      for (const AxisSpan& part : parts)
        normalise(x.data() + row * width + part.start, s, epsilon, scale.data() + part.start,
                  bias.data() + part.start, part.logical(), out.data() + row * width + part.start, round);
    }
  });
}

namespace {

constexpr std::size_t kPanel = 16;

// Sum of the weights of panels [first, last): even and odd keys in F16, their sum and the total in FP32.
float panel_sums(const float* weights, std::size_t keys, std::size_t first, std::size_t last,
                 Rounder& round) {
  float total = 0;
  for (std::size_t panel = first; panel < last; ++panel) {
    float lanes[2] = {0, 0};
    for (std::size_t k = panel * kPanel; k < std::min(keys, (panel + 1) * kPanel); ++k)
      lanes[k % 2] = round(lanes[k % 2] + weights[k]);
    total += lanes[0] + lanes[1];
  }
  return total;
}

float denominator(const float* weights, const SoftmaxArguments& a, Rounder& round) {
  const std::size_t panels = cd(a.padded, kPanel);
  if (!a.split) return panel_sums(weights, a.keys, 0, panels, round);
  constexpr std::size_t kRuns = 3;
  const std::size_t length = cd(panels, kRuns);
  float total = 0;
  for (std::size_t j = 0; j < kRuns; ++j)
    total +=
        panel_sums(weights, a.keys, std::min(j * length, panels), std::min((j + 1) * length, panels), round);
  return total;
}

float exp16(float x) { return numeric::f16_to_f32(numeric::f16_exp(numeric::f32_to_f16(x))); }

}  // namespace

bool softmax(const Values& scores, const SoftmaxArguments& a, Values& weights, Values& state,
             unsigned threads) {
  TW_CHECK(a.keys > 0 && scores.size() % a.keys == 0 && a.padded >= a.keys, "softmax row does not match");
  const std::size_t rows = scores.size() / a.keys;
  TW_CHECK(weights.size() == scores.size() && state.size() == 2 * rows, "softmax results do not match");
  const float scale = numeric::f16_to_f32(numeric::f32_to_f16(a.scale));
  return each_piece(
      rows, row_grain(a.keys), threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
        for (std::size_t row = begin; row < end; ++row) {
          const float* in = scores.data() + row * a.keys;
          float* out = weights.data() + row * a.keys;
          const float maximum = *std::max_element(in, in + a.keys);
          const double scaled = static_cast<double>(scale) * maximum;
          for (std::size_t k = 0; k < a.keys; ++k) {
            // The difference is exact in double: both products have 22 significant bits.
            const auto difference = static_cast<float>(static_cast<double>(scale) * in[k] - scaled);
            out[k] = exp16(round(difference));
          }
          state[row] = static_cast<float>(scaled);
          state[rows + row] = denominator(out, a, round);
        }
      });
}

bool merge(const Values& pv, const Values& state, const Values* previous, const MergeArguments& a,
           Values& out, unsigned threads) {
  const std::size_t width = a.width, rows = pv.size() / width, stride = width + 2;
  TW_CHECK(state.size() == 2 * rows, "state does not match the rows");
  TW_CHECK(a.initial || (previous != nullptr && previous->size() == rows * stride),
           "merge needs the accumulator");
  TW_CHECK(out.size() == rows * (a.final ? width : stride), "merge result has a wrong width");
  return each_piece(rows, row_grain(width), threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
    for (std::size_t row = begin; row < end; ++row) {
      const float* in = pv.data() + row * width;
      float* to = out.data() + row * (a.final ? width : stride);
      const float* old = a.initial ? nullptr : previous->data() + row * stride;
      float maximum = state[row], sum = state[rows + row], alpha = 0, beta = 1;
      if (!a.initial) {
        maximum = std::max(old[width], state[row]);
        alpha = numeric::exp_f32(old[width] - maximum);
        beta = numeric::exp_f32(state[row] - maximum);
        const float kept = old[width + 1] * alpha, added = sum * beta;
        sum = kept + added;
      }
      if (a.final) {
        const float r = numeric::reciprocal_f32(sum);
        alpha *= r;
        beta *= r;
      }
      for (std::size_t i = 0; i < width; ++i) {
        float value = in[i] * beta;
        if (!a.initial) {
          const float kept = old[i] * alpha;
          value = kept + value;
        }
        to[i] = a.final ? round(value) : value;
      }
      if (!a.final) {
        to[width] = maximum;
        to[width + 1] = sum;
      }
    }
  });
}

}  // namespace tw::plan::exact
