// The one place that calls the BLAS: row-major FP32 products.
#pragma once
#include <cstddef>

namespace tw::ref {

// Threads used inside one product; calls from several threads at once need 1.
void set_blas_threads(unsigned threads);

// c[m,n] = a[m,k] b[k,n], or a b^T with b stored [n,k]. Leading dimensions equal the row lengths.
void sgemm(const float* a, const float* b, float* c, std::size_t m, std::size_t n, std::size_t k,
           bool b_transposed);

}  // namespace tw::ref
