// Transposes that undo each other over pointwise functions and joins. Internal to onnx/.
#pragma once
#include <functional>

#include "onnx/facts.h"

namespace tw::onnx {

// A transpose goes where all that it reads can be made in its order instead: from a value of the host or a
// constant, or because a transpose before it brought the axes into the order they have. `on_device(i)`: the
// device runs node i; other nodes stay as they are.
void cancel_transposes(Model& model, Facts& facts, const std::function<bool(std::size_t)>& on_device);

}  // namespace tw::onnx
