// Every general operation on the simulated device, widths odd and even: the same bits as the exact
// interpreter, and FP32's numbers up to the rounding of F16.
#include "device.h"

namespace tw::device_test {
namespace {

using graph::Builder;
using numeric::Binary;
using numeric::Reduction;
using numeric::Unary;
using tensor::Shape;

compile::Options few_tiles(std::uint32_t tiles = 24) {
  compile::Options o;
  o.plan.tiles = tiles;
  o.plan.precision = tensor::Precision::F16;
  return o;
}

template <class Make>
void expect_close(const Shape& shape, Make&& make, double tolerance = 4e-3) {
  SCOPED_TRACE(tensor::to_string(shape));
  Builder b("general");
  const ValueId x = b.host("x", shape);
  const Outcome out = run({.graph = b.finish({make(b, x)}), .options = few_tiles()});
  EXPECT_TRUE(out.bits);
  EXPECT_LT(out.max_error, tolerance);
}

TEST(General, UnaryFunctions) {
  for (const Unary f :
       {Unary::GeluErf, Unary::QuickGelu, Unary::Silu, Unary::Relu, Unary::Tanh, Unary::Sigmoid,
        Unary::HardSwish, Unary::Erf, Unary::Exp, Unary::Negate, Unary::Absolute})
    for (const Shape& shape : {Shape{3, 5}, Shape{2, 7, 6}, Shape{10}, Shape{7}}) {
      SCOPED_TRACE(name_of(f));
      expect_close(shape, [&](Builder& b, ValueId x) { return b.unary("f", f, x); });
    }
}

TEST(General, BinaryFunctionsBroadcast) {
  const Shape shape{2, 3, 4};
  for (const Shape& other : {Shape{2, 3, 4}, Shape{3, 4}, Shape{4}, Shape{1}, Shape{2, 3, 1}, Shape{2, 1, 1},
                             Shape{3, 1}, Shape{5, 2, 3, 4}})
    for (const bool first : {true, false}) {
      SCOPED_TRACE(tensor::to_string(other));
      expect_close(shape, [&](Builder& b, ValueId x) {
        const ValueId y = b.host("y", other);
        return b.binary("f", Binary::Subtract, first ? x : y, first ? y : x);
      });
    }
  for (const Binary f : {Binary::Multiply, Binary::Maximum, Binary::Minimum})
    expect_close({3, 5}, [&](Builder& b, ValueId x) { return b.binary("f", f, x, b.parameter("y", {5})); });
}

TEST(General, AddTakesEveryBroadcast) {
  for (const auto& [x, y] : std::vector<std::pair<Shape, Shape>>{{{3, 5}, {5}},
                                                                 {{2, 3, 4}, {2, 1, 4}},
                                                                 {{3, 1}, {1, 4}},
                                                                 {{6}, {6}},
                                                                 {{6}, {1, 1, 6}},
                                                                 {{1, 1, 6}, {6}},
                                                                 {{5}, {1}},
                                                                 {{2, 3, 5}, {1}}})
    expect_close(x, [&](Builder& b, ValueId v) { return b.add("add", v, b.host("y", y)); });
}

// A parameter has a home for every precision and place that it is read in; a cast works on rows of its own.
TEST(General, ParametersAreReadInAnyWay) {
  expect_close({4, 16}, [](Builder& b, ValueId x) {
    const ValueId c = b.parameter("c", {1, 16});
    const ValueId row = b.reshape("row", c, {16});
    const ValueId y = b.binary("general", Binary::Multiply, x, row);
    return b.add("sum", b.binary("again", Binary::Subtract, y, c), c);
  });
  expect_close({4, 16}, [](Builder& b, ValueId x) {
    const ValueId w = b.parameter("w", {16, 16});
    return b.binary("mul", Binary::Multiply, b.gemm("p", x, w), b.slice("rows", w, 0, 3, 4));
  });
}

TEST(General, Movements) {
  expect_close({4, 6}, [](Builder& b, ValueId x) { return b.transpose("t", x, {1, 0}); });
  expect_close({2, 3, 5}, [](Builder& b, ValueId x) { return b.transpose("t", x, {2, 0, 1}); });
  expect_close({2, 3, 4}, [](Builder& b, ValueId x) { return b.reshape("r", x, {4, 6}); });
  expect_close({2, 3, 4}, [](Builder& b, ValueId x) { return b.reshape("r", x, {3, 8}); });
  expect_close({2, 3, 5}, [](Builder& b, ValueId x) { return b.reshape("r", x, {30}); });
  expect_close({30}, [](Builder& b, ValueId x) { return b.reshape("r", x, {5, 6}); });
  expect_close({4, 9}, [](Builder& b, ValueId x) { return b.slice("s", x, 1, 1, 3, 3); });
  expect_close({4, 8}, [](Builder& b, ValueId x) { return b.slice("s", x, 1, 1, 3); });
  expect_close({9, 8}, [](Builder& b, ValueId x) { return b.slice("s", x, 0, 2, 3, 2); });
  expect_close({3, 1}, [](Builder& b, ValueId x) { return b.expand("e", x, {2, 3, 6}); });
  expect_close({1}, [](Builder& b, ValueId x) { return b.expand("e", x, {3, 3}); });
  expect_close({2, 3, 4}, [](Builder& b, ValueId x) {
    return b.transpose("t", b.reshape("r", b.transpose("u", x, {0, 2, 1}), {4, 6}), {1, 0});
  });
}

TEST(General, Concat) {
  for (const std::uint32_t axis : {0U, 1U, 2U})
    expect_close({2, 3, 5}, [&](Builder& b, ValueId x) {
      Shape other{2, 3, 5};
      other[axis] = 4;
      return b.concat("c", {x, b.host("y", other), x}, axis);
    });
  expect_close({1, 16, 32},
               [](Builder& b, ValueId x) { return b.concat("c", {b.parameter("class", {1, 1, 32}), x}, 1); });
}

TEST(General, RowOperations) {
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 7, 6}, Shape{2, 2, 3, 9}, Shape{11}}) {
    expect_close(shape, [](Builder& b, ValueId x) { return b.softmax("s", x); });
    for (const Reduction f : {Reduction::Sum, Reduction::Mean, Reduction::Maximum})
      expect_close(shape, [&](Builder& b, ValueId x) { return b.reduce("r", f, x); });
    expect_close(shape, [&](Builder& b, ValueId x) {
      const ValueId scale = b.parameter("scale", {shape.back()}), bias = b.parameter("bias", {shape.back()});
      return b.layer_norm("n", x, scale, bias, 1e-5F);
    });
    expect_close(shape, [](Builder& b, ValueId x) { return b.gelu("g", x); });
  }
}

