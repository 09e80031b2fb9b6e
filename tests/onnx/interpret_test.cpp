// The interpreter beyond ONNX's own tests: newer operators against their formulas in double, whole models,
// refusals.
#include "onnx/interpret.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "refusal.h"

namespace tw::onnx {
namespace {

using testing::HasSubstr;

Tensor random(Dims dims, unsigned seed) {
  Tensor t{Element::Float, std::move(dims), {}, {}};
  std::int64_t count = 0;
  count_elements(t.dims, count);
  std::mt19937 rng(seed);
  for (std::int64_t i = 0; i < count; ++i)
    t.floats.push_back(static_cast<float>(rng() % 2001) / 1000.0F - 1.0F);
  return t;
}
Tensor ints(std::vector<std::int64_t> values) {
  return {Element::Int64, {static_cast<std::int64_t>(values.size())}, {}, std::move(values)};
}
Tensor floats(Dims dims, std::vector<float> values) {
  return {Element::Float, std::move(dims), std::move(values), {}};
}

Node node(const std::string& op, std::size_t inputs, std::map<std::string, Attribute> attributes = {},
          const std::string& domain = "") {
  Node n{op, domain, "n", {}, {"y"}, std::move(attributes)};
  for (std::size_t i = 0; i < inputs; ++i) n.inputs.push_back("x" + std::to_string(i));
  return n;
}
Tensor evaluate(const Node& n, std::vector<Tensor> inputs, std::int64_t opset = 23) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  return run_node(n, pointers, n.domain.empty() ? opset : 1)[0];
}
void expect_near(const Tensor& got, const Dims& dims, const std::vector<double>& expected,
                 double tolerance = 1e-5) {
  ASSERT_EQ(got.dims, dims);
  ASSERT_EQ(got.floats.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got.floats[i], expected[i], tolerance) << i;
}
// Values of the two forms at 1: 0.5 (1 + erf(1/sqrt 2)) and 0.5 (1 + tanh(sqrt(2/pi) 1.044715)).
TEST(Interpret, Gelu) {
  const Tensor x = floats({2}, {1, -2});
  expect_near(evaluate(node("Gelu", 1), {x}), {2}, {0.8413447, -0.0455003}, 1e-6);
  expect_near(evaluate(node("Gelu", 1, {{"approximate", std::string("tanh")}}), {x}), {2},
              {0.8411920, -0.0454023}, 1e-6);
  expect_near(evaluate(node("QuickGelu", 1, {}, "com.microsoft"), {x}), {2},
              {1 / (1 + std::exp(-1.702)), -2 / (1 + std::exp(3.404))}, 1e-6);
  expect_near(
      evaluate(node("BiasGelu", 2, {}, "com.microsoft"), {floats({2}, {0, -1}), floats({2}, {1, -1})}), {2},
      {0.8413447, -0.0455003}, 1e-6);
  EXPECT_FALSE(is_supported(node("Gelu", 1), 17));
}

// softmax(q k^T / sqrt(d)) v for every batch and head, in double.
std::vector<double> slow_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                                   bool causal) {
  const std::int64_t batch = q.dims[0], rows = q.dims[1], cols = k.dims[1], width = q.dims[2] / heads;
  const auto at = [&](const Tensor& t, std::int64_t b, std::int64_t i, std::int64_t h,
                      std::int64_t d) -> double {
    return t.floats[static_cast<std::size_t>((b * t.dims[1] + i) * t.dims[2] + h * width + d)];
  };
  std::vector<double> out(q.floats.size(), 0);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < rows; ++i) {
        std::vector<double> e;
        double sum = 0;
        for (std::int64_t j = 0; j < (causal ? i + 1 : cols); ++j) {
          double s = 0;
          for (std::int64_t d = 0; d < width; ++d) s += at(q, b, i, h, d) * at(k, b, j, h, d);
          e.push_back(std::exp(s / std::sqrt(static_cast<double>(width))));
          sum += e.back();
        }
        for (std::size_t j = 0; j < e.size(); ++j)
          for (std::int64_t d = 0; d < width; ++d)
            out[static_cast<std::size_t>((b * rows + i) * q.dims[2] + h * width + d)] +=
                e[j] / sum * at(v, b, static_cast<std::int64_t>(j), h, d);
      }
  return out;
}

