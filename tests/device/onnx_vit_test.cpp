// A small ViT as exporters write it, through import, compilation and simulation: bits equal to the exact
// interpreter's, close to the ONNX interpreter on the whole model.
#include "../onnx/program.h"
#include "device.h"

namespace tw::onnx {
namespace {

constexpr std::int64_t kWidth = 32, kHeads = 4, kHead = 8, kPatches = 4;

struct Form {
  std::int64_t batch = 1;
  bool class_token = true, rotary = false, tanh_gelu = false;
  int layers = 1;  // more than one: a Repeat
};

std::string linear(Draft& d, const std::string& x, std::int64_t in, std::int64_t out, unsigned seed) {
  const float size = 1.5F / std::sqrt(static_cast<float>(in));
  return d.op("Add", {d.op("MatMul", {x, d.constant(drawn({in, out}, seed, size))}),
                      d.constant(drawn({out}, seed + 1, 0.2F))});
}

std::string norm(Draft& d, const std::string& x, unsigned seed) {
  const Attributes last{{"axes", Ints{-1}}};
  const std::string c = d.op("Sub", {x, d.op("ReduceMean", {x}, last)});
  const std::string v = d.op("ReduceMean", {d.op("Pow", {c, d.scalar(2)})}, last);
  const std::string y = d.op("Div", {c, d.op("Sqrt", {d.op("Add", {v, d.scalar(1e-5F)})})});
  return d.op("Add",
              {d.op("Mul", {y, d.constant(drawn({kWidth}, seed))}), d.constant(drawn({kWidth}, seed + 1))});
}

std::string rotated(Draft& d, const std::string& x, std::int64_t tokens) {
  const auto half = [&](std::int64_t start) {
    return d.op("Slice", {x, d.ints({start}), d.ints({start + kHead / 2}), d.ints({3})});
  };
  const std::string turned =
      d.op("Concat", {d.op("Neg", {half(kHead / 2)}), half(0)}, {{"axis", std::int64_t{-1}}});
  return d.op("Add", {d.op("Mul", {x, d.constant(drawn({tokens, kHead}, 31))}),
                      d.op("Mul", {turned, d.constant(drawn({tokens, kHead}, 32))})});
}

std::string block(Draft& d, const std::string& x, std::int64_t tokens, const Form& f, unsigned seed) {
  const std::string y = linear(d, norm(d, x, seed + 1), kWidth, 3 * kWidth, seed + 3);
  const std::string all = d.transpose(d.reshape(y, {f.batch, tokens, 3, kHeads, kHead}), {2, 0, 3, 1, 4});
  std::vector<std::string> three = d.many(3, "Split", {all}, {{"axis", std::int64_t{0}}});
  for (std::string& part : three) part = d.op("Squeeze", {part, d.ints({0})});
  if (f.rotary)
    for (std::size_t i = 0; i < 2; ++i) three[i] = rotated(d, three[i], tokens);
  const std::string q = d.op("Mul", {three[0], d.scalar(1 / std::sqrt(8.0F))});
  const std::string scores = d.op("MatMul", {q, d.transpose(three[1], {0, 1, 3, 2})});
  const std::string a = d.op("MatMul", {d.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), three[2]});
  const std::string m = d.reshape(d.transpose(a, {0, 2, 1, 3}), {f.batch, tokens, kWidth});
  const std::string r = d.op("Add", {x, linear(d, m, kWidth, kWidth, seed + 5)});
  const std::string up = linear(d, norm(d, r, seed + 7), kWidth, 2 * kWidth, seed + 9);
  std::string g;
  if (f.tanh_gelu) {
    const std::string cube = d.op("Mul", {d.op("Pow", {up, d.scalar(3)}), d.scalar(0.044715F)});
    const std::string t = d.op("Tanh", {d.op("Mul", {d.op("Add", {up, cube}), d.scalar(0.7978846F)})});
    g = d.op("Mul", {d.op("Mul", {up, d.scalar(0.5F)}), d.op("Add", {t, d.scalar(1)})});
  } else {
    const std::string e = d.op("Erf", {d.op("Div", {up, d.scalar(1.4142135F)})});
    g = d.op("Mul", {d.op("Mul", {up, d.op("Add", {e, d.scalar(1)})}), d.scalar(0.5F)});
  }
  return d.op("Add", {r, linear(d, g, 2 * kWidth, kWidth, seed + 11)});
}

// Multi-head pooling by a probe whose query is constant.
std::string pooled(Draft& d, const std::string& x, std::int64_t tokens, std::int64_t batch) {
  const auto heads = [&](unsigned seed) {
    return d.transpose(d.reshape(linear(d, x, kWidth, kWidth, seed), {batch, tokens, kHeads, kHead}),
                       {0, 2, 1, 3});
  };
  const std::string q = d.constant(drawn({batch, kHeads, 1, kHead}, 41));
  const std::string s = d.op("MatMul", {q, d.transpose(heads(43), {0, 1, 3, 2})});
  const std::string y = d.op("MatMul", {d.op("Softmax", {s}, {{"axis", std::int64_t{-1}}}), heads(45)});
  return linear(d, d.reshape(d.transpose(y, {0, 2, 1, 3}), {batch, kWidth}), kWidth, 16, 47);
}

Draft model(const Form& f) {
  Draft d(14);
  const std::string image = d.input("image", {f.batch, 3, 8, 8});
  const std::string conv = d.op(
      "Conv", {image, d.constant(drawn({kWidth, 3, 4, 4}, 51, 0.2F)), d.constant(drawn({kWidth}, 52, 0.2F))},
      {{"strides", Ints{4, 4}}, {"kernel_shape", Ints{4, 4}}});
  std::string x = d.transpose(d.reshape(conv, {f.batch, kWidth, kPatches}), {0, 2, 1});
  const std::int64_t tokens = kPatches + (f.class_token ? 1 : 0);
  if (f.class_token) {
    const std::string first =
        d.op("Expand", {d.constant(drawn({1, 1, kWidth}, 53)), d.ints({f.batch, 1, kWidth})});
    x = d.op("Concat", {first, x}, {{"axis", std::int64_t{1}}});
  }
  x = d.op("Add", {x, d.constant(drawn({1, tokens, kWidth}, 54, 0.5F))});
  for (int i = 0; i < f.layers; ++i) x = block(d, x, tokens, f, 100U * static_cast<unsigned>(i));
  d.output(
      f.class_token
          ? linear(d,
                   d.op("Gather",
                        {x, d.constant({.element = Element::Int64, .dims = {}, .floats = {}, .ints = {0}})},
                        {{"axis", std::int64_t{1}}}),
                   kWidth, 16, 55)
          : pooled(d, x, tokens, f.batch));
  return d;
}

void runs(const Form& f) {
  const Draft d = model(f);
  const Program p = checked(d);
  ASSERT_EQ(p.graph.repeats.size(), f.layers > 1 ? 1U : 0U);
  if (f.layers > 1) {
    EXPECT_EQ(p.graph.repeats[0].count, static_cast<std::uint32_t>(f.layers));
    EXPECT_EQ(p.graph.repeats[0].carried_in.size(), 1U);
  }
  EXPECT_EQ(kinds(p).at("attention"), f.class_token ? 1 : 2);
  EXPECT_EQ(kinds(p).at("layer_norm"), 2);
  EXPECT_EQ(kinds(p).at(f.tanh_gelu ? "gelu" : "gelu_erf"), 1);
  EXPECT_EQ(kinds(p).contains("rope"), f.rotary);
  const Values inputs{{"image", drawn({f.batch, 3, 8, 8}, 61)}};
  const Values values = before_device(p, inputs);
  device_test::Case c{.graph = p.graph, .options = {}, .data = p.parameters};
  c.options.plan.tiles = 32;
  c.options.plan.precision = tensor::Precision::F16;
  for (const graph::Value& v : p.graph.values)
    if (v.kind == graph::ValueKind::Host) c.data[v.name] = values.at(v.name).floats;
  const device_test::Outcome out = device_test::run(c);
  EXPECT_TRUE(out.bits);
  const Values whole = run(p.whole, inputs);
  EXPECT_GT(ref::minimum_cosine(out.simulated.at(0), whole.at(d.model.outputs[0].name).floats, 16), 0.999);
}

TEST(OnnxVit, ClassToken) { runs({}); }
TEST(OnnxVit, ClassTokenTwoImages) { runs({.batch = 2}); }
TEST(OnnxVit, RotaryAndClassToken) { runs({.rotary = true}); }
TEST(OnnxVit, EqualLayersAreARepeat) { runs({.batch = 2, .rotary = true, .layers = 3}); }
TEST(OnnxVit, TwoLayersBeforeAProbe) { runs({.class_token = false, .tanh_gelu = true, .layers = 2}); }
TEST(OnnxVit, PoolingByAProbe) { runs({.class_token = false, .tanh_gelu = true}); }
TEST(OnnxVit, PoolingByAProbeTwoImages) { runs({.batch = 2, .class_token = false, .rotary = true}); }

}  // namespace
}  // namespace tw::onnx
