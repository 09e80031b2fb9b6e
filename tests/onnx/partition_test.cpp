// What of a model goes to the device, and what is said of the rest.
#include "base/error.h"
#include "program.h"

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

// All of them at once, before anything is interpreted.
TEST(Partition, NamesEveryOperatorThatNobodyCanRun) {
  Draft d(17);
  const std::string x = d.input("x", {2, 4});
  d.output(d.op("Frobnicate", {d.op("Tanh", {x})}));
  d.output(d.op("Frobnicate", {x}));
  d.output(d.op("Quux", {x}));
  try {
    import(d.model, {});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::UnsupportedOp);
    EXPECT_NE(std::string(e.what()).find("Frobnicate (2 nodes"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("Quux (1 nodes"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tw::onnx
