#include "ref/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/clones.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ref/blas.h"

namespace tw::ref {
namespace {

constexpr std::size_t kGrain = 1 << 15;  // elements per piece of parallel work
constexpr std::size_t kLanes = 16;  // independent partial sums, so that sums vectorise without reassociation

// exp(x) to about 1 ulp, branch-free so that loops over it vectorise: 2^n by exponent bits, the rest by the
// Cephes polynomial on [-ln2/2, ln2/2].
inline __attribute__((always_inline)) float fast_exp(float x) {
  x = std::min(std::max(x, -87.0F), 88.0F);
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = x * 1.44269504F + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const std::uint32_t exponent =
      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kShift)) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

TW_CLONES void gelu_range(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float v = x[i];
    const float u = 0.7978846F * (v + 0.044715F * v * v * v);
    // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u))
    y[i] = v / (1.0F + fast_exp(-2.0F * u));
  }
}

inline __attribute__((always_inline)) float sum_lanes(const float* lanes) {
  float sum = 0;
  for (std::size_t j = 0; j < kLanes; ++j) sum += lanes[j];
  return sum;
}

TW_CLONES float row_sum(const float* x, std::size_t n) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j];
  float sum = sum_lanes(lanes);
  for (; i < n; ++i) sum += x[i];
  return sum;
}

TW_CLONES float row_variance_sum(const float* x, std::size_t n, float mean) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += (x[i + j] - mean) * (x[i + j] - mean);
  float sum = sum_lanes(lanes);
  for (; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

TW_CLONES void normalise_row(const float* x, const float* scale, const float* bias, float mean, float r,
                             float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * r * scale[i] + bias[i];
}

TW_CLONES void exp_row(float* x, std::size_t n, float scale, float maximum) {
  for (std::size_t i = 0; i < n; ++i) x[i] = fast_exp((x[i] - maximum) * scale);
}

TW_CLONES void add_repeated(const float* a, const float* b, float* y, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < width; ++i) y[r * width + i] = a[r * width + i] + b[i];
}

std::size_t offset_of(std::size_t flat, const Shape& out, const std::vector<std::size_t>& strides) {
  std::size_t offset = 0;
  for (std::size_t axis = out.size(); axis-- > 0;) {
    offset += flat % out[axis] * strides[axis];
    flat /= out[axis];
  }
  return offset;
}

// True when b, without leading ones, is a contiguous suffix of out.
bool is_suffix(const Shape& b, const Shape& out) {
  std::size_t begin = 0;
  while (begin < b.size() && b[begin] == 1) ++begin;
  const std::size_t rank = b.size() - begin;
  return rank <= out.size() && std::equal(b.begin() + static_cast<std::ptrdiff_t>(begin), b.end(),
                                          out.end() - static_cast<std::ptrdiff_t>(rank));
}

}  // namespace

void gelu(std::span<const float> x, std::span<float> y, unsigned threads) {
  parallel_for(x.size(), kGrain, threads,
               [&](std::size_t begin, std::size_t end) { gelu_range(&x[begin], &y[begin], end - begin); });
}

void layer_norm(std::span<const float> x, std::span<const float> scale, std::span<const float> bias,
                float epsilon, std::size_t width, std::span<float> y, unsigned threads) {
  const std::size_t rows = x.size() / width;
  parallel_for(rows, std::max<std::size_t>(1, kGrain / width), threads,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   const float* in = &x[row * width];
                   const float mean = row_sum(in, width) / static_cast<float>(width);
                   const float variance = row_variance_sum(in, width, mean) / static_cast<float>(width);
                   normalise_row(in, scale.data(), bias.data(), mean, 1.0F / std::sqrt(variance + epsilon),
                                 &y[row * width], width);
                 }
               });
}

void softmax_row(std::span<float> row, float scale) {
  const float maximum = *std::max_element(row.begin(), row.end());
  exp_row(row.data(), row.size(), scale, maximum);
  const float sum = row_sum(row.data(), row.size());
  for (float& value : row) value /= sum;
}

void add(std::span<const float> a, const Shape& a_shape, std::span<const float> b, const Shape& b_shape,
         std::span<float> y, const Shape& y_shape, unsigned threads) {
  if (a_shape == y_shape && is_suffix(b_shape, y_shape)) {
    const std::size_t width = b.size(), rows = y.size() / width;
    parallel_for(rows, std::max<std::size_t>(1, kGrain / width), threads,
                 [&](std::size_t begin, std::size_t end) {
                   add_repeated(&a[begin * width], b.data(), &y[begin * width], end - begin, width);
                 });
    return;
  }
  const auto sa = broadcast_strides(a_shape, y_shape), sb = broadcast_strides(b_shape, y_shape);
  parallel_for(y.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      y[i] = a[offset_of(i, y_shape, sa)] + b[offset_of(i, y_shape, sb)];
  });
}

void attention(std::span<const float> q, const Shape& q_shape, std::span<const float> k,
               std::span<const float> v, const Shape& v_shape, float scale, std::span<float> y,
               unsigned threads) {
  const std::size_t rows = q_shape[1], width = q_shape[2], keys = v_shape[1], out = v_shape[2];
  set_blas_threads(1);  // one stream per thread is faster and independent of the number of threads
  parallel_for(q_shape[0], 1, threads, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scores(rows * keys);
    for (std::size_t s = begin; s < end; ++s) {
      sgemm(&q[s * rows * width], &k[s * keys * width], scores.data(), rows, keys, width, true);
      for (std::size_t r = 0; r < rows; ++r) softmax_row(std::span(scores).subspan(r * keys, keys), scale);
      sgemm(scores.data(), &v[s * keys * out], &y[s * rows * out], rows, out, keys, false);
    }
  });
}

