// Estimates on a Plan: cycles (compiler.md 5.4-5.6), live bytes by class and step (6), exchange-row bytes
// (6.1).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

struct Metrics {
  std::uint64_t total_bytes = 0;                            // max over steps and tiles, both classes
  std::uint64_t standard_bytes = 0, interleaved_bytes = 0;  // class maxima
  std::uint64_t max_standard_allocation = 0;
  std::uint64_t row_bytes = 0;  // estimated exchange rows, busiest tile
  std::uint64_t sources = 0;    // owners that a destination receives from, summed over the copies
  double cycles = 0;
  std::uint32_t peak_tile = 0, peak_step = 0;
};
Metrics estimate(const Device& device, const Plan& plan);

// Estimated cycles of a call by graph operation, without composition over tiles: local work counts for the
// operation of the next exchange, as in compile/operations.h.
struct OperationEstimate {
  std::string path;
  double cycles = 0;
};
std::vector<OperationEstimate> estimate_by_operation(const Plan& plan);

}  // namespace tw::plan
