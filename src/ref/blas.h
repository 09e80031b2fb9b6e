// The one place that calls the BLAS: row-major FP32 products.
#pragma once
#include <cstddef>

namespace tw::ref {

// Threads used inside one product; calls from several threads at once need 1.
void set_blas_threads(unsigned threads);

// c[m,n] = a[m,k] b[k,n], or a b^T with b stored [n,k]. Leading dimensions equal the row lengths.
void sgemm(const float* a, const float* b, float* c, std::size_t m, std::size_t n, std::size_t k,
           bool b_transposed);

// The kernels that OpenBLAS should use on this processor and does not, as a value of OPENBLAS_CORETYPE;
// nullptr: it has good ones. Debian 12's 0.3.21 takes its oldest kernels on processors that are newer than it
// is (measured: a quarter of the speed). The variable is read when the library is loaded.
const char* missed_blas_kernels();

}  // namespace tw::ref
