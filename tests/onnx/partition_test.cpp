// What of a model goes to the device, and what is said of the rest.
#include <limits>

#include "base/error.h"
#include "program.h"
#include "refusal.h"

namespace tw::onnx {
namespace {

// The largest product is a 1x1 convolution of a backbone; behind a convolution that the device lacks stands
// what the device is for.
TEST(Partition, ConvolutionsStayOnTheHostAndTheProductsBehindThemDoNot) {
  Draft d(17);
  std::string y =
      d.op("Conv", {d.input("image", {1, 32, 16, 16}), d.constant(drawn({32, 32, 1, 1}, 1, 0.1F))});
  y = d.op("Conv", {y, d.constant(drawn({32, 1, 3, 3}, 2, 0.1F))},
           {{"group", std::int64_t{32}}, {"pads", Ints{1, 1, 1, 1}}});
  y = d.reshape(y, {32, 256});
  d.output(d.op("MatMul", {d.op("Tanh", {y}), d.constant(drawn({256, 8}, 3, 0.1F))}));
  const Program p = checked(d);
  EXPECT_EQ(kinds(p).at("gemm"), 1);
  EXPECT_TRUE(p.suffix.nodes.empty());
  EXPECT_EQ(std::ranges::count(p.prefix.nodes, std::string("Conv"), &Node::op_type), 2);
  ASSERT_FALSE(p.notes.empty());
  EXPECT_NE(p.notes[0].find("2 of Conv on the host, before the device"), std::string::npos) << p.notes[0];
}

// The host joins rows of zeros to the patches; class token, registers, bias and positions are one table.
TEST(Partition, ConstantRowsAndSumsBecomeOneTable) {
  for (const bool registers : {false, true}) {
    Draft d(17);
    std::string y = d.op(
        "Conv",
        {d.input("image", {2, 3, 8, 8}), d.constant(drawn({6, 3, 4, 4}, 1, 0.1F)), d.constant(drawn({6}, 2))},
        {{"strides", Ints{4, 4}}});
    y = d.transpose(d.reshape(y, {2, 6, 4}), {0, 2, 1});
    const std::string token = d.op("Expand", {d.constant(drawn({1, 1, 6}, 3)), d.ints({2, 1, 6})});
    if (registers) y = d.op("Add", {d.constant(drawn({1, 4, 6}, 4)), y});  // positions before the join
    std::vector<std::string> parts{token, y};
    if (registers) parts.insert(parts.begin() + 1, d.constant(drawn({2, 3, 6}, 5)));
    y = d.op("Concat", parts, {{"axis", std::int64_t{1}}});
    if (!registers) y = d.op("Add", {y, d.constant(drawn({1, 5, 6}, 4))});
    d.output(d.op("Tanh", {y}));
    const Kinds all = kinds(checked(d));
    EXPECT_EQ(all, (Kinds{{"gemm", 1}, {"add", 1}, {"tanh", 1}}));
  }
}

// Rows of a product that stands behind another one stay a join.
TEST(Partition, ConstantRowsInsideTheModelStayAJoin) {
  Draft d(17);
  std::string y = d.op("MatMul", {d.input("x", {2, 4, 6}), d.constant(drawn({6, 6}, 1))});
  y = d.op("MatMul", {y, d.constant(drawn({6, 6}, 2))});
  d.output(d.op("Concat", {d.constant(drawn({2, 1, 6}, 3)), y}, {{"axis", std::int64_t{1}}}));
  EXPECT_EQ(kinds(checked(d)).at("concat"), 1);
}

// users.md L57: tied weights are one parameter of the graph, also where one of the products reads it
// transposed.
TEST(Partition, OneWeightOfSeveralProducts) {
  for (const bool transposed : {false, true}) {
    Draft d(17);
    const std::string w = d.constant(drawn({6, 6}, 1));
    std::string y = d.op("Tanh", {d.op("MatMul", {d.input("x", {4, 6}), w})});
    if (transposed)
      y = d.op("Gemm", {y, w}, {{"transB", std::int64_t{1}}});
    else
      y = d.op("MatMul", {y, w});
    d.output(y);
    const Program p = checked(d);
    EXPECT_EQ(kinds(p).at("gemm"), 2);
    EXPECT_EQ(p.parameters.size(), transposed ? 2U : 1U);
  }
}

// NaN and infinite weights of products are a bad file, all of them named; a mask may be infinite.
TEST(Partition, WeightsThatAreNotFiniteAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  Draft d(17);
  std::string y = d.input("x", {2, 4});
  for (int i = 0; i < 3; ++i) {  // rolled into one Repeat
    Tensor w = drawn({4, 4}, 1);
    if (i > 0) w.floats[5] = i == 1 ? NAN : -infinity;
    y = d.op("MatMul", {d.op("MatMul", {y, d.constant(drawn({4, 4}, 2))}), d.constant(std::move(w))});
  }
  d.output(y);
  const std::string text = refusal([&] { import(d.model, {}); }, ErrorKind::File);
  EXPECT_NE(text.find("element 5 is nan"), std::string::npos) << text;
  EXPECT_NE(text.find("element 5 is -inf"), std::string::npos) << text;
  Draft masked(17);
  y = masked.op("Add", {masked.op("MatMul", {masked.input("x", {2, 4}), masked.constant(drawn({4, 4}, 1))}),
                        masked.constant(floats({4}, {0, -infinity, 0, 0}))});
  masked.output(masked.op("Softmax", {y}, {{"axis", std::int64_t{1}}}));
  EXPECT_EQ(kinds(checked(masked)).at("softmax"), 1);
}

// All of them at once, before anything is interpreted.
TEST(Partition, NamesEveryOperatorThatNobodyCanRun) {
  Draft d(17);
  const std::string x = d.input("x", {2, 4});
  d.output(d.op("Frobnicate", {d.op("Tanh", {x})}));
  d.output(d.op("Frobnicate", {x}));
  d.output(d.op("Quux", {x}));
  const std::string text = refusal([&] { import(d.model, {}); }, ErrorKind::UnsupportedOp);
  EXPECT_NE(text.find("Frobnicate (2 nodes"), std::string::npos) << text;
  EXPECT_NE(text.find("Quux (1 nodes"), std::string::npos) << text;
}

}  // namespace
}  // namespace tw::onnx
