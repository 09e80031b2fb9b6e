// The exact interpreter: runs a Plan on whole tensors in the plan's rounding order (decisions.md 2-8). Shares
// nothing with kernel/ beyond numeric/. The simulated device must equal it bit for bit.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tw::plan {

// Logical row-major values of a tensor as stored: F16 bits, F8 codes or F32 bits, one uint32 per element...
// kept as the exactly representable float (F8 value includes the scale).
using Values = std::vector<float>;

struct ExactOptions {
  unsigned threads = 0;
  std::string
      drop_group_rounding;  // test switch: operation path whose product skips the F16 rounding between groups
  // Called after each step that completes an operation: (path, iteration or 0, tensor, values).
  std::function<void(const std::string&, std::uint32_t, TensorId, const Values&)> checkpoint;
};

// `host` gives FP32 data of every Input and Parameter by name (encoded to the tensor's format first).
// Returns the outputs in Plan::outputs order.
std::vector<Values> run_exact(const Plan& plan,
                              const std::function<const std::vector<float>&(const std::string&)>& host,
                              const ExactOptions& options = {});

}  // namespace tw::plan
