// The backend tests of ONNX itself (Debian's libonnx-testdata): stored inputs against stored outputs, made
// with NumPy and PyTorch.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "onnx/interpret.h"
#include "onnx/read.h"

namespace tw::onnx {
namespace {

namespace fs = std::filesystem;

const fs::path kData = "/usr/share/libonnx-testdata/data";
constexpr float kRelative = 1e-3F, kAbsolute = 1e-5F;

// Tests that are not run, and why.
const std::map<std::string, std::string> kSkipped = {
    {"test_training_dropout", "random numbers"},
    {"test_training_dropout_default", "random numbers"},
    {"test_training_dropout_default_mask", "random numbers"},
    {"test_training_dropout_mask", "random numbers"},
    {"test_training_dropout_zero_ratio", "training"},
    {"test_training_dropout_zero_ratio_mask", "training"},
    {"test_batchnorm_epsilon_training_mode", "training"},
    {"test_batchnorm_example_training_mode", "training"},
    {"test_cast_FLOAT_to_STRING", "strings"},
    {"test_castlike_FLOAT_to_STRING", "strings"},
    {"test_castlike_FLOAT_to_STRING_expanded", "strings"},
    {"test_cast_FLOAT_to_BFLOAT16", "stored values are cut off, the specification rounds to nearest even"},
    {"test_castlike_FLOAT_to_BFLOAT16", "stored input has another shape than the model says"},
    {"test_castlike_FLOAT_to_BFLOAT16_expanded", "stored input has another shape than the model says"},
    {"test_castlike_BFLOAT16_to_FLOAT", "stored input has another shape than the model says"},
    {"test_castlike_BFLOAT16_to_FLOAT_expanded", "stored input has another shape than the model says"},
    {"test_resize_downsample_scales_cubic_align_corners",
     "stored values divide by the unrounded extent of the result"},
    {"test_resize_downsample_scales_linear_align_corners",
     "stored values divide by the unrounded extent of the result"},
    {"test_Softsign", "broadcasting attributes of opset 6"},
    {"test_operator_add_broadcast", "broadcasting attributes of opset 6"},
    {"test_operator_add_size1_broadcast", "broadcasting attributes of opset 6"},
    {"test_operator_add_size1_right_broadcast", "broadcasting attributes of opset 6"},
    {"test_operator_add_size1_singleton_broadcast", "broadcasting attributes of opset 6"},
    {"test_operator_addconstant", "broadcasting attributes of opset 6"},
};

// What vision transformers need: every test of these must pass.
const std::set<std::string> kRequired = {"MatMul",  "Gemm",
                                         "Softmax", "LayerNormalization",
                                         "Erf",     "Add",
                                         "Mul",     "Div",
                                         "Sqrt",    "Pow",
                                         "Tanh",    "Sigmoid",
                                         "Reshape", "Transpose",
                                         "Slice",   "Split",
                                         "Concat",  "Gather",
                                         "Squeeze", "Unsqueeze",
                                         "Expand",  "ReduceMean",
                                         "Cast",    "Conv",
                                         "Where",   "Sub",
                                         "Neg",     "Exp",
                                         "Clip",    "Relu",
                                         "Einsum",  "Flatten",
                                         "Shape",   "Resize",
                                         "Pad",     "AveragePool",
                                         "MaxPool", "BatchNormalization"};

bool close(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= kAbsolute + kRelative * std::fabs(b);
}

std::string difference(const Tensor& got, const Tensor& expected) {
  if (got.element != expected.element)
    return name_of(got.element) + " instead of " + name_of(expected.element);
  if (got.dims != expected.dims) return to_string(got.dims) + " instead of " + to_string(expected.dims);
  if (got.size() != expected.size()) return "a wrong number of values";
  for (std::size_t i = 0; i < expected.floats.size(); ++i)
    if (!close(got.floats[i], expected.floats[i]))
      return fmt::format("element {}: {} instead of {}", i, got.floats[i], expected.floats[i]);
  for (std::size_t i = 0; i < expected.ints.size(); ++i)
    if (got.ints[i] != expected.ints[i])
      return fmt::format("element {}: {} instead of {}", i, got.ints[i], expected.ints[i]);
  return "";
}

enum class Verdict { Passed, Failed, Unsupported, Skipped };
struct Outcome {
  std::string test, op, text;
  Verdict verdict = Verdict::Passed;
};

// NumPy has no BFLOAT16: the tests store the bits as UINT16.
Tensor as_model_says(Tensor t, Element element) {
  if (element != Element::BFloat16 || t.element != Element::UInt16) return t;
  for (const std::int64_t bits : t.ints)
    t.floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  t.ints.clear();
  t.element = element;
  return t;
}

// The values of one test_data_set folder, by the names that the model gives them.
Values stored(const fs::path& folder, const std::string& prefix, const std::vector<Value>& names) {
  Values out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out.emplace(names[i].name,
                as_model_says(read_tensor(folder / fmt::format("{}_{}.pb", prefix, i)), names[i].element));
  return out;
}

void run_sets(const fs::path& folder, const Model& model, Outcome& outcome) {
  int sets = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    ++sets;
    const Values outputs = run(model, stored(entry.path(), "input", model.inputs));
    for (const auto& [name, expected] : stored(entry.path(), "output", model.outputs)) {
      const std::string text = difference(outputs.at(name), expected);
      if (!text.empty()) outcome = {outcome.test, outcome.op, name + ": " + text, Verdict::Failed};
    }
  }
  if (sets == 0) outcome = {outcome.test, outcome.op, "no data", Verdict::Failed};
}

// A test's operator: that of its only node that is no Constant.
std::string operator_of(const Model& model) {
  std::set<std::string> ops;
  for (const Node& n : model.nodes) ops.insert(n.op_type);
  if (ops.size() > 1) ops.erase("Constant");
  return ops.size() == 1 ? *ops.begin() : "(several)";
}

Outcome judge(const fs::path& folder) {
  Outcome outcome{folder.filename().string(), "(not read)", "", Verdict::Passed};
  try {
    const Model model = read_model(folder / "model.onnx", 1);
    outcome.op = operator_of(model);
    if (const auto skipped = kSkipped.find(outcome.test); skipped != kSkipped.end())
      return {outcome.test, outcome.op, skipped->second, Verdict::Skipped};
    if (!unsupported(model).empty()) return {outcome.test, outcome.op, "operator", Verdict::Unsupported};
    run_sets(folder, model, outcome);
  } catch (const Error& e) {
    outcome.verdict =
        e.kind == ErrorKind::File && outcome.op == "(not read)" ? Verdict::Unsupported : Verdict::Failed;
    outcome.text = e.what();
  }
  return outcome;
}

const std::vector<Outcome>& outcomes() {
  static const std::vector<Outcome> all = [] {
    std::vector<fs::path> folders;
    for (const char* part : {"node", "pytorch-converted", "pytorch-operator", "simple"})
      for (const auto& entry : fs::directory_iterator(kData / part)) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    std::vector<Outcome> out;
    for (const fs::path& folder : folders) out.push_back(judge(folder));
    return out;
  }();
  return all;
}

class Conformance : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::is_directory(kData / "node")) GTEST_SKIP() << "libonnx-testdata is not installed";
  }
};

