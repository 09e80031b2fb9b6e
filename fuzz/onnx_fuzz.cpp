// Arbitrary bytes as an ONNX model: a refusal is an Error{File}; what is accepted keeps the promises of
// model.h, running it on small inputs ends in values or an Error, and so does the import: a graph that
// graph::verify accepts, whose parts have the model's outputs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "base/error.h"
#include "onnx/import.h"
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

// Inputs of one value, symbolic extents 2; nothing where an input is not small.
bool make_inputs(const onnx::Model& model, float fill, onnx::Values& inputs) {
  for (const onnx::Value& value : model.inputs) {
    onnx::Tensor t{value.element, {}, {}, {}};
    for (const onnx::Dim& d : value.dims) t.dims.push_back(d.value);
    std::int64_t count = 0;
    if (!onnx::count_elements(t.dims, count) || count > 4096) return false;
    const auto n = static_cast<std::size_t>(count);
    onnx::is_floating(t.element) ? t.floats.assign(n, fill) : t.ints.assign(n, fill > 0 ? 1 : 0);
    inputs.emplace(value.name, std::move(t));
  }
  return true;
}

void import(const onnx::Model& model) {
  const onnx::Program program = onnx::import(model, {});
  if (!graph::verify(program.graph).empty() || program.outputs.size() != program.graph.outputs.size() ||
      program.suffix.outputs.size() != model.outputs.size())
    std::abort();
}

void run(onnx::Model model) {
  for (const auto& [name, t] : model.initializers) check(t);
  try {
    std::map<std::string, std::int64_t> dims;
    for (const onnx::Value& value : model.inputs)
      for (const onnx::Dim& d : value.dims)
        if (!d.name.empty() && d.value < 0) dims[d.name] = 2;
    onnx::bind_dims(model, dims);
    if (model.nodes.size() > 400) return;
    const onnx::Limits limits{.elements = 1 << 14, .work = 1 << 20, .threads = 1};
    for (const float fill : {1.0F, 0.0F}) {
      onnx::Values inputs;
      if (!make_inputs(model, fill, inputs)) return;
      for (const auto& [name, t] : onnx::run(model, inputs, limits)) check(t);
    }
    import(model);  // interprets it on zeros, without limits
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
