// Per-operation comparison of a package: simulated against exact (must be equal, bit for bit) and exact
// against FP32 (quantisation error); the first divergence with tile and address.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/pipeline.h"

namespace tw::tools {

// Evenly spaced elements of a result that are held against a tolerance (models.md C.4).
struct Sampling {
  std::uint32_t samples = 256;
  double atol = 0.03, rtol = 0.03;  // |simulated - exact| <= atol + rtol * |exact|
};
struct OperationError {
  std::string path;
  std::uint32_t iteration = 0;
  std::uint64_t elements = 0, different = 0;          // simulated != exact
  double max_sim_error = 0;                           // simulated - exact
  std::uint64_t samples = 0, beyond = 0;              // samples taken, and those beyond the tolerance
  std::optional<double> cosine_fp32, max_fp32_error;  // exact against FP32 (absent: no matching operation)
};
struct Divergence {
  std::string path;
  std::uint64_t element = 0;
  std::uint32_t tile = 0, address = 0;  // physical tile, byte address
  float simulated = 0, exact = 0;
};
struct CompareReport {
  std::vector<OperationError> operations;
  std::optional<Divergence> first;
  std::optional<sim::Fault> fault;
  bool pass = false;
};
// Builds the package's plan again with a trap after each completed operation and runs one call.
CompareReport compare_package(const Host& host, const Recipe& recipe, const RunOptions& options,
                              const Sampling& sampling = {});
// Element indices: all of `elements` when there are at most `samples`, else floor(i (n - 1) / (samples - 1)).
std::vector<std::uint64_t> sample_indices(std::uint64_t elements, std::uint32_t samples);
std::string compare_table(const CompareReport& report);
std::string compare_json(const CompareReport& report);

}  // namespace tw::tools
