// Whole-tensor arithmetic of the exact interpreter, in the rounding order of decisions.md 2-8. Values are
// floats that hold F16, F8 or F32 numbers exactly; arrays are row-major. Each function returns false when a
// result overflowed F16 (decisions.md 8), which the caller turns into a device fault. Independent of kernel/.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "numeric/functions.h"
#include "tensor/layout.h"

namespace tw::plan::exact {

using Values = std::vector<float>;
using tensor::AxisSpan;

// One K part of a product: left [streams][rows][inner] times right [streams][inner][cols], or right stored
// [streams][cols][inner] when transposed.
struct ProductArguments {
  const float *left = nullptr, *right = nullptr;
  float* out = nullptr;  // [streams][rows][cols]
  std::size_t streams = 1, rows = 0, inner = 0, cols = 0;
  bool right_transposed = false;
  AxisSpan k;               // logical k of the part and its padding
  std::uint32_t group = 0;  // k per F16 rounding: 32 (F8) or 16 (F16)
  bool accumulate = false;  // starts from `out`
  bool round_groups = true;
  unsigned threads = 0;
};
bool product(const ProductArguments& arguments);

// out[i] = parts[0][i] + parts[1][i] + ..., one rounding per add.
bool sum(const Values& parts, std::size_t count, Values& out, unsigned threads);
// b repeats every b.size() elements.
bool add(const Values& a, const Values& b, Values& out, unsigned threads);
bool gelu(const Values& x, Values& out, unsigned threads);
bool bias_gelu(const Values& x, const Values& bias, Values& out, unsigned threads);
// Values as stored in `encoding`; overflow is possible for F16 only.
bool encode(std::span<const float> in, tensor::Encoding encoding, Values& out, unsigned threads);

// General operations (docs/numerics.md), exact_general.cpp; `half`: the result is F16, else F32.
bool unary(numeric::Unary function, const Values& x, bool half, Values& out, unsigned threads);
void binary(numeric::Binary function, const Values& a, const Values& b, bool swapped, Values& out,
            unsigned threads);
void reduce(numeric::Reduction function, const Values& x, std::size_t width, Values& out);
void softmax_rows(const Values& x, std::size_t width, Values& out);
void norm_rows(const Values& x, const Values& scale, const Values& bias, float epsilon, Values& out);
bool rope(const Values& x, const Values& cosine, const Values& sine, std::size_t width, bool interleaved,
          Values& out, unsigned threads);

// Row-wise operations, exact_rows.cpp.
bool layer_norm(const Values& x, const Values& scale, const Values& bias, float epsilon, Values& out,
                unsigned threads);
// statistics [parts][rows][2]: mean and variance of each column part of a row.
bool moments(const Values& x, std::size_t width, std::span<const AxisSpan> parts, Values& statistics,
             unsigned threads);
bool apply(const Values& x, const Values& statistics, const Values& scale, const Values& bias, float epsilon,
           std::span<const AxisSpan> parts, Values& out, unsigned threads);
// state [2][rows]: scaled maximum and denominator.
struct SoftmaxArguments {
  std::size_t keys = 0, padded = 0;  // row length: logical, physical
  float scale = 0;
  bool split = false;
};
bool softmax(const Values& scores, const SoftmaxArguments& arguments, Values& weights, Values& state,
             unsigned threads);
// Online merge of one key block; previous is the accumulator [rows][width + 2] (null when initial), as is out
// unless final, when it is [rows][width].
struct MergeArguments {
  std::size_t width = 0;
  bool initial = true, final = true;
};
bool merge(const Values& pv, const Values& state, const Values* previous, const MergeArguments& arguments,
           Values& out, unsigned threads);

}  // namespace tw::plan::exact
