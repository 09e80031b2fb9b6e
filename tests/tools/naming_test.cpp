// The naming tables against the counts of models.md B.1 and B.2, at full size.
#include "import/naming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "model/model.h"

namespace tw::import {
namespace {

using ::testing::HasSubstr;

struct Stored {
  std::map<std::string, std::uint64_t> elements;  // by name
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [name, n] : elements) sum += n;
    return sum;
  }
};

Stored stored(const std::string& model, const Naming& naming, bool fuse) {
  model::Config config;
  config.name = model;
  config.fuse_qkv = fuse;
  const model::Model built = model::build(config);
  Stored out;
  for (const graph::Value& v : built.graph.values) {
    if (!model::is_trained(built, v)) continue;
    const Source source = source_of(naming, {v.name, v.shape});
    std::uint64_t used = 0;
    for (const Piece& p : source.pieces) {
      std::uint64_t n = 1;
      for (const std::uint64_t extent : p.shape) n *= extent;
      const auto [known, fresh] = out.elements.try_emplace(p.tensor, n);
      EXPECT_EQ(known->second, n) << p.tensor << " has two shapes";
      EXPECT_LE(p.first_row + p.rows, p.shape.front()) << p.tensor;
      used += n / p.shape.front() * p.rows;
    }
    EXPECT_EQ(used, tensor::elements(v.shape)) << v.name;
    if (!source.class_token.empty()) out.elements[source.class_token] = v.shape.back();
  }
  return out;
}

TEST(Naming, CountsOfTheSpecification) {
  for (const bool fuse : {true, false}) {
    const Stored hf = stored("siglip-so400m", {Publisher::HuggingFace, false, "vision_model.", ""}, fuse);
    EXPECT_EQ(hf.elements.size(), 448U);
    EXPECT_EQ(hf.total(), 428'225'600U);
    EXPECT_EQ(hf.elements.at("vision_model.encoder.layers.26.mlp.fc2.weight"), 1152U * 4304);
    EXPECT_EQ(stored("siglip-so400m", {Publisher::Timm, false, "", ""}, fuse).total(), 428'225'600U);
    for (const char* name : {"pe-core-l14", "pe-core-l14-capacity"}) {
      const Stored pe = stored(name, {Publisher::PerceptionEncoder, true, "visual.", ""}, fuse);
      EXPECT_EQ(pe.total(), 317'151'232U);
      EXPECT_EQ(pe.elements.at("visual.transformer.resblocks.23.attn.in_proj_weight"), 3072U * 1024);
      EXPECT_EQ(stored(name, {Publisher::Timm, true, "", ""}, fuse).total(), 317'151'232U);
    }
  }
}

TEST(Naming, IsKnownByThePatchConvolution) {
  const Naming hf =
      detect_naming({"a", "vision_tower.vision_model.embeddings.patch_embedding.weight"}, false);
  EXPECT_EQ(hf.publisher, Publisher::HuggingFace);
  EXPECT_EQ(hf.prefix, "vision_tower.vision_model.");
  EXPECT_EQ(detect_naming({"patch_embed.proj.weight"}, true).publisher, Publisher::Timm);
  EXPECT_EQ(detect_naming({"module.visual.conv1.weight"}, true).prefix, "module.visual.");
  EXPECT_THAT(detect_naming({"xconv1.weight", "conv1.bias"}, true).problem, HasSubstr("known name"));
  EXPECT_THAT(detect_naming({"conv1.weight"}, false).problem,
              HasSubstr("Perception Encoder; this model is a SigLIP"));
  EXPECT_THAT(detect_naming({"a.conv1.weight", "b.conv1.weight"}, true).problem, HasSubstr("2 image towers"));
}

TEST(Naming, WhatNoParameterNeeds) {
  const Naming hf{Publisher::HuggingFace, false, "vision_model.", ""};
  EXPECT_TRUE(ignorable(hf, "text_model.embeddings.token_embedding.weight", 27));
  EXPECT_TRUE(ignorable(hf, "vision_model.embeddings.position_ids", 27));
  EXPECT_TRUE(ignorable(hf, "vision_model.encoder.layers.27.mlp.fc1.bias", 27));
  EXPECT_FALSE(ignorable(hf, "vision_model.encoder.layers.26.mlp.fc9.bias", 27));
  EXPECT_FALSE(ignorable(hf, "vision_model.encoder.layers.27x", 27));
  EXPECT_FALSE(ignorable(hf, "vision_model.encoder.layers.", 27));
  EXPECT_FALSE(ignorable(hf, "vision_model.head.x", 27));
  const Naming bare{Publisher::HuggingFace, false, "", ""};
  EXPECT_TRUE(ignorable(bare, "logit_scale", 1));
  EXPECT_FALSE(ignorable(bare, "logit", 1));
}

}  // namespace
}  // namespace tw::import
