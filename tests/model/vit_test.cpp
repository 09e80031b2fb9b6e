#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "model/model.h"

namespace tw::model {
namespace {

using graph::Graph;
using graph::OpKind;
using graph::Shape;

Config config(const std::string& name, std::uint32_t layers = 0, std::uint32_t batch = 1, bool fuse = true) {
  Config c;
  c.name = name;
  c.layers = layers;
  c.batch = batch;
  c.fuse_qkv = fuse;
  return c;
}
const char* const kSiglip = "siglip-so400m";
const char* const kPe = "pe-core-l14-capacity";
const char* const kPeCore = "pe-core-l14";

std::size_t count(const Graph& g, OpKind kind) {
  std::size_t n = 0;
  for (const auto& op : g.ops) n += op.kind == kind;
  return n;
}
std::map<std::string, Shape> inputs(const Graph& g, graph::ValueKind kind) {
  std::map<std::string, Shape> out;
  for (const auto& value : g.values)
    if (value.kind == kind) out[value.name] = value.shape;
  return out;
}
std::uint64_t macs(const Graph& g) {
  std::uint64_t total = 0;
  auto one = [&](const graph::Op& op) {
    const auto shape = [&](std::size_t i) { return g.at(op.inputs[i]).shape; };
    if (op.kind == OpKind::Gemm) return tensor::elements(shape(0)) * shape(1).back();
    if (op.kind == OpKind::Attention) return tensor::elements(shape(0)) * shape(1)[1] * 2;
    return std::uint64_t{0};
  };
  for (const auto& op : g.ops) {
    total += one(op);
    if (op.kind != OpKind::Repeat) continue;
    for (const auto& inner : g.repeats[op.repeat].body) total += g.repeats[op.repeat].count * one(inner);
  }
  return total;
}

// Parameter counts and products per image: models.md B.1, B.2, B.2.1.
TEST(Vit, HasThePublishedSize) {
  const Model siglip = build(config(kSiglip));
  EXPECT_EQ(siglip.parameters, 428'225'600U);
  EXPECT_EQ(macs(siglip.graph), 335'173'224'960U);
  EXPECT_EQ(siglip.config.layers, 27U);
  const Model pe = build(config(kPe));
  EXPECT_EQ(pe.parameters, 317'150'208U);
  EXPECT_EQ(build(config(kPe, 0, 2)).parameters, 317'151'232U);
  // 192,181,880,832 counts the 576 image patches; the zero class row adds one row of the embedding.
  EXPECT_EQ(macs(pe.graph), 192'181'880'832U + 588U * 1024U);
  EXPECT_EQ(build(config(kSiglip, 0, 1, false)).parameters, 428'225'600U);
  // The tables of rotary positions are constants; the class vector is part of the positions (B.2).
  const Model core = build(config(kPeCore));
  EXPECT_EQ(core.parameters, 317'150'208U);
  EXPECT_EQ(macs(core.graph), macs(pe.graph));
  EXPECT_EQ(core.config.layers, 24U);
}

TEST(Vit, TensorsHaveThePublishedNamesAndShapes) {
  const Model model = build(config(kSiglip, 0, 2));
  const auto parameters = inputs(model.graph, graph::ValueKind::Parameter);
  EXPECT_EQ(parameters.size(), 342U);
  const std::map<std::string, Shape> expected = {
      {"vit.embedding.weight", {588, 1152}},
      {"vit.embedding.bias", {1, 1, 1152}},
      {"vit.position", {1, 729, 1152}},
      {"vit.encoder.layer0.attention_norm.scale", {1, 1, 1152}},
      {"vit.encoder.layer26.attention_norm.bias", {1, 1, 1152}},
      {"vit.encoder.layer13.mlp_norm.scale", {1, 1, 1152}},
      {"vit.encoder.layer13.mlp_norm.bias", {1, 1, 1152}},
      {"vit.encoder.layer1.attention.qkv.weight", {1152, 3456}},
      {"vit.encoder.layer1.attention.qkv.bias", {1, 1, 3456}},
      {"vit.encoder.layer1.attention.output.weight", {1152, 1152}},
      {"vit.encoder.layer1.attention.output.bias", {1, 1, 1152}},
      {"vit.encoder.layer1.mlp.up.weight", {1152, 4304}},
      {"vit.encoder.layer1.mlp.up.bias", {1, 1, 4304}},
      {"vit.encoder.layer1.mlp.down.weight", {4304, 1152}},
      {"vit.encoder.layer1.mlp.down.bias", {1, 1, 1152}},
      {"vit.encoder.final_norm.scale", {1, 1, 1152}},
      {"vit.encoder.final_norm.bias", {1, 1, 1152}},
      {"vit.map.probe", {2, 1, 1152}},
      {"vit.map.attention.query.weight", {1152, 1152}},
      {"vit.map.attention.query.bias", {1, 1, 1152}},
      {"vit.map.attention.kv.weight", {1152, 2304}},
      {"vit.map.attention.kv.bias", {1, 1, 2304}},
      {"vit.map.attention.output.weight", {1152, 1152}},
      {"vit.map.norm.scale", {1, 1, 1152}},
      {"vit.map.norm.bias", {1, 1, 1152}},
      {"vit.map.mlp.up.weight", {1152, 4304}},
      {"vit.map.mlp.down.weight", {4304, 1152}},
  };
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(parameters.contains(name)) << name;
    EXPECT_EQ(parameters.at(name), shape) << name;
  }
  EXPECT_EQ(inputs(model.graph, graph::ValueKind::Host),
            (std::map<std::string, Shape>{{"vit.image.patches", {2, 729, 588}}}));
  EXPECT_EQ(model.graph.at(model.graph.outputs[0]).shape, (Shape{2, 1, 1152}));

  const Model pe = build(config(kPe, 2, 2));
  const auto pe_parameters = inputs(pe.graph, graph::ValueKind::Parameter);
  EXPECT_FALSE(pe_parameters.contains("vit.embedding.bias"));
  EXPECT_EQ(pe_parameters.at("vit.embedding.norm.scale"), (Shape{1, 1, 1024}));
  EXPECT_EQ(pe_parameters.at("vit.projection.weight"), (Shape{1024, 1024}));
  EXPECT_EQ(pe_parameters.at("vit.position"), (Shape{1, 577, 1024}));
  EXPECT_EQ(inputs(pe.graph, graph::ValueKind::Host),
            (std::map<std::string, Shape>{{"vit.pe.image.patches", {2, 577, 588}}}));
  EXPECT_EQ(pe.graph.at(pe.graph.outputs[0]).shape, (Shape{2, 1, 1024}));
}

// Numbers of operations: models.md B.1 (13 and 10 products) and C.4 (46/47 operators).
TEST(Vit, OneLayerHasThePublishedOperations) {
  const Graph plain = build(config(kSiglip, 1, 1, false)).graph;
  EXPECT_TRUE(plain.repeats.empty());
  EXPECT_EQ(plain.ops.size(), 46U);
  EXPECT_EQ(count(plain, OpKind::Gemm), 13U);
  EXPECT_EQ(count(plain, OpKind::SplitHeads), 6U);
  const Graph fused = build(config(kSiglip, 1)).graph;
  EXPECT_EQ(count(fused, OpKind::Gemm), 10U);
  const Graph pe = build(config(kPe, 1, 1, false)).graph;
  EXPECT_EQ(pe.ops.size(), 47U);
  const Graph pe_fused = build(config(kPe, 1)).graph;
  EXPECT_EQ(pe_fused.ops.size(), 46U);
  EXPECT_EQ(count(pe_fused, OpKind::Slice), 5U);
  EXPECT_EQ(count(pe_fused, OpKind::SplitHeads), 6U);
}

TEST(Vit, DepthIsOneRepeatWithASequencePerRole) {
  const Graph fused = build(config(kSiglip, 3)).graph;
  ASSERT_EQ(fused.repeats.size(), 1U);
  EXPECT_EQ(fused.repeats[0].count, 3U);
  EXPECT_EQ(fused.repeats[0].iterated.size(), 12U);
  EXPECT_EQ(build(config(kSiglip, 3, 1, false)).graph.repeats[0].iterated.size(), 16U);
  std::set<std::string> names;
  for (const auto& sequence : fused.sequences) {
    names.insert(sequence.name);
    ASSERT_EQ(sequence.members.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string expected = fmt::format(fmt::runtime(sequence.name), i);
      EXPECT_EQ(fused.at(sequence.members[i]).name, expected);
    }
  }
  EXPECT_TRUE(names.contains("vit.encoder.layer{}.mlp.up.weight"));
}

TEST(Vit, AttentionScaleAndHeads) {
  for (const auto& [name, scales] : std::map<std::string, std::vector<float>>{
           {kSiglip, {0.11785113F, 0.11785113F}}, {kPe, {0.125F, 0.088388348F}}}) {
    const Graph g = build(config(name, 1)).graph;
    std::vector<float> found;
    for (const auto& op : g.ops)
      if (op.kind == OpKind::Attention) found.push_back(op.scale);
    EXPECT_THAT(found, ::testing::Pointwise(::testing::FloatEq(), scales));
  }
}

TEST(Vit, SmallModelsKeepTheStructure) {
  Config c = config(kSiglip, 0, 2);
  c.small = true;
  const Model siglip = build(c);
  EXPECT_EQ(siglip.config.layers, 1U);
  EXPECT_EQ(siglip.graph.at(siglip.graph.outputs[0]).shape, (Shape{2, 1, 144}));
  EXPECT_EQ(inputs(siglip.graph, graph::ValueKind::Host).at("vit.image.patches"), (Shape{2, 4, 588}));
  EXPECT_EQ(siglip.vision.resize, 28U);
  c.name = kPe;
  c.layers = 2;
  const Model pe = build(c);
  EXPECT_EQ(inputs(pe.graph, graph::ValueKind::Host).at("vit.pe.image.patches"), (Shape{2, 5, 588}));
  EXPECT_EQ(inputs(pe.graph, graph::ValueKind::Parameter).at("vit.encoder.layer1.mlp.up.weight"),
            (Shape{128, 512}));
  std::vector<Shape> queries;
  auto collect = [&](const std::vector<graph::Op>& ops) {
    for (const auto& op : ops)
      if (op.kind == OpKind::Attention) queries.push_back(pe.graph.at(op.inputs[0]).shape);
  };
  collect(pe.graph.repeats[0].body);
  collect(pe.graph.ops);
  EXPECT_EQ(queries, (std::vector<Shape>{{4, 5, 64}, {16, 1, 16}}));
}

TEST(Vit, VisionFollowsTheModelsPreprocessing) {
  const Vision siglip = build(config(kSiglip, 1)).vision;
  EXPECT_EQ(siglip.resize, 384U);
  EXPECT_EQ(siglip.side, 378U);
  EXPECT_TRUE(siglip.bicubic);
  EXPECT_FALSE(siglip.class_row);
  EXPECT_EQ(siglip.input, "vit.image.patches");
  const Vision pe = build(config(kPe, 1)).vision;
  EXPECT_EQ(pe.resize, 336U);
  EXPECT_EQ(pe.side, 336U);
  EXPECT_FALSE(pe.bicubic);
  EXPECT_TRUE(pe.class_row);
  Config c = config(kSiglip, 1);
  c.image_size = 224;
  const Model other = build(c);
  EXPECT_EQ(other.vision.resize, 224U);
  EXPECT_EQ(inputs(other.graph, graph::ValueKind::Host).at("vit.image.patches"), (Shape{1, 256, 588}));
  EXPECT_EQ(build(build(config(kSiglip, 1)).config).vision.resize,
            384U);  // a filled-in configuration means the same
}

TEST(Vit, RejectsWhatItCannotBuild) {
  auto rejected = [](Config c) {
    try {
      build(c);
    } catch (const Error& error) {
      return error.kind == ErrorKind::Usage;
    }
    return false;
  };
  EXPECT_TRUE(rejected(config("resnet")));
  EXPECT_TRUE(rejected(config(kSiglip, 1, 0)));
  EXPECT_TRUE(rejected(config(kSiglip, 1, 100'000)));
  EXPECT_TRUE(rejected(config(kSiglip, 100'000)));
  Config c = config(kSiglip, 1);
  c.image_size = 384;
  EXPECT_TRUE(rejected(c));
  c.image_size = 14'000;
  EXPECT_TRUE(rejected(c));
}

}  // namespace
}  // namespace tw::model
