// Ranking and shortlist (compiler.md 7.1, 7.2). Internal to plan/.
#pragma once
#include "plan/cost.h"
#include "plan/gemm.h"

namespace tw::plan {

// Whether the first fragment is to be preferred under the policy's lexicographic order.
bool better(const Metrics& a, const Metrics& b, Policy policy);

inline constexpr std::size_t kShortlist = 64;
// Drops candidates dominated in (cycles, bytes, rows), then keeps the extremes, one of each kind (Kp, spread
// result, right class, early cast), and fills up in rank order.
std::vector<GemmCandidate> shortlist(std::vector<GemmCandidate> candidates, std::size_t limit);

// Builds the fragment of every shortlisted candidate and returns the best.
GemmCandidate choose_gemm(const Draft& draft, const Held& x, TensorId home);

}  // namespace tw::plan
