// The ONNX backend's node tests (Debian's libonnx-testdata) through import, compilation and simulation, in
// F16. Integer inputs say how and not what (shapes, axes, indices), and the vectors and kernels of batch
// norms and convolutions are weights: they are bound as constants.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "device.h"
#include "onnx/host.h"
#include "onnx/read.h"

namespace tw::device_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = "/usr/share/libonnx-testdata/data/node";

onnx::Values run_program(const onnx::Program& program, const onnx::Values& inputs) {
  const onnx::Values values = onnx::before_device(program, inputs);
  compile::Options options;
  options.plan.tiles = 64;
  options.plan.precision = tensor::Precision::F16;
  std::map<std::string, Values> data = program.parameters;
  for (const graph::Value& v : program.graph.values)
    if (v.kind == graph::ValueKind::Host) data[v.name] = values.at(v.name).floats;
  const Outcome out = run({.graph = program.graph, .options = options, .data = std::move(data)});
  EXPECT_TRUE(out.bits);
  return onnx::after_device(program, values, out.simulated);
}

enum class Verdict : std::uint8_t { Passed, Failed, Unsupported };
struct Result {
  Verdict verdict = Verdict::Failed;
  std::string text;
};

// F16 inputs and results, a few operations in FP32 or with F16 partial sums between.
bool close(float actual, float expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  return std::abs(actual - expected) <= 4e-3F + 4e-3F * std::abs(expected);
}

bool is_weight(const onnx::Model& model, const std::string& input) {
  for (const onnx::Node& node : model.nodes)
    if (node.op_type == "Conv" || node.op_type == "BatchNormalization")
      for (std::size_t i = 1; i < node.inputs.size(); ++i)
        if (node.inputs[i] == input) return true;
  return false;
}

Result check(const fs::path& folder) {
  const onnx::Model model = onnx::read_model(folder / "model.onnx", 1);
  const fs::path set = folder / "test_data_set_0";
  onnx::ImportOptions options;
  onnx::Values inputs;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const onnx::Tensor tensor = onnx::read_tensor(set / fmt::format("input_{}.pb", i));
    const onnx::Value& input = model.inputs[i];
    if (onnx::is_integer(tensor.element) || is_weight(model, input.name)) {
      options.constants[input.name] = tensor;
    } else {
      inputs[input.name] = tensor;
      for (std::size_t axis = 0; axis < input.dims.size(); ++axis)
        if (input.dims[axis].value < 0) options.dims[input.dims[axis].name] = tensor.dims[axis];
    }
  }
  const onnx::Program program = onnx::import(model, options);
  const onnx::Values outputs = run_program(program, inputs);
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const onnx::Tensor expected = onnx::read_tensor(set / fmt::format("output_{}.pb", i));
    const onnx::Tensor& actual = outputs.at(model.outputs[i].name);
    if (actual.dims != expected.dims) return {Verdict::Failed, "another shape"};
    for (std::size_t e = 0; e < expected.floats.size(); ++e)
      if (!close(actual.floats.at(e), expected.floats[e]))
        return {Verdict::Failed,
                fmt::format("element {}: {} instead of {}", e, actual.floats[e], expected.floats[e])};
    if (actual.ints != expected.ints) return {Verdict::Failed, "other integers"};
  }
  return {Verdict::Passed, ""};
}

Result judged(const fs::path& folder) {
  try {
    return check(folder);
  } catch (const Error& e) {
    const bool unsupported = e.kind == ErrorKind::UnsupportedOp || e.kind == ErrorKind::File;
    return {unsupported ? Verdict::Unsupported : Verdict::Failed, e.what()};
  }
}

// Tests whose name is test_<name> or test_<name>_...; `unsupported`: how many of them may be, each with a
// reason of the import.
void run_all(const std::vector<std::string>& names, std::size_t unsupported) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "Debian's libonnx-testdata is not installed";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    for (const std::string& wanted : names)
      if (name == "test_" + wanted || name.starts_with("test_" + wanted + "_"))
        folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  std::size_t passed = 0, refused = 0;
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const Result result = judged(folder);
    passed += result.verdict == Verdict::Passed ? 1 : 0;
    refused += result.verdict == Verdict::Unsupported ? 1 : 0;
    if (result.verdict == Verdict::Unsupported)
      fmt::print("  {}: {}\n", folder.filename().string(), result.text);
    EXPECT_NE(result.verdict, Verdict::Failed) << result.text;
  }
  fmt::print("{:<20} {:>3} passed {:>3} failed {:>3} unsupported\n", names.front(), passed,
             folders.size() - passed - refused, refused);
  EXPECT_GT(passed, 0U);
  EXPECT_EQ(refused, unsupported);
}

TEST(OnnxNodes, MatMul) { run_all({"matmul"}, 0); }
TEST(OnnxNodes, Gemm) { run_all({"gemm"}, 0); }
TEST(OnnxNodes, Softmax) { run_all({"softmax"}, 0); }
TEST(OnnxNodes, LayerNormalization) { run_all({"layer_normalization"}, 0); }
TEST(OnnxNodes, Erf) { run_all({"erf"}, 0); }
TEST(OnnxNodes, Add) { run_all({"add"}, 1); }
TEST(OnnxNodes, Sub) { run_all({"sub"}, 1); }
TEST(OnnxNodes, Mul) { run_all({"mul"}, 1); }
TEST(OnnxNodes, Div) { run_all({"div"}, 1); }
TEST(OnnxNodes, Sqrt) { run_all({"sqrt"}, 0); }
TEST(OnnxNodes, Pow) { run_all({"pow"}, 5); }
TEST(OnnxNodes, Tanh) { run_all({"tanh"}, 0); }
TEST(OnnxNodes, Sigmoid) { run_all({"sigmoid"}, 0); }
TEST(OnnxNodes, Relu) { run_all({"relu"}, 0); }
TEST(OnnxNodes, ExpLogNegAbs) { run_all({"exp", "log", "neg", "abs", "reciprocal", "hardswish"}, 0); }
TEST(OnnxNodes, MaxMinClip) { run_all({"max", "min", "clip", "sum"}, 19); }
TEST(OnnxNodes, Conv) { run_all({"basic_conv", "conv"}, 0); }
TEST(OnnxNodes, BatchNormalization) { run_all({"batchnorm"}, 2); }
TEST(OnnxNodes, LeakyRelu) { run_all({"leakyrelu"}, 0); }
TEST(OnnxNodes, Transpose) { run_all({"transpose"}, 0); }
TEST(OnnxNodes, Reshape) { run_all({"reshape", "flatten"}, 1); }
TEST(OnnxNodes, Slice) { run_all({"slice"}, 1); }
TEST(OnnxNodes, Split) { run_all({"split"}, 1); }
TEST(OnnxNodes, Concat) { run_all({"concat"}, 0); }
TEST(OnnxNodes, Gather) { run_all({"gather"}, 3); }
TEST(OnnxNodes, Squeeze) { run_all({"squeeze", "unsqueeze"}, 0); }
TEST(OnnxNodes, Expand) { run_all({"expand", "tile"}, 0); }
TEST(OnnxNodes, Reduce) { run_all({"reduce_mean", "reduce_sum", "reduce_max", "reduce_l2"}, 0); }
TEST(OnnxNodes, Cast) { run_all({"cast"}, 4); }
TEST(OnnxNodes, Identity) { run_all({"identity", "dropout"}, 5); }
TEST(OnnxNodes, Pooling) { run_all({"globalaveragepool"}, 0); }

}  // namespace
}  // namespace tw::device_test
