#include "plan/exact_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/clones.h"
#include "base/error.h"
#include "base/math.h"
#include "plan/exact_round.h"

namespace tw::plan::exact {
namespace {

constexpr std::size_t kGrain = 1 << 14;
constexpr std::size_t kRows = 4, kCols = 64;  // outputs kept together while k runs
constexpr std::size_t kRowChunk = 64;         // rows per piece of parallel work
using Block = std::array<float, kRows * kCols>;

// acc[r][c] = fma(left[r][k], right[k][c], acc[r][c]) for k ascending.
TW_CLONES void multiply_block(const float* left, std::size_t left_stride, const float* right,
                              std::size_t count, float* acc) {
  for (std::size_t k = 0; k < count; ++k) {
    const float* w = right + k * kCols;
    for (std::size_t r = 0; r < kRows; ++r) {
      const float x = left[r * left_stride + k];
      float* a = acc + r * kCols;
      for (std::size_t c = 0; c < kCols; ++c) a[c] = __builtin_fmaf(x, w[c], a[c]);
    }
  }
}
TW_CLONES void multiply_row(const float* left, const float* right, std::size_t count, float* acc) {
  for (std::size_t k = 0; k < count; ++k) {
    const float x = left[k];
    const float* w = right + k * kCols;
    for (std::size_t c = 0; c < kCols; ++c) acc[c] = __builtin_fmaf(x, w[c], acc[c]);
  }
}

void round_block(std::span<float> values) {
  std::array<std::uint16_t, kRows * kCols> bits;
  const std::span<std::uint16_t> used(bits.data(), values.size());
  numeric::f32_to_f16(values, used);
  numeric::f16_to_f32(used, values);
}

// The part's k range of the right operand as [stream][column block][k][kCols], columns beyond the last zero.
Values pack_right(const ProductArguments& p) {
  const std::size_t blocks = cd(p.cols, kCols), depth = p.k.logical();
  Values packed(p.streams * blocks * depth * kCols, 0.0F);
  parallel_for(p.streams * blocks, 1, p.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const float* right = p.right + item / blocks * p.inner * p.cols;
      const std::size_t first = item % blocks * kCols, n = std::min(kCols, p.cols - first);
      float* out = packed.data() + item * depth * kCols;
      for (std::size_t k = 0; k < depth; ++k)
        for (std::size_t c = 0; c < n; ++c)
          out[k * kCols + c] = p.right_transposed ? right[(first + c) * p.inner + p.k.start + k]
                                                  : right[(p.k.start + k) * p.cols + first + c];
    }
  });
  return packed;
}

// All groups of the part for `rows` rows and one column block; left and right stand at the part's first k.
void run_groups(const ProductArguments& p, const float* left, const float* right, std::size_t rows,
                std::span<float> acc) {
  for (std::size_t k = 0; k < p.k.physical(); k += p.group) {
    const std::size_t logical = p.k.logical(),
                      count = k < logical ? std::min<std::size_t>(p.group, logical - k) : 0;
    if (rows == kRows) {
      multiply_block(left + k, p.inner, right + k * kCols, count, acc.data());
    } else {
      for (std::size_t r = 0; r < rows; ++r)
        multiply_row(left + r * p.inner + k, right + k * kCols, count, acc.data() + r * kCols);
    }
    if (count < p.group)  // fma(0, 0, a) turns -0 into +0 and changes nothing else
      for (float& a : acc) a += 0.0F;
    if (p.round_groups) round_block(acc);
  }
  if (!p.round_groups) round_block(acc);
}

bool store_rows(std::span<const float> acc, std::size_t rows, std::size_t cols, float* out,
                std::size_t stride) {
  bool finite = true;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) {
      finite &= !std::isinf(acc[r * kCols + c]);
      out[r * stride + c] = acc[r * kCols + c];
    }
  return finite;
}

bool product_piece(const ProductArguments& p, const float* right, std::size_t stream, std::size_t first_col,
                   std::size_t begin, std::size_t end) {
  const std::size_t cols = std::min(kCols, p.cols - first_col);
  bool finite = true;
  for (std::size_t row = begin; row < end; row += kRows) {
    const std::size_t rows = std::min(kRows, end - row);
    Block block{};
    float* out = p.out + (stream * p.rows + row) * p.cols + first_col;
    if (p.accumulate)
      for (std::size_t r = 0; r < rows; ++r) std::copy_n(out + r * p.cols, cols, block.data() + r * kCols);
    const std::span<float> acc(block.data(), rows * kCols);
    run_groups(p, p.left + (stream * p.rows + row) * p.inner + p.k.start, right, rows, acc);
    finite &= store_rows(acc, rows, cols, out, p.cols);
  }
  return finite;
}

}  // namespace