TEST_F(Conformance, WhatIsSupportedIsRight) {
  std::map<std::string, std::map<Verdict, int>> table;
  for (const Outcome& o : outcomes()) {
    ++table[o.op][o.verdict];
    EXPECT_NE(o.verdict, Verdict::Failed) << o.test << " (" << o.op << "): " << o.text;
  }
  fmt::print("{:28}{:>8}{:>8}{:>13}{:>9}\n", "operator", "passed", "failed", "unsupported", "skipped");
  std::map<Verdict, int> total;
  for (auto& [op, n] : table) {
    fmt::print("{:28}{:>8}{:>8}{:>13}{:>9}\n", op, n[Verdict::Passed], n[Verdict::Failed],
               n[Verdict::Unsupported], n[Verdict::Skipped]);
    for (const auto& [verdict, count] : n) total[verdict] += count;
  }
  fmt::print("{:28}{:>8}{:>8}{:>13}{:>9}\n", "total", total[Verdict::Passed], total[Verdict::Failed],
             total[Verdict::Unsupported], total[Verdict::Skipped]);
  EXPECT_GE(total[Verdict::Passed], 700);
}

TEST_F(Conformance, OperatorsOfVisionTransformersPassEverything) {
  std::set<std::string> passed;
  for (const Outcome& o : outcomes()) {
    if (!kRequired.contains(o.op)) continue;
    if (o.verdict == Verdict::Passed) passed.insert(o.op);
    EXPECT_NE(o.verdict, Verdict::Unsupported) << o.test << ": " << o.text;
  }
  EXPECT_EQ(passed, kRequired);
}

// A skip that no test needs any more would hide a regression.
TEST_F(Conformance, SkippedTestsExist) {
  std::set<std::string> names;
  for (const Outcome& o : outcomes()) names.insert(o.test);
  for (const auto& [name, reason] : kSkipped) EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace tw::onnx
