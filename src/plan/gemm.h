// Dense products. Family A (compiler.md 3.2): K split over tiles, partial products, Sum. Family B (3.3):
// outputs stay on their tiles while K passes in steps. Internal to plan/.
#pragma once
#include <vector>

#include "plan/convert.h"

namespace tw::plan {

struct GemmProblem {
  std::uint32_t outer = 1, rows = 1, inner = 1, cols = 1;  // x [outer.., rows, inner], w [inner, cols]
  tensor::Precision precision = tensor::Precision::F8;
  std::uint32_t micro() const { return tensor::mu_of(precision); }  // K group of one matrix instruction
};

struct GemmCandidate {
  std::uint32_t rows = 1, cols = 1, inner = 1;  // grid Rp, Cp, Kp
  tensor::MemoryClass right = tensor::MemoryClass::Interleaved;
  std::uint32_t result_rows = 1, result_cols = 1;  // factors (rr, rc)
  bool rows_fast = false;                          // owner order of the result grid
  bool early_cast = false;                         // cast on x's owners, then move F8
  std::uint32_t k_step = 0;  // family B: K of an accumulating step (inner = 1); 0: family A
  double cycles = 0;         // closed-form estimates for the shortlist
  std::uint64_t bytes = 0, row_bytes = 0;
  std::uint32_t tiles() const { return rows * cols * inner; }
};

// Every grid of family A worth building, with closed-form prices; empty when none fits the device.
// Deterministic order.
std::vector<GemmCandidate> gemm_candidates(const Device& device, const GemmProblem& problem,
                                           std::uint32_t tiles, Policy policy);
// The same of family B.
std::vector<GemmCandidate> step_candidates(const Device& device, const GemmProblem& problem,
                                           std::uint32_t tiles, Policy policy);

// Bytes per tile of the family A grid that needs least: its operands and partials, alive together.
struct GridNeed {
  std::uint64_t left = 0, right = 0, partials = 0;
  std::uint32_t grid_tiles = 0;
  std::uint64_t total() const { return left + right + partials; }
};
GridNeed least_need(const GemmProblem& problem, std::uint32_t tiles);

// Appends conversions, products and Sum; the result is canonical. `home` is the weight's AmpLeftT tensor.
TensorId emit_gemm(Draft& draft, const Held& x, TensorId home, const GemmCandidate& candidate);

}  // namespace tw::plan