TEST(Interpret, Attention) {
  const Tensor q = random({2, 5, 12}, 1), k = random({2, 5, 12}, 2), v = random({2, 5, 12}, 3);
  for (const bool causal : {false, true}) {
    const std::vector<double> expected = slow_attention(q, k, v, 3, causal);
    const std::int64_t flag = causal ? 1 : 0;
    expect_near(
        evaluate(
            node("Attention", 3,
                 {{"q_num_heads", std::int64_t{3}}, {"kv_num_heads", std::int64_t{3}}, {"is_causal", flag}}),
            {q, k, v}),
        q.dims, expected);
    expect_near(evaluate(node("MultiHeadAttention", 3,
                              {{"num_heads", std::int64_t{3}}, {"unidirectional", flag}}, "com.microsoft"),
                         {q, k, v}),
                q.dims, expected);
  }
}

TEST(Interpret, AttentionMasks) {
  const Tensor q = random({1, 4, 6}, 4), k = random({1, 4, 6}, 5), v = random({1, 4, 6}, 6);
  const std::vector<double> causal = slow_attention(q, k, v, 2, true);
  Tensor allowed{Element::Bool, {4, 4}, {}, {}}, added{Element::Float, {4, 4}, {}, {}};
  for (int i = 0; i < 16; ++i) {
    allowed.ints.push_back(i % 4 <= i / 4);
    added.floats.push_back(i % 4 <= i / 4 ? 0.0F : -INFINITY);
  }
  const std::map<std::string, Attribute> heads{{"q_num_heads", std::int64_t{2}},
                                               {"kv_num_heads", std::int64_t{2}}};
  expect_near(evaluate(node("Attention", 4, heads), {q, k, v, allowed}), q.dims, causal);
  expect_near(evaluate(node("Attention", 4, heads), {q, k, v, added}), q.dims, causal);
}

// Pairs as complex numbers times e^(i angle).
TEST(Interpret, RotaryEmbedding) {
  const double angle = 0.7;
  const Tensor x = floats({1, 1, 1, 4}, {1, 2, 3, 4});
  const Tensor c = floats({1, 1, 2}, {static_cast<float>(std::cos(angle)), 1}),
               s = floats({1, 1, 2}, {static_cast<float>(std::sin(angle)), 0});
  const auto turn = [&](double a, double b) {
    return std::pair{a * std::cos(angle) - b * std::sin(angle), a * std::sin(angle) + b * std::cos(angle)};
  };
  const auto [a, b] = turn(1, 3);
  expect_near(evaluate(node("RotaryEmbedding", 3), {x, c, s}), x.dims, {a, 2, b, 4}, 1e-6);
  const auto [e, f] = turn(1, 2);
  expect_near(evaluate(node("RotaryEmbedding", 3, {{"interleaved", std::int64_t{1}}}), {x, c, s}), x.dims,
              {e, f, 3, 4}, 1e-6);
}

TEST(Interpret, Norms) {
  const double r = 1 / std::sqrt(12.5 + 1e-5);
  expect_near(evaluate(node("RMSNormalization", 2), {floats({1, 2}, {3, 4}), floats({2}, {1, 2})}), {1, 2},
              {3 * r, 8 * r}, 1e-6);
  const double d = 1 / std::sqrt(4.0);  // (1, 5): mean 3, variance 4
  expect_near(
      evaluate(node("SkipLayerNormalization", 4, {}, "com.microsoft"),
               {floats({1, 2}, {1, 2}), floats({1, 2}, {0, 3}), floats({2}, {1, 1}), floats({2}, {0, 10})}),
      {1, 2}, {-2 * d, 10 + 2 * d}, 1e-6);
}

