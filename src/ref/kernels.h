// FP32 operations of the reference on row-major arrays (models.md C.2).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "numeric/functions.h"
#include "tensor/layout.h"

namespace tw::ref {

using tensor::Shape;

// y = 0.5 x (1 + tanh(0.7978846 (x + 0.044715 x^3))), elementwise.
void gelu(std::span<const float> x, std::span<float> y, unsigned threads);
// Two-pass normalisation of rows of length `width`, then scale and bias.
void layer_norm(std::span<const float> x, std::span<const float> scale, std::span<const float> bias,
                float epsilon, std::size_t width, std::span<float> y, unsigned threads);
// One row in place: exp(scale (s - max)) divided by the sum.
void softmax_row(std::span<float> row, float scale);
// numpy broadcasting.
void add(std::span<const float> a, const Shape& a_shape, std::span<const float> b, const Shape& b_shape,
         std::span<float> y, const Shape& y_shape, unsigned threads);
// q [S,Rq,C], k [S,Rk,C], v [S,Rk,Cv] -> y [S,Rq,Cv]; one stream per thread at a time.
void attention(std::span<const float> q, const Shape& q_shape, std::span<const float> k,
               std::span<const float> v, const Shape& v_shape, float scale, std::span<float> y,
               unsigned threads);
// Batched product with broadcast leading axes: x [..,M,K], w [..,K,N] -> y [..,M,N].
void gemm(std::span<const float> x, const Shape& x_shape, std::span<const float> w, const Shape& w_shape,
          std::span<float> y, const Shape& y_shape, unsigned threads);
// [B,R,h*c] -> [B*h,R,c] and back; shapes are those of the split side [B*h,R,c].
void split_heads(std::span<const float> x, const Shape& split, std::uint32_t heads, std::span<float> y);
void merge_heads(std::span<const float> x, const Shape& split, std::uint32_t heads, std::span<float> y);
// General operations.
void unary(numeric::Unary function, std::span<const float> x, std::span<float> y, unsigned threads);
void binary(numeric::Binary function, std::span<const float> a, const Shape& a_shape,
            std::span<const float> b, const Shape& b_shape, std::span<float> y, const Shape& y_shape,
            unsigned threads);
void reduce(numeric::Reduction function, std::span<const float> x, std::size_t width, std::span<float> y);
// x [S,R,C], tables [R,C] (graph::Op::interleaved).
void rope(std::span<const float> x, std::span<const float> cosine, std::span<const float> sine,
          std::size_t width, bool interleaved, std::span<float> y);
// y[i] = x[offset + sum of coordinate * stride] over the coordinates of y: slices, transposes, expansions.
void strided(std::span<const float> x, std::size_t offset, std::span<const std::size_t> strides,
             const Shape& y_shape, std::span<float> y);
// Row-major strides of `shape` as seen from the broadcast shape `out`: zero on broadcast axes.
std::vector<std::size_t> broadcast_strides(const Shape& shape, const Shape& out);

}  // namespace tw::ref
