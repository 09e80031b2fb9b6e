// Arithmetic of the matrix product kernels on contiguous operands (decisions.md 2).
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw::kernel {

struct GemmShape {
  std::size_t rows = 0, k = 0, columns = 0;  // k a multiple of 16 (F16) or 32 (F8), columns of 16
  int scale = 0;                             // F8: exponent of the product scale, folded into the weights
  bool f8 = false, accumulate = false;
};

// left AL(rows, k); right: per 16 columns, per group of 16 or 32 k, [column][k]; out F16 AL(rows, columns).
// Returns true when a finite group sum rounded to an infinite F16.
bool gemm(const GemmShape& shape, const std::uint8_t* left, const std::uint8_t* right, std::uint8_t* out);

}  // namespace tw::kernel