// Large enough for columns in several pieces, with groups, padding and dilation, against the definition.
TEST(Interpret, ConvolutionAgainstItsDefinition) {
  const Tensor x = random({2, 8, 33, 29}, 7), w = random({10, 4, 3, 5}, 8), b = random({10}, 9);
  const Tensor y = evaluate(node("Conv", 3,
                                 {{"group", std::int64_t{2}},
                                  {"pads", std::vector<std::int64_t>{1, 2, 0, 3}},
                                  {"strides", std::vector<std::int64_t>{2, 1}},
                                  {"dilations", std::vector<std::int64_t>{2, 1}}}),
                            {x, w, b});
  ASSERT_EQ(y.dims, (Dims{2, 10, 15, 30}));
  for (std::int64_t i = 0; i < y.size(); i += 7) {
    const std::int64_t ox = i % 30, oy = i / 30 % 15, f = i / 450 % 10, n = i / 4500;
    double sum = b.floats[static_cast<std::size_t>(f)];
    for (std::int64_t c = 0; c < 4; ++c)
      for (std::int64_t ky = 0; ky < 3; ++ky)
        for (std::int64_t kx = 0; kx < 5; ++kx) {
          const std::int64_t iy = oy * 2 + ky * 2 - 1, ix = ox + kx - 2;
          if (iy < 0 || iy >= 33 || ix < 0 || ix >= 29) continue;
          sum += static_cast<double>(
                     x.floats[static_cast<std::size_t>(((n * 8 + f / 5 * 4 + c) * 33 + iy) * 29 + ix)]) *
                 w.floats[static_cast<std::size_t>(((f * 4 + c) * 3 + ky) * 5 + kx)];
        }
    ASSERT_NEAR(y.floats[static_cast<std::size_t>(i)], sum, 1e-4) << i;
  }
}

// Equations that are matrix products, with the axes in several orders, against the sum itself.
TEST(Interpret, EinsumProducts) {
  const Tensor x = random({2, 3, 4, 5}, 21), y = random({2, 3, 6, 5}, 22), w = random({6, 2, 5, 3}, 23);
  const auto value = [](const Tensor& t, std::int64_t a, std::int64_t b, std::int64_t c,
                        std::int64_t d) -> double {
    return t.floats[static_cast<std::size_t>(((a * t.dims[1] + b) * t.dims[2] + c) * t.dims[3] + d)];
  };
  std::vector<double> scores, turned;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 3; ++h)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 6; ++j) {
          scores.push_back(0);
          for (int d = 0; d < 5; ++d) scores.back() += value(x, b, h, i, d) * value(y, b, h, j, d);
        }
  for (int j = 0; j < 6; ++j)
    for (int b = 0; b < 2; ++b)
      for (int i = 0; i < 4; ++i) {
        turned.push_back(0);
        for (int h = 0; h < 3; ++h)
          for (int d = 0; d < 5; ++d) turned.back() += value(x, b, h, i, d) * value(w, j, b, d, h);
      }
  const auto einsum = [](const char* equation) {
    return node("Einsum", 2, {{"equation", std::string(equation)}});
  };
  expect_near(evaluate(einsum("bhid,bhjd->bhij"), {x, y}), {2, 3, 4, 6}, scores);
  expect_near(evaluate(einsum("...id,...jd->...ij"), {x, y}), {2, 3, 4, 6}, scores);
  expect_near(evaluate(einsum("bhid, jbdh -> jbi"), {x, w}), {6, 2, 4}, turned);
}

TEST(Interpret, NodesThatCannotBeEvaluated) {
  const Tensor m = random({2, 3}, 1);
  const auto fails = [&](const Node& n, std::vector<Tensor> inputs) {
    return refusal([&] { evaluate(n, std::move(inputs), 17); });
  };
  EXPECT_THAT(fails(node("MatMul", 2), {m, m}),
              HasSubstr("node 'n' (MatMul): shapes [2,3] and [2,3] do not match"));
  EXPECT_THAT(fails(node("Add", 2), {m, random({4}, 1)}), HasSubstr("do not match"));
  EXPECT_THAT(fails(node("Add", 2), {m, ints({1})}), HasSubstr("types FLOAT and INT64"));
  EXPECT_THAT(fails(node("Add", 1), {m}), HasSubstr("input 1 is missing"));
  EXPECT_THAT(fails(node("Gather", 2), {m, ints({2})}), HasSubstr("index 2 of an extent of 2"));
  EXPECT_THAT(fails(node("Gather", 2), {m, ints({-3})}), HasSubstr("index -3"));
  EXPECT_THAT(fails(node("Reshape", 2), {m, ints({4, 2})}), HasSubstr("[2,3] does not fit [4,2]"));
  EXPECT_THAT(fails(node("Reshape", 2), {m, ints({-1, -1})}), HasSubstr("two extents of -1"));
  EXPECT_THAT(fails(node("Expand", 2), {m, ints({1LL << 40, 2, 3})}), HasSubstr("is not possible"));
  EXPECT_THAT(fails(node("Transpose", 1, {{"perm", std::vector<std::int64_t>{0, 0}}}), {m}),
              HasSubstr("twice"));
  EXPECT_THAT(fails(node("Softmax", 1, {{"axis", std::int64_t{2}}}), {m}), HasSubstr("axis 2 of 2"));
  EXPECT_THAT(fails(node("Div", 2), {ints({1}), ints({0})}), HasSubstr("by 0"));
  EXPECT_THAT(fails(node("Conv", 2), {random({1, 1, 2, 2}, 1), random({1, 1, 3, 3}, 1)}),
              HasSubstr("larger than its padded input"));
  EXPECT_THAT(fails(node("ConstantOfShape", 1), {ints({1 << 20, 1 << 20})}), HasSubstr("is not possible"));
  EXPECT_THAT(refusal([&] { evaluate(node("Magic", 1), {m}); }, ErrorKind::UnsupportedOp),
              HasSubstr("the operator Magic"));
}

