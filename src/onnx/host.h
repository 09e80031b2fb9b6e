// The host's share of an imported model: what runs before the device and after it.
#pragma once
#include "onnx/import.h"
#include "onnx/interpret.h"

namespace tw::onnx {

// What is known before the device runs: the inputs and the prefix's results, the graph's host values among
// them.
Values before_device(const Program& program, const Values& inputs, const Limits& limits = {});
// The model's outputs, from those values and the graph's outputs in its order.
Values after_device(const Program& program, const Values& before, std::vector<std::vector<float>> outputs,
                    const Limits& limits = {});

Dims dims_of(const Value& value);  // of a bound one

}  // namespace tw::onnx
