// PE-Core L/14 (models.md B.2) and its rotary positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "model/model.h"
#include "model/rope.h"
#include "model/tensors.h"

namespace tw::model {
namespace {

using graph::Graph;
using graph::Op;
using graph::OpKind;
using graph::Shape;

constexpr std::size_t kWidth = 64;

Model build_core(std::uint32_t layers = 0, std::uint32_t batch = 1, bool fuse = true) {
  Config c;
  c.name = "pe-core-l14";
  c.layers = layers;
  c.batch = batch;
  c.fuse_qkv = fuse;
  return build(c);
}
const Op& producer(const std::vector<Op>& ops, ValueId value) {
  return *std::ranges::find_if(ops, [&](const Op& op) { return op.results.front() == value; });
}

// Angles of models.md B.2, channels 0, 2, 30, 32, 34, 62; to the digits printed there.
TEST(RopeTables, HaveTheSpecifiedAngles) {
  const RopeTables t = rope_tables(24, kWidth);
  ASSERT_EQ(t.cosine.size(), 577U * 64);
  ASSERT_EQ(t.sine.size(), 577U * 64);
  const std::vector<std::pair<std::size_t, std::vector<double>>> tokens = {
      {123, {3.0, 1.687024, 0.000533, 6.0, 3.374048, 0.001067}},
      {576, {24, 13.496192, 0.004268, 24, 13.496192, 0.004268}}};
  for (const auto& [token, angles] : tokens) {
    const std::size_t channels[] = {0, 2, 30, 32, 34, 62};
    for (std::size_t i = 0; i < 6; ++i)
      for (const std::size_t pair : {0U, 1U}) {
        const std::size_t at = token * kWidth + channels[i] + pair;
        EXPECT_NEAR(t.cosine[at], std::cos(angles[i]), 1e-6) << token << " " << channels[i];
        EXPECT_NEAR(t.sine[at], std::sin(angles[i]), 1e-6) << token << " " << channels[i];
      }
  }
  for (std::size_t channel = 0; channel < kWidth; ++channel) {  // the class token does not turn
    EXPECT_EQ(t.cosine[channel], 1.0F);
    EXPECT_EQ(t.sine[channel], 0.0F);
  }
}

TEST(RopeTables, RotateAsSpecified) {
  const RopeTables t = rope_tables(24, kWidth);
  const std::map<std::size_t, double> expected = {{0, -0.002205}, {1, -0.015469}, {2, -0.050183},
                                                  {3, 0.025603},  {31, 0.484625}, {32, 0.624159},
                                                  {33, 0.35538},  {62, 0.967699}, {63, 0.985408}};
  for (const auto& [channel, value] : expected) {
    const std::size_t at = 123 * kWidth + channel;
    const double own = static_cast<double>(channel) / 64;
    const double other =  // o[2i] takes minus t[2i+1], o[2i+1] takes t[2i]
        channel % 2 == 0 ? -static_cast<double>(channel + 1) / 64 : static_cast<double>(channel - 1) / 64;
    EXPECT_NEAR(own * static_cast<double>(t.cosine[at]) + other * static_cast<double>(t.sine[at]), value,
                1e-6)
        << channel;
  }
}

// The norms of the 24 layers, the pool and the two others: none with the probe's epsilon, no tanh.
TEST(PeCore, NormsAndActivations) {
  const Graph g = build_core().graph;
  std::size_t norms = 0, functions = 0;
  auto look = [&](const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      EXPECT_NE(op.kind, OpKind::Gelu) << op.path;
      if (op.kind == OpKind::LayerNorm) {
        ++norms;
        EXPECT_EQ(op.epsilon, 1e-5F) << op.path;
      }
      if (op.kind != OpKind::Unary) continue;
      ++functions;
      EXPECT_EQ(op.unary, numeric::Unary::GeluErf);
      EXPECT_EQ(producer(ops, op.inputs[0]).kind, OpKind::Add);  // the bias
    }
  };
  look(g.ops);
  ASSERT_EQ(g.repeats.size(), 1U);
  look(g.repeats[0].body);
  EXPECT_EQ(norms, 5U);
  EXPECT_EQ(functions, 2U);
}

TEST(PeCore, QueriesAndKeysTurnInEveryLayerAndNotInThePool) {
  for (const bool fuse : {true, false}) {
    const Graph g = build_core(0, 2, fuse).graph;
    ASSERT_EQ(g.repeats.size(), 1U);
    const graph::Repeat& repeat = g.repeats[0];
    EXPECT_EQ(repeat.count, 24U);
    ASSERT_EQ(repeat.invariant_in.size(), 2U);  // the same tables for each layer
    EXPECT_EQ(g.at(repeat.invariant_in[0]).name, "vit.rope.cosine");
    EXPECT_EQ(g.at(repeat.invariant_in[1]).name, "vit.rope.sine");
    EXPECT_EQ(g.at(repeat.invariant_in[0]).shape, (Shape{577, 64}));
    EXPECT_EQ(g.at(repeat.invariant_in[1]).shape, (Shape{577, 64}));
    const auto attention = std::ranges::find(repeat.body, OpKind::Attention, &Op::kind);
    ASSERT_NE(attention, repeat.body.end());
    EXPECT_EQ(attention->scale, 0.125F);
    const std::pair<std::size_t, std::string> turned[] = {{0, "query"}, {1, "key"}};
    for (const auto& [input, role] : turned) {
      const Op& rope = producer(repeat.body, attention->inputs[input]);
      ASSERT_EQ(rope.kind, OpKind::Rope);
      EXPECT_TRUE(rope.interleaved);
      EXPECT_EQ(rope.inputs[1], repeat.arguments[1]);
      EXPECT_EQ(rope.inputs[2], repeat.arguments[2]);
      const Op& split = producer(repeat.body, rope.inputs[0]);
      EXPECT_EQ(split.kind, OpKind::SplitHeads);
      EXPECT_EQ(split.path, "vit.encoder.layer.attention." + role + ".split");
      EXPECT_EQ(g.at(rope.results[0]).shape, (Shape{32, 577, 64}));
    }
    EXPECT_EQ(producer(repeat.body, attention->inputs[2]).kind, OpKind::SplitHeads);
    EXPECT_EQ(std::ranges::count(repeat.body, OpKind::Rope, &Op::kind), 2);
    EXPECT_EQ(std::ranges::count(g.ops, OpKind::Rope, &Op::kind), 0);
    EXPECT_TRUE(graph::verify(g).empty());
    EXPECT_EQ(g.at(g.outputs[0]).shape, (Shape{2, 1, 1024}));
  }
  const Graph one = build_core(1).graph;
  EXPECT_EQ(std::ranges::count(one.ops, OpKind::Rope, &Op::kind), 2);
  EXPECT_TRUE(graph::verify(one).empty());
}

// models.md B.2.1: the probe has the tensors of the model, but the tables.
TEST(PeCore, HasTheParametersOfTheProbe) {
  Config c;
  c.batch = 2;
  auto trained = [&](const char* name) {
    c.name = name;
    const Model model = build(c);
    std::map<std::string, Shape> out;
    for (const graph::Value& v : model.graph.values)
      if (is_trained(model, v)) out[v.name] = v.shape;
    return out;
  };
  EXPECT_EQ(trained("pe-core-l14"), trained("pe-core-l14-capacity"));
}

TEST(PeCore, ConstantsHaveTheirOwnValues) {
  for (const std::uint32_t size : {28U, 70U}) {
    Config c;
    c.name = "pe-core-l14";
    c.small = true;
    c.image_size = size;
    const Model model = build(c);
    EXPECT_EQ(model.vision.input, "vit.pe.image.patches");
    EXPECT_TRUE(model.vision.class_row);
    EXPECT_FALSE(model.vision.bicubic);
    const RopeTables tables = rope_tables(size / 14, kWidth);
    for (const std::uint64_t seed : {1U, 2U}) {
      const TensorSource source = random_source(model, seed);
      EXPECT_EQ(source("vit.rope.cosine"), tables.cosine);
      EXPECT_EQ(source("vit.rope.sine"), tables.sine);
    }
    std::set<std::string> found;
    for (const graph::Value& v : model.graph.values)
      if (model.constants.contains(v.name)) {
        found.insert(v.name);
        EXPECT_EQ(tensor::elements(v.shape), model.constants.at(v.name).size());
        EXPECT_FALSE(is_trained(model, v));
      }
    EXPECT_EQ(found, (std::set<std::string>{"vit.rope.cosine", "vit.rope.sine"}));
  }
  Config probe;
  probe.name = "pe-core-l14-capacity";
  EXPECT_TRUE(build(probe).constants.empty());
}

}  // namespace
}  // namespace tw::model
