// Runs a model with our FP32 interpreter on files of raw F32 values, batch 1.
// onnx_interpret MODEL WIDTH OUTPUT_FOLDER INPUT...: every symbolic extent but the batch is WIDTH; outputs
// have the inputs' names.
#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "onnx/host.h"
#include "onnx/interpret.h"
#include "onnx/read.h"

namespace {

namespace fs = std::filesystem;
using namespace tw::onnx;

// The extents that the inputs leave open: the first axis is the batch.
std::map<std::string, std::int64_t> extents(const Model& model, std::int64_t width) {
  std::map<std::string, std::int64_t> out;
  for (const Value& input : model.inputs)
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis)
      if (input.dims[axis].value < 0)
        out[input.dims[axis].name.empty() ? fmt::format("{}.{}", input.name, axis) : input.dims[axis].name] =
            axis == 0 ? 1 : width;
  return out;
}

void read_values(const fs::path& file, std::vector<float>& values) {
  std::ifstream in(file, std::ios::binary);
  in.exceptions(std::ios::failbit | std::ios::badbit);
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(float)));
}

void write_values(const fs::path& file, const std::vector<float>& values) {
  std::ofstream out(file, std::ios::binary);
  out.exceptions(std::ios::failbit | std::ios::badbit);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
}

void interpret(int count, char** arguments) {
  Model model = read_model(arguments[1]);
  bind_dims(model, extents(model, std::stoll(arguments[2])));
  const Value& input = model.inputs.at(0);
  Tensor x{.element = input.element, .dims = dims_of(input), .floats = {}, .ints = {}};
  std::int64_t elements = 0;
  count_elements(x.dims, elements);
  x.floats.resize(static_cast<std::size_t>(elements));
  for (int i = 4; i < count; ++i) {
    read_values(arguments[i], x.floats);
    const Values outputs = run(model, {{input.name, x}});
    write_values(fs::path(arguments[3]) / fs::path(arguments[i]).filename(),
                 outputs.at(model.outputs.at(0).name).floats);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 5) throw std::invalid_argument("usage: onnx_interpret MODEL WIDTH OUTPUT_FOLDER INPUT...");
    interpret(count, arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
