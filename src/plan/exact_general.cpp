// General operations of the exact interpreter, in the rounding order of docs/numerics.md.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/exact_kernels.h"
#include "plan/exact_round.h"

namespace tw::plan::exact {
namespace {

constexpr std::size_t kGrain = 1 << 14;

// Products and sums of FP32 numbers are exact in double or rounded there far below FP32's last place.
float rounded(double x) { return static_cast<float>(x); }

float maximum(std::span<const float> row) {
  float most = row[0];
  for (const float x : row)
    if (x > most) most = x;
  return most;
}

float total(std::span<const float> row) {
  float sum = row[0];
  for (const float x : row.subspan(1)) sum = rounded(double{sum} + double{x});
  return sum;
}

std::span<const float> row_of(const Values& x, std::size_t row, std::size_t width) {
  return std::span(x).subspan(row * width, width);
}

}  // namespace

bool unary(numeric::Unary function, const Values& x, bool half, Values& out, unsigned threads) {
  TW_CHECK(x.size() == out.size(), "elementwise operation changes the number of values");
  std::atomic<bool> good{true};
  parallel_for(out.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      out[i] = rounded(numeric::evaluate(function, double{x[i]}));
      if (!half) continue;
      out[i] = numeric::f16_to_f32(numeric::f32_to_f16(out[i]));
      if (std::isinf(out[i]) && std::isfinite(x[i])) good.store(false, std::memory_order_relaxed);
    }
  });
  return good.load();
}

void binary(numeric::Binary function, const Values& a, const Values& b, bool swapped, Values& out,
            unsigned threads) {
  TW_CHECK(a.size() == out.size() && !b.empty() && a.size() % b.size() == 0,
           "second operand does not repeat in the first");
  parallel_for(out.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double first = a[i], second = b[i % b.size()];
      out[i] = rounded(swapped ? numeric::evaluate(function, second, first)
                               : numeric::evaluate(function, first, second));
    }
  });
}

void reduce(numeric::Reduction function, const Values& x, std::size_t width, Values& out) {
  TW_CHECK(x.size() == out.size() * width, "reduction of other rows");
  for (std::size_t row = 0; row < out.size(); ++row) {
    const std::span<const float> in = row_of(x, row, width);
    out[row] = function == numeric::Reduction::Maximum ? maximum(in) : total(in);
    if (function == numeric::Reduction::Mean)
      out[row] = rounded(double{out[row]} / static_cast<double>(width));
  }
}

void softmax_rows(const Values& x, std::size_t width, Values& out) {
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    const std::span<const float> in = row_of(x, row, width);
    const std::span<float> to = std::span(out).subspan(row * width, width);
    const float most = maximum(in);
    for (std::size_t i = 0; i < width; ++i) to[i] = numeric::exp_f32(rounded(double{in[i]} - double{most}));
    const float sum = total(to);
    for (float& y : to) y = rounded(double{y} / double{sum});
  }
}

void norm_rows(const Values& x, const Values& scale, const Values& bias, float epsilon, Values& out) {
  const std::size_t width = scale.size();
  TW_CHECK(bias.size() == width && x.size() % width == 0, "scale and bias of another width");
  std::vector<float> centred(width), squares(width);
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    const std::span<const float> in = row_of(x, row, width);
    const float mean = rounded(double{total(in)} / static_cast<double>(width));
    for (std::size_t i = 0; i < width; ++i) {
      centred[i] = rounded(double{in[i]} - double{mean});
      squares[i] = rounded(double{centred[i]} * double{centred[i]});
    }
    const float variance = rounded(double{total(squares)} / static_cast<double>(width));
    const float r = numeric::rsqrt_f32(rounded(double{variance} + double{epsilon}));
    for (std::size_t i = 0; i < width; ++i) {
      const float n = rounded(double{rounded(double{centred[i]} * double{r})} * double{scale[i]});
      out[row * width + i] = rounded(double{n} + double{bias[i]});
    }
  }
}

bool rope(const Values& x, const Values& cosine, const Values& sine, std::size_t width, bool interleaved,
          Values& out, unsigned threads) {
  TW_CHECK(cosine.size() == sine.size() && x.size() % cosine.size() == 0, "tables do not repeat in the rows");
  const std::size_t half = width / 2;
  return each_piece(
      x.size() / width, std::max<std::size_t>(1, kGrain / width), threads,
      [&](std::size_t begin, std::size_t end, Rounder& round) {
        for (std::size_t pair = begin * half; pair < end * half; ++pair) {
          const std::size_t row = pair / half * width, i = pair % half;
          const std::size_t a = row + (interleaved ? 2 * i : i);
          const std::size_t b = interleaved ? a + 1 : a + half;
          const auto turn = [&](std::size_t at, float own, float other) {
            const std::size_t table = at % cosine.size();
            return round(rounded(double{own} * double{cosine[table]} + double{other} * double{sine[table]}));
          };
          const float first = turn(a, x[a], -x[b]), second = turn(b, x[b], x[a]);
          out[a] = first;
          out[b] = second;
        }
      });
}

}  // namespace tw::plan::exact
