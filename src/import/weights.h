// The parameters of a model out of a checkpoint: matched by name, checked together, read one at a time.
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "import/checkpoint.h"
#include "import/naming.h"
#include "import/scan.h"

namespace tw::import {

struct Weights {
  Checkpoint checkpoint;
  std::map<std::string, Source> sources;        // by parameter
  std::map<std::string, tensor::Shape> shapes;  // by parameter
};
// Error{File} lists all tensors that are missing, unknown, of another shape or of an integer type.
Weights open_weights(const std::filesystem::path& path, std::span<const Parameter> parameters);

// Reads every value once. Error{File} lists all tensors that hold NaN or infinite values.
Scan scan_weights(const Weights& weights, unsigned threads);

// Row-major values of one parameter. Thread safe. Error{File} when the file cannot be read any more.
std::vector<float> values_of(const Weights& weights, const std::string& parameter);

}  // namespace tw::import
