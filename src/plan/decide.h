// The planner's choice among candidate fragments of one operation: ranked by the policy, or given by
// Options::choices. Every choice is recorded in draft.plan.choices. Internal to plan/.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "plan/cost.h"
#include "plan/draft.h"

namespace tw::plan {

// Whether Options::choices names a candidate of the operation draft.path, and which one. Error{File} when
// there are not so many candidates.
bool is_given(const Draft& draft);
std::size_t given(Draft& draft, std::size_t count);
// Records that candidate `chosen` was ranked first among candidates with these estimates.
void record(Draft& draft, std::size_t chosen, std::span<const Metrics> candidates);

// Estimates of the candidates, each made once, on several threads.
std::vector<Metrics> measured(const Draft& draft, std::size_t count,
                              const std::function<Metrics(std::size_t)>& metrics_of);

// Index of the candidate to build, in 0..count-1. `metrics_of` estimates one candidate and is
// not called when the choice is given.
std::size_t decide(Draft& draft, std::size_t count, const std::function<Metrics(std::size_t)>& metrics_of);

}  // namespace tw::plan
