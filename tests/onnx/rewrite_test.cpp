// What rewriting for the device must not change: names, element types, order, and models that have little in
// them.
#include "base/error.h"
#include "program.h"

namespace tw::onnx {
namespace {

Tensor half(Tensor t) {
  t.element = Element::Float16;
  for (float& v : t.floats) v = round_to(Element::Float16, v);
  return t;
}

// Values of the model may be called as a rewrite would call its own.
TEST(Rewrite, NamesOfTheModelStay) {
  Draft d(14);
  std::string y = d.op("MatMul", {d.input("x", {1, 5, 6}), d.constant(drawn({6, 4}, 1))});
  y = d.reshape(d.transpose(y, {0, 2, 1}), {1, 4, 1, 5});
  const auto named = [&](const std::string& name) {
    d.model.nodes.back().outputs[0] = name;
    return name;
  };
  d.model.initializers["bn.bias"] = drawn({4}, 2);
  for (const char* name : {"bn", "bn2"}) {
    d.op("BatchNormalization", {y, d.constant(drawn({4}, 3)), "bn.bias", d.constant(drawn({4}, 4)),
                                d.constant(floats({4}, {1, 2, 3, 4}))});
    y = named(name);
  }
  d.op("Tanh", {y});
  y = named("c.rows");
  d.op("Conv", {y, d.constant(drawn({3, 4, 1, 1}, 5))});
  y = named("c");
  d.output(d.op("Add", {d.op("ReduceMean", {"c.rows"}, {{"axes", Ints{1}}}), y}));
  checked(d);
}

TEST(Rewrite, HalfPrecisionModelsKeepTheirTypes) {
  Draft d(17);
  std::string x = d.op("Cast", {d.input("image", {1, 3, 4, 4})}, {{"to", std::int64_t{10}}});
  std::string y = d.op("Conv", {x, d.constant(half(drawn({6, 3, 2, 2}, 1))), d.constant(half(drawn({6}, 2)))},
                       {{"strides", Ints{2, 2}}});
  y = d.transpose(d.reshape(y, {1, 6, 4}), {0, 2, 1});
  y = d.op("Concat", {d.constant(half(drawn({1, 1, 6}, 3))), y}, {{"axis", std::int64_t{1}}});
  y = d.op("Add", {y, d.constant(half(drawn({1, 5, 6}, 4)))});
  d.output(d.op("Cast", {d.op("Tanh", {y})}, {{"to", std::int64_t{1}}}));
  EXPECT_EQ(kinds(checked(d, 1e-2)).count("concat"), 0U);
}

TEST(Rewrite, TransposesThatAreNoneLeaveNoNames) {
  Draft d(17);
  std::string y = d.op("Relu", {d.op("MatMul", {d.input("x", {1, 1, 6}), d.constant(drawn({6, 6}, 1))})});
  y = d.transpose(d.transpose(y, {1, 0, 2}), {1, 0, 2});
  d.output(d.op("MatMul", {d.transpose(y, {0, 1, 2}), d.constant(drawn({6, 3}, 2))}));
  checked(d);
}

TEST(Rewrite, ChainsOfAnyLengthEnd) {
  Draft d(17);
  std::string y = d.op("MatMul", {d.input("x", {2, 5, 6}), d.constant(drawn({6, 6}, 1))});
  y = d.transpose(y, {0, 2, 1});
  for (int i = 0; i < 3000; ++i) y = d.op(i % 2 == 0 ? "Relu" : "Tanh", {y});
  d.output(d.op("MatMul", {d.transpose(y, {0, 2, 1}), d.constant(drawn({6, 3}, 2))}));
  checked(d);
}

TEST(Rewrite, OneValueMayHaveTwoNames) {
  Draft d(17);
  const std::string y = d.op("Tanh", {d.op("MatMul", {d.input("x", {4, 6}), d.constant(drawn({6, 6}, 1))})});
  d.output(y);
  d.output(d.op("Identity", {y}));
  const Program p = checked(d);
  EXPECT_NE(p.graph.outputs.at(0), p.graph.outputs.at(1));
}

TEST(Rewrite, PartsThatNobodyReads) {
  Draft d(17);
  const std::string y = d.op("MatMul", {d.input("x", {4, 6}), d.constant(drawn({6, 6}, 1))});
  const std::vector<std::string> parts = d.many(2, "Split", {y, d.ints({2, 4})}, {{"axis", std::int64_t{1}}});
  d.model.nodes.back().outputs[0] = "";
  d.output(d.op("Tanh", {parts[1]}));
  checked(d);
}

TEST(Rewrite, ConvolutionsOfPaddingAloneStayOnTheHost) {
  Draft d(17);
  const std::string y = d.op("MatMul", {d.input("x", {1, 5, 6}), d.constant(drawn({6, 4}, 1))});
  d.output(d.op("Conv",
                {d.reshape(d.transpose(y, {0, 2, 1}), {1, 4, 5, 1}), d.constant(drawn({3, 4, 1, 1}, 2))},
                {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{3, 3}}}));
  checked(d);
}

TEST(Rewrite, BadBiasesAndEmptyJoinsAreNoCrash) {
  for (const bool integers : {true, false}) {
    Draft d(14);
    const Tensor bias =
        integers ? Tensor{.element = Element::Int64, .dims = {4}, .floats = {}, .ints = {1, 2, 3, 4}}
                 : drawn({1}, 3);
    std::string y =
        d.op("Conv", {d.input("x", {1, 2, 3, 3}), d.constant(drawn({4, 2, 1, 1}, 1)), d.constant(bias)});
    y = d.op("BatchNormalization", {y, d.constant(drawn({4}, 4)), d.constant(drawn({4}, 5)),
                                    d.constant(drawn({4}, 6)), d.constant(floats({4}, {1, 1, 1, 1}))});
    d.output(d.op("MatMul", {y, d.constant(drawn({3, 3}, 7))}));
    EXPECT_THROW(import(d.model, {}), Error);
  }
  Draft empty(17);
  const std::string y = empty.op("MatMul", {empty.input("x", {1, 5, 6}), empty.constant(floats({6, 0}, {}))});
  empty.output(empty.op("Concat", {empty.constant(floats({1, 1, 0}, {})), y}, {{"axis", std::int64_t{1}}}));
  empty.output(empty.op("Tanh", {empty.input("z", {2})}));
  checked(empty);
}

}  // namespace
}  // namespace tw::onnx
