// The parameters of a model out of a checkpoint: matched by name, checked together, read one at a time.
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "import/checkpoint.h"
#include "import/naming.h"

namespace tw::import {

struct Weights {
  Checkpoint checkpoint;
  std::map<std::string, Source> sources;        // by parameter
  std::map<std::string, tensor::Shape> shapes;  // by parameter
};
// Error{File} lists all tensors that are missing, unknown, of another shape or of an integer type.
Weights open_weights(const std::filesystem::path& path, std::span<const Parameter> parameters);

struct Scan {
  std::uint64_t overflowing =
      0;  // finite values that F16 cannot hold: they become infinite where they are stored as F16
  std::uint64_t vanishing = 0;    // values other than zero that become zero in F16
  std::string first_overflowing;  // the tensor
};
// Reads every value once. Error{File} lists all tensors that hold NaN or infinite values.
Scan scan_weights(const Weights& weights, unsigned threads);

// Row-major values of one parameter. Thread safe. Error{File} when the file cannot be read any more.
std::vector<float> values_of(const Weights& weights, const std::string& parameter);

}  // namespace tw::import
