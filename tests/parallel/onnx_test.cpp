// The parallel loops of the ONNX interpreter: rows and ranges. Products use threads of the BLAS, which
// ThreadSanitizer does not see into.
#include <gtest/gtest.h>

#include "onnx/interpret.h"

namespace tw::onnx {
namespace {

Tensor counted(Dims dims) {
  Tensor t{Element::Float, std::move(dims), {}, {}};
  std::int64_t count = 0;
  count_elements(t.dims, count);
  for (std::int64_t i = 0; i < count; ++i) t.floats.push_back(static_cast<float>(i % 37) / 16.0F - 1.0F);
  return t;
}

std::vector<float> evaluate(const char* op, std::map<std::string, Attribute> attributes,
                            const std::vector<Tensor>& inputs, unsigned threads) {
  Node node{op, "", "n", {}, {"y"}, std::move(attributes)};
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) {
    node.inputs.push_back("x");
    pointers.push_back(&t);
  }
  Limits limits;
  limits.threads = threads;
  return run_node(node, pointers, 17, limits)[0].floats;
}

TEST(OnnxInterpreter, EqualsOneThread) {
  const Tensor x = counted({2, 4, 96, 128}), row = counted({128});
  const std::vector<std::int64_t> ones{1, 1, 1, 1}, perm{0, 3, 1, 2};
  const auto equal = [](const char* op, const std::map<std::string, Attribute>& attributes,
                        const std::vector<Tensor>& inputs) {
    EXPECT_EQ(evaluate(op, attributes, inputs, 4), evaluate(op, attributes, inputs, 1)) << op;
  };
  equal("Erf", {}, {x});
  equal("Add", {}, {x, row});
  equal("Softmax", {}, {x});
  equal("LayerNormalization", {}, {x, row, row});
  equal("ReduceMean", {{"axes", std::vector<std::int64_t>{-1}}}, {x});
  equal("Transpose", {{"perm", perm}}, {x});
  equal("MaxPool", {{"pads", ones}, {"kernel_shape", std::vector<std::int64_t>{3, 3}}}, {x});
}

}  // namespace
}  // namespace tw::onnx