bool product(const ProductArguments& p) {
  TW_CHECK(p.group > 0 && p.k.physical() % p.group == 0, "K part is no whole number of groups");
  TW_CHECK(p.k.logical_end <= p.inner, "K part beyond the operands");
  const Values packed = pack_right(p);
  const std::size_t blocks = cd(p.cols, kCols), chunks = cd(p.rows, kRowChunk), depth = p.k.logical();
  std::atomic<bool> finite{true};
  parallel_for(p.streams * blocks * chunks, 1, p.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t panel = item / chunks, row = item % chunks * kRowChunk;
      const float* right = packed.data() + panel * depth * kCols;
      if (!product_piece(p, right, panel / blocks, panel % blocks * kCols, row,
                         std::min(p.rows, row + kRowChunk)))
        finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

bool sum(const Values& parts, std::size_t count, Values& out, unsigned threads) {
  TW_CHECK(count > 0 && parts.size() == count * out.size(), "partials do not match their sum");
  return each_piece(out.size(), kGrain, threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
    for (std::size_t i = begin; i < end; ++i) {
      float total = parts[i];
      for (std::size_t p = 1; p < count; ++p) total = round(total + parts[p * out.size() + i]);
      out[i] = total;
    }
  });
}

bool add(const Values& a, const Values& b, Values& out, unsigned threads) {
  TW_CHECK(a.size() == out.size() && !b.empty() && a.size() % b.size() == 0,
           "second operand of an add is no suffix");
  return each_piece(out.size(), kGrain, threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
    for (std::size_t i = begin; i < end; ++i) out[i] = round(a[i] + b[i % b.size()]);
  });
}

namespace {

// Halves 3a62 and 29b9 of models.md A.4 and the half of their product.
constexpr float kA = 0.7978515625F, kB = 0.044708251953125F;
constexpr std::uint16_t kABits = 0x2891;

float tanh16(float x) { return numeric::f16_to_f32(numeric::f16_tanh(numeric::f32_to_f16(x))); }
float clamp8(float x) { return x < -8.0F ? -8.0F : x > 8.0F ? 8.0F : x; }

// y = x * 0.5 (1 + tanh(u)).
float gelu_tail(float x, float u, Rounder& round) {
  const float t = round(1.0F + tanh16(u));
  return round(x * round(0.5F * t));
}

// Every step rounded; the cube is taken of the clamped copy.
float gelu_chain(float x, Rounder& round) {
  const float w = clamp8(x);
  float t = round(w * w);
  t = round(t * w);
  t = round(kB * t);
  t = round(w + t);
  return gelu_tail(x, round(kA * t), round);
}

float fused_gelu(float z, Rounder& round) {
  const float w = clamp8(z);
  const float cube = round(round(w * w) * w);
  // Both products are exact, so that the fma rounds their sum once.
  const float u = __builtin_fmaf(numeric::f16_to_f32(kABits), cube, kA * w);
  return gelu_tail(z, round(u), round);
}

}  // namespace

bool gelu(const Values& x, Values& out, unsigned threads) {
  return each_piece(out.size(), kGrain, threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
    for (std::size_t i = begin; i < end; ++i) out[i] = gelu_chain(x[i], round);
  });
}

bool bias_gelu(const Values& x, const Values& bias, Values& out, unsigned threads) {
  const std::size_t width = bias.size(), fused = width / 4 * 4;
  TW_CHECK(width > 0 && x.size() % width == 0, "bias does not match the rows");
  return each_piece(out.size() / width, std::max<std::size_t>(1, kGrain / width), threads,
                    [&](std::size_t begin, std::size_t end, Rounder& round) {
                      for (std::size_t i = begin * width; i < end * width; ++i) {
                        const float z = round(x[i] + bias[i % width]);
                        out[i] = i % width < fused ? fused_gelu(z, round) : gelu_chain(z, round);
                      }
                    });
}

bool encode(std::span<const float> in, tensor::Encoding encoding, Values& out, unsigned threads) {
  TW_CHECK(in.size() == out.size(), "encoding changes the number of values");
  return each_piece(out.size(), kGrain, threads, [&](std::size_t begin, std::size_t end, Rounder& round) {
    for (std::size_t i = begin; i < end; ++i) {
      switch (encoding.precision) {
        case tensor::Precision::F8:
          out[i] = numeric::f143_to_f32(numeric::f32_to_f143(in[i], encoding.scale), encoding.scale);
          break;
        case tensor::Precision::F16:
          out[i] = round(in[i]);
          break;
        case tensor::Precision::F32:
          out[i] = in[i];
          break;
      }
    }
  });
}

}  // namespace tw::plan::exact
