// Cycles of a call by graph operation, by one rule for estimate, schedule and simulation: what happens
// between two exchange barriers belongs to the operation of the later one; what follows the last belongs to
// that one.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace tw::compile {

struct OperationCycles {
  std::string path;
  double cycles = 0;
};
// `paths[i]` is the operation of the i-th executed phase, `ends[i]` the cycle at which it was over. In order
// of first appearance; the cycles add up to `total`.
std::vector<OperationCycles> cycles_by_operation(std::span<const std::string> paths,
                                                 std::span<const double> ends, double total);

// 0 for an operation that is not in the list.
double cycles_of(std::span<const OperationCycles> operations, const std::string& path);

}  // namespace tw::compile
