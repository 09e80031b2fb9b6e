#include "onnx/host.h"

#include <algorithm>
#include <utility>

namespace tw::onnx {

Values before_device(const Program& program, const Values& inputs, const Limits& limits) {
  Values values = run(program.prefix, inputs, limits);
  for (const auto& [name, tensor] : inputs) values.try_emplace(name, tensor);
  return values;
}

Values after_device(const Program& program, const Values& before, std::vector<std::vector<float>> outputs,
                    const Limits& limits) {
  Values given;
  for (const Value& v : program.suffix.inputs) {
    const auto at = std::ranges::find(program.outputs, v.name);
    if (at == program.outputs.end()) {
      given[v.name] = before.at(v.name);
      continue;
    }
    std::vector<float>& values = outputs.at(static_cast<std::size_t>(at - program.outputs.begin()));
    given[v.name] = {.element = v.element, .dims = dims_of(v), .floats = std::move(values), .ints = {}};
  }
  return run(program.suffix, given, limits);
}

Dims dims_of(const Value& value) {
  Dims dims;
  for (const Dim& d : value.dims) dims.push_back(d.value);
  return dims;
}

}  // namespace tw::onnx
