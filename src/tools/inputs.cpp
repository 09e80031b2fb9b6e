#include "tools/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "import/image.h"
#include "model/tensors.h"
#include "numeric/formats.h"
#include "onnx/lower.h"
#include "onnx/read.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

onnx::Dims dims_of(const onnx::Value& value) {
  onnx::Dims dims;
  for (const onnx::Dim& d : value.dims) dims.push_back(d.value);
  return dims;
}

onnx::Tensor read_input(const fs::path& file, const onnx::Value& input) {
  if (file.extension() == ".pb") {
    onnx::Tensor tensor = onnx::read_tensor(file);
    if (tensor.dims != dims_of(input))
      throw Error(ErrorKind::File,
                  fmt::format("{}: shape {} for the input \"{}\" {}", file.string(),
                              onnx::to_string(tensor.dims), input.name, onnx::to_string(dims_of(input))));
    return tensor;
  }
  onnx::Tensor tensor{.element = input.element, .dims = dims_of(input), .floats = {}, .ints = {}};
  const std::uint64_t count = tensor::elements(onnx::graph_shape(tensor.dims));
  std::error_code code;
  const std::uint64_t bytes = fs::file_size(file, code);
  if (code || bytes != 4 * count)
    throw Error(ErrorKind::File, fmt::format("{}: {} for the input \"{}\" {} of {} B in F32", file.string(),
                                             code ? "no file" : fmt::format("{} B", bytes), input.name,
                                             onnx::to_string(tensor.dims), 4 * count));
  tensor.floats.resize(count);
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(tensor.floats.data()), static_cast<std::streamsize>(bytes));
  if (!in) throw Error(ErrorKind::Io, file.string() + ": cannot be read");
  return tensor;
}

}  // namespace

Inputs::Inputs(const Source& source, const std::vector<fs::path>& images, const InputFiles& files,
               std::uint64_t seed)
    : source_(source) {
  if (source.onnx) {
    if (!images.empty())
      throw Error(ErrorKind::Usage, "--image is for the built-in models; give --input NAME=FILE");
    draw_onnx(files, seed);
    return;
  }
  if (!files.empty()) throw Error(ErrorKind::Usage, "--input is for ONNX files; give --image FILE");
  const model::Vision& vision = source.model.vision;
  for (const graph::Value& v : source.model.graph.values) {
    if (v.kind == graph::ValueKind::Host && v.name == vision.input) shape_ = v.shape;
  }
  TW_CHECK(!shape_.empty(), "the model has no patches input");
  for (const auto& file : images) {
    const import::Image full = import::load_image(file);
    const import::Image small =
        import::resize(full, vision.resize, vision.resize,
                       vision.bicubic ? import::Filter::Bicubic : import::Filter::Bilinear);
    images_.push_back(import::patches(small, vision.side, vision.patch, vision.class_row));
  }
  if (images_.empty()) random_ = model::random_tensor(vision.input, shape_, seed);
}

void Inputs::draw_onnx(const InputFiles& files, std::uint64_t seed) {
  for (const onnx::Value& input : source_.onnx->whole.inputs) {
    const auto file = files.find(input.name);
    if (file != files.end()) {
      given_[input.name] = read_input(file->second, input);
      continue;
    }
    if (!onnx::is_floating(input.element))
      throw Error(ErrorKind::Usage,
                  fmt::format("the input \"{}\" holds {} and cannot be drawn: give --input {}=FILE.pb",
                              input.name, onnx::name_of(input.element), input.name));
    onnx::Tensor drawn{.element = input.element, .dims = dims_of(input), .floats = {}, .ints = {}};
    drawn.floats = model::random_tensor(input.name, onnx::graph_shape(drawn.dims), seed);
    given_[input.name] = std::move(drawn);
  }
  for (const auto& [name, path] : files)
    if (!given_.contains(name))
      throw Error(ErrorKind::Usage, fmt::format("--input {}: the model has no such input", name));
  known_ = onnx::run(source_.onnx->prefix, given_);
  for (const auto& [name, tensor] : given_) known_.try_emplace(name, tensor);
}

std::vector<std::size_t> Inputs::key(std::uint32_t call) const {
  std::vector<std::size_t> k;
  for (std::uint32_t b = 0; b < source_.model.config.batch && !images_.empty(); ++b) {
    k.push_back((std::size_t{call} * source_.model.config.batch + b) % images_.size());
  }
  return k;
}

std::map<std::string, std::vector<float>> Inputs::host_values(std::uint32_t call) const {
  std::map<std::string, std::vector<float>> values;
  if (source_.onnx) {
    for (const graph::Value& v : source_.model.graph.values)
      if (v.kind == graph::ValueKind::Host) values[v.name] = known_.at(v.name).floats;
    return values;
  }
  std::vector<float>& all = values[source_.model.vision.input];
  if (images_.empty()) all = random_;
  for (const std::size_t i : key(call)) all.insert(all.end(), images_[i].begin(), images_[i].end());
  TW_CHECK(all.size() == tensor::elements(shape_), "patches do not match the model's input");
  return values;
}

Arrays Inputs::results(Arrays graph_outputs) const {
  if (!source_.onnx) return graph_outputs;
  const onnx::Program& program = *source_.onnx;
  onnx::Values given;
  for (const onnx::Value& v : program.suffix.inputs) {
    const auto at = std::ranges::find(program.outputs, v.name);
    if (at == program.outputs.end()) {
      given[v.name] = known_.at(v.name);
    } else {
      given[v.name] = {
          .element = v.element,
          .dims = dims_of(v),
          .floats = std::move(graph_outputs.at(static_cast<std::size_t>(at - program.outputs.begin()))),
          .ints = {}};
    }
  }
  const onnx::Values made = onnx::run(program.suffix, given);
  Arrays out;
  for (const onnx::Value& v : program.whole.outputs) {
    const onnx::Tensor& t = made.at(v.name);
    out.push_back(t.floats);
    if (!onnx::is_floating(t.element)) out.back().assign(t.ints.begin(), t.ints.end());
  }
  return out;
}

Arrays Inputs::onnx_reference(unsigned threads) const {
  const onnx::Values made = onnx::run(source_.onnx->whole, given_, {.threads = threads});
  Arrays out;
  for (const onnx::Value& v : source_.onnx->whole.outputs) {
    const onnx::Tensor& t = made.at(v.name);
    out.push_back(t.floats);
    if (!onnx::is_floating(t.element)) out.back().assign(t.ints.begin(), t.ints.end());
  }
  return out;
}

std::vector<std::string> Inputs::output_names() const {
  std::vector<std::string> names;
  if (!source_.onnx) return {"output"};
  for (const onnx::Value& v : source_.onnx->whole.outputs) names.push_back(v.name);
  return names;
}

std::vector<std::uint8_t> encoded(const std::vector<float>& values, const std::string& dtype) {
  const bool single = dtype == "f32";
  TW_CHECK(single || dtype == "f16", "a binding of another type: " + dtype);
  std::vector<std::uint8_t> bytes(values.size() * (single ? 4 : 2));
  if (single) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  std::memcpy(bytes.data(), half.data(), bytes.size());
  return bytes;
}

std::vector<float> decoded(const std::vector<std::uint8_t>& bytes, const std::string& dtype) {
  const bool single = dtype == "f32";
  std::vector<float> values(bytes.size() / (single ? 4 : 2));
  if (single) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> half(values.size());
  std::memcpy(half.data(), bytes.data(), bytes.size());
  numeric::f16_to_f32(half, values);
  return values;
}

}  // namespace tw::tools
