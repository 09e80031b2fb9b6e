// Ranking and shortlist (compiler.md 7.1, 7.2). Internal to plan/.
#pragma once
#include "plan/cost.h"
#include "plan/gemm.h"

namespace tw::plan {

// Whether the first fragment is to be preferred under the policy's lexicographic order.
bool better(const Metrics& a, const Metrics& b, Policy policy);
// The same where all bytes up to `room` are as good as none; UINT64_MAX: no such limit is known.
bool better_within(std::uint64_t room, Metrics a, Metrics b, Policy policy);

inline constexpr std::size_t kShortlist = 64, kStepShortlist = 24;
// Drops candidates dominated in (cycles, bytes, rows), then keeps the extremes, one of each kind (Kp, spread
// result, right class, early cast, K step), and fills up in rank order.
std::vector<GemmCandidate> shortlist(std::vector<GemmCandidate> candidates, std::size_t limit);

// Builds the fragment of every shortlisted candidate and returns the best. Family B is offered where no grid
// of family A stays within the draft's operator_room. A candidate's number counts family A first, then B.
GemmCandidate choose_gemm(Draft& draft, const Held& x, TensorId home);

}  // namespace tw::plan