void gemm(std::span<const float> x, const Shape& x_shape, std::span<const float> w, const Shape& w_shape,
          std::span<float> y, const Shape& y_shape, unsigned threads) {
  const std::size_t k = x_shape.back(), n = w_shape.back();
  set_blas_threads(threads);
  if (w.size() == k * n) return sgemm(x.data(), w.data(), y.data(), y.size() / n, n, k, false);
  const std::size_t m = x_shape[x_shape.size() - 2];
  const Shape outer(y_shape.begin(), y_shape.end() - 2);
  const auto sx = broadcast_strides(Shape(x_shape.begin(), x_shape.end() - 2), outer);
  const auto sw = broadcast_strides(Shape(w_shape.begin(), w_shape.end() - 2), outer);
  for (std::size_t i = 0; i < tensor::elements(outer); ++i)
    sgemm(&x[offset_of(i, outer, sx) * m * k], &w[offset_of(i, outer, sw) * k * n], &y[i * m * n], m, n, k,
          false);
}

namespace {
// Calls copy(position in [B,R,h*c], position in [B*h,R,c], c) for every contiguous run of a head.
template <class Copy>
void for_each_head_run(const Shape& split, std::uint32_t heads, Copy&& copy) {
  const std::size_t rows = split[1], width = split[2];
  for (std::size_t s = 0; s < split[0]; ++s)
    for (std::size_t r = 0; r < rows; ++r)
      copy(((s / heads) * rows + r) * heads * width + s % heads * width, (s * rows + r) * width, width);
}
}  // namespace

void split_heads(std::span<const float> x, const Shape& split, std::uint32_t heads, std::span<float> y) {
  for_each_head_run(split, heads, [&](std::size_t merged, std::size_t own, std::size_t n) {
    std::copy_n(&x[merged], n, &y[own]);
  });
}
void merge_heads(std::span<const float> x, const Shape& split, std::uint32_t heads, std::span<float> y) {
  for_each_head_run(split, heads, [&](std::size_t merged, std::size_t own, std::size_t n) {
    std::copy_n(&x[own], n, &y[merged]);
  });
}

std::vector<std::size_t> broadcast_strides(const Shape& shape, const Shape& out) {
  std::vector<std::size_t> strides(out.size(), 0);
  std::size_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::uint32_t extent = shape[shape.size() - 1 - i];
    if (extent != 1) strides[out.size() - 1 - i] = stride;
    stride *= extent;
  }
  return strides;
}

void unary(numeric::Unary function, std::span<const float> x, std::span<float> y, unsigned threads) {
  parallel_for(x.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) y[i] = static_cast<float>(numeric::evaluate(function, x[i]));
  });
}

void binary(numeric::Binary function, std::span<const float> a, const Shape& a_shape,
            std::span<const float> b, const Shape& b_shape, std::span<float> y, const Shape& y_shape,
            unsigned threads) {
  const auto sa = broadcast_strides(a_shape, y_shape), sb = broadcast_strides(b_shape, y_shape);
  parallel_for(y.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      y[i] = static_cast<float>(
          numeric::evaluate(function, a[offset_of(i, y_shape, sa)], b[offset_of(i, y_shape, sb)]));
  });
}

void reduce(numeric::Reduction function, std::span<const float> x, std::size_t width, std::span<float> y) {
  for (std::size_t row = 0; row < y.size(); ++row) {
    const float* in = &x[row * width];
    if (function == numeric::Reduction::Maximum)
      y[row] = *std::max_element(in, in + width);
    else
      y[row] = row_sum(in, width) / (function == numeric::Reduction::Mean ? static_cast<float>(width) : 1.0F);
  }
}

void rope(std::span<const float> x, std::span<const float> cosine, std::span<const float> sine,
          std::size_t width, bool interleaved, std::span<float> y) {
  for (std::size_t row = 0; row < x.size(); row += width)
    for (std::size_t i = 0; i < width / 2; ++i) {
      const std::size_t first = interleaved ? 2 * i : i, second = interleaved ? first + 1 : first + width / 2;
      const std::size_t table = row % cosine.size();
      const float a = x[row + first], b = x[row + second];
      y[row + first] = a * cosine[table + first] - b * sine[table + first];
      y[row + second] = b * cosine[table + second] + a * sine[table + second];
    }
}

void strided(std::span<const float> x, std::size_t offset, std::span<const std::size_t> strides,
             const Shape& y_shape, std::span<float> y) {
  const std::size_t width = y_shape.back(), inner = strides.back();
  const Shape outer(y_shape.begin(), y_shape.end() - 1);
  const std::vector<std::size_t> outer_strides(strides.begin(), strides.end() - 1);
  for (std::size_t row = 0; row < y.size() / width; ++row) {
    const float* from = &x[offset + offset_of(row, outer, outer_strides)];
    for (std::size_t i = 0; i < width; ++i) y[row * width + i] = from[i * inner];
  }
}

}  // namespace tw::ref
