#include "tools/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <utility>

#include "base/error.h"
#include "import/image.h"
#include "model/tensors.h"
#include "onnx/host.h"
#include "onnx/read.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

// In the order of `outputs`; integers as numbers.
Arrays arrays_of(onnx::Values values, const std::vector<onnx::Value>& outputs) {
  Arrays out;
  for (const onnx::Value& v : outputs) {
    onnx::Tensor& t = values.at(v.name);
    out.push_back(std::move(t.floats));
    if (!onnx::is_floating(t.element)) out.back().assign(t.ints.begin(), t.ints.end());
  }
  return out;
}

// Of each photograph; problems are gathered.
void each_image(std::span<const fs::path> files, const std::function<void(const import::Image&)>& use) {
  constexpr std::size_t kMostProblems = 50;
  std::vector<std::string> problems;
  for (const fs::path& file : files) {
    try {
      use(import::load_image(file));
    } catch (const Error& e) {
      if (e.kind != ErrorKind::File) throw;
      problems.emplace_back(e.what());
    }
  }
  if (problems.empty()) return;
  if (problems.size() == 1) throw Error(ErrorKind::File, problems.front());
  std::string text = fmt::format("{} photographs cannot be read", problems.size());
  for (std::size_t i = 0; i < problems.size() && i < kMostProblems; ++i) text += "\n  " + problems[i];
  if (problems.size() > kMostProblems)
    text += fmt::format("\n  and {} more", problems.size() - kMostProblems);
  throw Error(ErrorKind::File, text);
}

void require_finite(const fs::path& file, const onnx::Value& input, const onnx::Tensor& tensor) {
  const auto bad = std::ranges::find_if(tensor.floats, [](float x) { return !std::isfinite(x); });
  if (bad != tensor.floats.end())
    throw Error(ErrorKind::File, fmt::format("{}: element {} for the input \"{}\" is {}", file.string(),
                                             bad - tensor.floats.begin(), input.name, *bad));
}

onnx::Tensor read_input(const fs::path& file, const onnx::Value& input) {
  if (file.extension() == ".pb") {
    onnx::Tensor tensor = onnx::read_tensor(file);
    if (tensor.dims != onnx::dims_of(input))
      throw Error(ErrorKind::File, fmt::format("{}: shape {} for the input \"{}\" {}", file.string(),
                                               onnx::to_string(tensor.dims), input.name,
                                               onnx::to_string(onnx::dims_of(input))));
    return tensor;
  }
  onnx::Tensor tensor{.element = input.element, .dims = onnx::dims_of(input), .floats = {}, .ints = {}};
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

// Of an ONNX model's inputs: from files, or drawn.
onnx::Values given_values(const onnx::Program& program, const InputFiles& files, std::uint64_t seed) {
  onnx::Values given;
  for (const onnx::Value& input : program.whole.inputs) {
    const auto file = files.find(input.name);
    if (file != files.end()) {
      given[input.name] = read_input(file->second, input);
      require_finite(file->second, input, given[input.name]);
      continue;
    }
    if (!onnx::is_floating(input.element))
      throw Error(ErrorKind::Usage,
                  fmt::format("the input \"{}\" holds {} and cannot be drawn: give --input {}=FILE.pb",
                              input.name, onnx::name_of(input.element), input.name));
    onnx::Tensor drawn{.element = input.element, .dims = onnx::dims_of(input), .floats = {}, .ints = {}};
    drawn.floats = model::random_tensor(input.name, onnx::graph_shape(drawn.dims), seed);
    given[input.name] = std::move(drawn);
  }
  for (const auto& [name, path] : files)
    if (!given.contains(name))
      throw Error(ErrorKind::Usage, fmt::format("--input {}: the model has no such input", name));
  return given;
}

void require_kind(bool is_onnx, std::span<const fs::path> images, const InputFiles& files) {
  if (is_onnx && !images.empty())
    throw Error(ErrorKind::Usage, "--image is for the built-in models; give --input NAME=FILE");
  if (!is_onnx && !files.empty())
    throw Error(ErrorKind::Usage, "--input is for ONNX files; give --image FILE");
}

}  // namespace

Inputs::Inputs(const Source& source, const std::vector<fs::path>& images, const InputFiles& files,
               std::uint64_t seed, const import::Fixture* fixture)
    : source_(source), fixture_(fixture) {
  if (fixture != nullptr) {
    TW_CHECK(!source.onnx && images.empty() && files.empty(), "a fixture beside other inputs");
    return;
  }
  require_kind(source.onnx != nullptr, images, files);
  if (source.onnx) {
    given_ = given_values(*source.onnx, files, seed);
    known_ = onnx::before_device(*source.onnx, given_);
    return;
  }
  const model::Vision& vision = source.model.vision;
  for (const graph::Value& v : source.model.graph.values) {
    if (v.kind == graph::ValueKind::Host && v.name == vision.input) shape_ = v.shape;
  }
  TW_CHECK(!shape_.empty(), "the model has no patches input");
  each_image(images, [&](const import::Image& full) {
    const import::Image small =
        import::resize(full, vision.resize, vision.resize,
                       vision.bicubic ? import::Filter::Bicubic : import::Filter::Bilinear);
    images_.push_back(import::patches(small, vision.side, vision.patch, vision.class_row));
  });
  if (images_.empty()) random_ = model::random_tensor(vision.input, shape_, seed);
}

void check_inputs(const Source& source, std::span<const fs::path> images, const InputFiles& files) {
  require_kind(source.onnx != nullptr, images, files);
  each_image(images, [](const import::Image&) {});
  if (source.onnx) given_values(*source.onnx, files, 0);
}

std::vector<std::size_t> Inputs::key(std::uint32_t call) const {
  if (fixture_ != nullptr) return {call};
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
  if (const import::FixtureCase* given = expected(call)) {
    for (const auto& [name, tensor] : given->inputs) values[name] = import::values_of(tensor);
    return values;
  }
  std::vector<float>& all = values[source_.model.vision.input];
  if (images_.empty()) all = random_;
  for (const std::size_t i : key(call)) all.insert(all.end(), images_[i].begin(), images_[i].end());
  TW_CHECK(all.size() == tensor::elements(shape_), "patches do not match the model's input");
  return values;
}

const import::FixtureCase* Inputs::expected(std::uint32_t call) const {
  return fixture_ != nullptr ? &fixture_->cases.at(call) : nullptr;
}

Arrays Inputs::results(Arrays graph_outputs) const {
  if (!source_.onnx) return graph_outputs;
  return arrays_of(onnx::after_device(*source_.onnx, known_, std::move(graph_outputs)),
                   source_.onnx->whole.outputs);
}

Arrays Inputs::onnx_reference(unsigned threads) const {
  return arrays_of(onnx::run(source_.onnx->whole, given_, {.threads = threads}), source_.onnx->whole.outputs);
}

std::vector<std::string> Inputs::output_names() const {
  std::vector<std::string> names;
  if (!source_.onnx) return {"output"};
  for (const onnx::Value& v : source_.onnx->whole.outputs) names.push_back(v.name);
  return names;
}

}  // namespace tw::tools
