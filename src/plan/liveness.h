// Live intervals and bytes of a plan's tensors (compiler.md 6). Internal to plan/.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tw::plan {

// Steps in execution order with Repeat bodies in place (once).
struct FlatStep {
  const Step* step = nullptr;
  std::uint32_t repeat = UINT32_MAX;  // index of the enclosing Repeat in order of appearance
};
std::vector<FlatStep> flatten(const Plan& plan);

struct Operands {
  std::vector<TensorId> reads, writes;
};
Operands operands(const Step& step);

// First and last flat step that need the storage of a root tensor, inclusive.
struct Interval {
  std::uint32_t first = UINT32_MAX, last = 0;
  bool used() const { return first != UINT32_MAX; }
};
// By tensor id; only storage roots have intervals. Parameters live throughout, inputs from the start, outputs
// to the end; what a Repeat body shares with the outside lives over the whole Repeat.
std::vector<Interval> intervals(const Plan& plan, const std::vector<FlatStep>& steps);

// Bytes that a tensor's buffer may be read beyond its end (compiler.md 3.8: left operands).
std::vector<std::uint32_t> access_tails(const Plan& plan, const std::vector<FlatStep>& steps);

}  // namespace tw::plan
