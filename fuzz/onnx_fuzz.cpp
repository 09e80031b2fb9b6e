// Arbitrary bytes as an ONNX model: a refusal is an Error{File}; what is accepted keeps the promises of
// model.h, and running it on small inputs ends in values or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "base/error.h"
#include "onnx/interpret.h"
#include "onnx/read.h"
#include "scratch_file.h"

namespace {

using namespace tw;

void check(const onnx::Tensor& t) {
  std::int64_t count = 0;
  if (!onnx::count_elements(t.dims, count) || t.size() != count || (!t.floats.empty() && !t.ints.empty()))
    std::abort();
}

// Inputs of ones, symbolic extents 2; nothing where an input is not small.
bool make_inputs(const onnx::Model& model, onnx::Values& inputs) {
  for (const onnx::Value& value : model.inputs) {
    onnx::Tensor t{value.element, {}, {}, {}};
    for (const onnx::Dim& d : value.dims) t.dims.push_back(d.value);
    std::int64_t count = 0;
    if (!onnx::count_elements(t.dims, count) || count > 4096) return false;
    const auto n = static_cast<std::size_t>(count);
    onnx::is_floating(t.element) ? t.floats.assign(n, 1.0F) : t.ints.assign(n, 1);
    inputs.emplace(value.name, std::move(t));
  }
  return true;
}

void run(onnx::Model model) {
  for (const auto& [name, t] : model.initializers) check(t);
  try {
    std::map<std::string, std::int64_t> dims;
    for (const onnx::Value& value : model.inputs)
      for (const onnx::Dim& d : value.dims)
        if (!d.name.empty() && d.value < 0) dims[d.name] = 2;
    onnx::bind_dims(model, dims);
    onnx::Values inputs;
    if (model.nodes.size() > 64 || !make_inputs(model, inputs)) return;
    for (const auto& [name, t] : onnx::run(model, inputs, {1 << 14, 1 << 20, 1})) check(t);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::ScratchFile file(".onnx");
  try {
    run(onnx::read_model(file.write(data, size), 1));
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  return 0;
}