Model chain() {  // y = Relu(x) + 1, z = Neg(y)
  Model m;
  m.opsets[""] = 17;
  m.inputs = {{"x", Element::Float, true, {{-1, "n"}, {2, ""}}}};
  m.initializers["one"] = floats({}, {1});
  m.nodes = {{"Relu", "", "r", {"x"}, {"a"}, {}},
             {"Add", "", "s", {"a", "one"}, {"y"}, {}},
             {"Neg", "", "t", {"y"}, {"z"}, {}}};
  m.outputs = {{"y", Element::Float, false, {}}, {"z", Element::Float, false, {}}};
  return m;
}

TEST(Interpret, Models) {
  const Tensor x = floats({1, 2}, {-1, 2});
  const Values out = run(chain(), {{"x", x}});
  EXPECT_EQ(out.at("y").floats, (std::vector<float>{1, 3}));
  EXPECT_EQ(out.at("z").floats, (std::vector<float>{-1, -3}));
  EXPECT_EQ(run_subset(chain(), {{"a", x}}, {"z"}).at("z").floats, (std::vector<float>{0, -3}));
  EXPECT_EQ(run_subset(chain(), {}, {"one"}).at("one").floats, std::vector<float>{1});
  const auto usage = [](const Values& inputs) {
    return refusal([&] { run(chain(), inputs); }, ErrorKind::Usage);
  };
  EXPECT_THAT(usage({}), HasSubstr("input 'x' of the model has no value"));
  EXPECT_THAT(usage({{"x", x}, {"u", x}}), HasSubstr("'u' is no input"));
  EXPECT_THAT(usage({{"x", floats({1, 3}, {1, 2, 3})}}), HasSubstr("shape [1,3], the model needs [n,2]"));
  EXPECT_THAT(usage({{"x", ints({1, 2})}}), HasSubstr("is INT64, the model needs FLOAT"));
  EXPECT_THAT(usage({{"x", floats({1, 2}, {1})}}), HasSubstr("1 values for shape [1,2]"));
  EXPECT_THAT(refusal([] { run_subset(chain(), {}, {"z"}); }, ErrorKind::Usage),
              HasSubstr("'x' has no value"));
}

TEST(Interpret, UnsupportedOperatorsAreListed) {
  Model m = chain();
  for (int i = 0; i < 5; ++i)
    m.nodes.push_back({"Magic", "", "m" + std::to_string(i), {"x"}, {"o" + std::to_string(i)}, {}});
  m.nodes.push_back({"Trick", "my.domain", "k", {"x"}, {"o"}, {}});
  const std::vector<Unsupported> found = unsupported(m);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].op_type, "Magic");
  EXPECT_EQ(found[0].count, 5);
  EXPECT_EQ(found[0].first_nodes,
            (std::vector<std::string>{"node 'm0' (Magic)", "node 'm1' (Magic)", "node 'm2' (Magic)"}));
  EXPECT_EQ(found[1].domain, "my.domain");
}

TEST(Interpret, TheSameOnAnyNumberOfThreads) {
  const Tensor x = random({3, 50000}, 11), s = random({50000}, 12);
  for (const char* op : {"Add", "Mul", "LayerNormalization"}) {
    std::vector<float> first;
    for (const unsigned threads : {1U, 2U, 4U}) {
      const Tensor* inputs[] = {&x, &s};
      Limits limits;
      limits.threads = threads;
      const std::vector<float> y = run_node(node(op, 2), inputs, 17, limits)[0].floats;
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << op;
    }
  }
}

}  // namespace
}  // namespace tw::onnx
