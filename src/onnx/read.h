// ONNX files to plain values (models.md D.2). A file is refused as a whole, with everything that is wrong
// with it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "onnx/model.h"

namespace tw::onnx {

inline constexpr std::int64_t kOldestOpset = 9;

// FILE.onnx with its external data. Error{File}: no such file, damaged, larger than 2 GiB, an opset older
// than oldest_opset, model-local functions, If/Loop/Scan and other nodes with subgraphs, sparse or
// non-numeric tensors, data that does not match its shape, external data that is missing, too short or
// outside the model's folder, values that nobody produces or that have two producers, cycles. Symbolic
// extents stay symbolic.
Model read_model(const std::filesystem::path& path, std::int64_t oldest_opset = kOldestOpset);

// Gives the symbolic extents of inputs and outputs their values. Error{Usage}: an input's extent without a
// value (all of them are named, as --dim NAME=N), a name that the model does not have, a value below 1.
void bind_dims(Model& model, const std::map<std::string, std::int64_t>& values);

// A TensorProto file (.pb), as the ONNX backend tests have them. Error{File}.
Tensor read_tensor(const std::filesystem::path& path);

}  // namespace tw::onnx