TEST(General, Rope) {
  for (const bool interleaved : {true, false})
    expect_close({4, 9, 8}, [&](Builder& b, ValueId x) {
      return b.rope("r", x, b.parameter("cosine", {9, 8}), b.parameter("sine", {9, 8}), interleaved);
    });
}

TEST(General, ProductsOfActivations) {
  for (const auto& [x, y] : std::vector<std::pair<Shape, Shape>>{{{3, 4}, {4, 3}},
                                                                 {{2, 3, 4}, {2, 4, 5}},
                                                                 {{1, 2, 3, 4}, {1, 2, 4, 3}},
                                                                 {{5, 70}, {3, 70, 17}},
                                                                 {{2, 1, 9, 7}, {3, 7, 6}}})
    expect_close(x, [&](Builder& b, ValueId v) { return b.gemm("p", v, b.host("y", y)); }, 2e-2);
}

TEST(General, DenseProductsOfOddExtents) {
  for (const auto& [m, k, n] : std::vector<std::array<std::uint32_t, 3>>{{3, 5, 7}, {1, 33, 16}, {17, 31, 9}})
    for (const tensor::Precision precision : {tensor::Precision::F16, tensor::Precision::F8}) {
      SCOPED_TRACE(k);
      Builder b("dense");
      const ValueId x = b.host("x", {m, k}), w = b.parameter("w", {k, n}), bias = b.parameter("b", {n});
      compile::Options options = few_tiles();
      options.plan.precision = precision;
      const Outcome out =
          run({.graph = b.finish({b.add("add", b.gemm("p", x, w), bias)}), .options = options});
      EXPECT_TRUE(out.bits);
      EXPECT_GT(out.cosine, 0.99);
    }
}

// Without an exchange phase all work stands between two rendezvous of the host: it is cycles of the call all
// the same.
TEST(General, ProgramsWithoutExchangeHaveCycles) {
  Builder b("alone");
  Case c{.graph = b.finish({b.unary("f", Unary::Tanh, b.host("x", {4, 8}))}), .options = few_tiles(1)};
  draw(c);
  Progress quiet;
  const compile::Result built = compile::compile(c600(), c.graph, c.options, quiet);
  ASSERT_TRUE(built.program.phases.empty());
  const sim::CallResult call =
      call_once(built, [&](const std::string& name) -> const Values& { return c.data.at(name); });
  EXPECT_EQ(static_cast<double>(call.stats.cycles), built.report.cycles_scheduled);
  EXPECT_GT(call.stats.cycles, 330U);  // the launch of one kernel, docs/costs.md
  EXPECT_EQ(call.stats.compute_cycles + call.stats.sync_cycles, call.stats.cycles);
}

}  // namespace
}  // namespace tw::device_test
