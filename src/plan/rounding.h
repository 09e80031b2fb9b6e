// How parameters are rounded to the format that their tensors store (ADR 0011). Host side, once per upload.
#pragma once
#include <span>
#include <vector>

#include "plan/plan.h"

namespace tw::plan {

// The values to encode for parameter `tensor`: `logical` itself, or, for F8 matrices of a plan with balanced
// rounding, representable values in `storage`, which the result then refers to.
std::span<const float> rounded_parameter(const Plan& plan, const Tensor& tensor,
                                         std::span<const float> logical, std::vector<float>& storage,
                                         unsigned threads);

}  // namespace tw::plan
