#include "plan/roles.h"

#include <gtest/gtest.h>

#include "model/model.h"
#include "plan/plan.h"

namespace tw::plan {
namespace {

using Roles = std::set<std::string>;

TEST(Roles, OfTheBuiltInModels) {
  const Roles siglip{"embedding",
                     "encoder.layer.attention.qkv",
                     "encoder.layer.attention.output",
                     "encoder.layer.mlp.up",
                     "encoder.layer.mlp.down",
                     "map.attention.query",
                     "map.attention.kv",
                     "map.attention.output",
                     "map.mlp.up",
                     "map.mlp.down"};
  for (const std::uint32_t layers : {1U, 2U})
    EXPECT_EQ(product_roles(model::build({.name = "siglip-so400m", .layers = layers, .small = true}).graph),
              siglip);
  const Roles three = product_roles(
      model::build({.name = "pe-core-l14-capacity", .layers = 2, .small = true, .fuse_qkv = false}).graph);
  EXPECT_EQ(three.size(), siglip.size() + 4);  // two more in a layer, one more in the pool, the projection
  EXPECT_TRUE(three.contains("encoder.layer.attention.key") && three.contains("projection"));
}

// Every product's operands have the encoding of their weight's role, in a Repeat and outside.
TEST(Roles, DecideTheOperandsOfAProduct) {
  const model::Model model =
      model::build({.name = "siglip-so400m", .layers = 2, .small = true, .fuse_qkv = false});
  Options options{.tiles = 64};
  int scale = -16;
  for (const std::string& role : product_roles(model.graph))
    options.encodings[role] = {tensor::Precision::F8, scale++};
  options.encodings["embedding"] = {tensor::Precision::F16, 0};
  Progress quiet;
  for (const Policy policy : {Policy::Default, Policy::Capacity}) {
    options.policy = policy;
    const Plan plan = build(c600(), model.graph, options, quiet);
    std::set<int> seen;
    for (const Tensor& t : plan.tensors) {
      if (t.role != Role::Parameter || t.type.shape.size() != 2) continue;
      EXPECT_EQ(t.type.encoding, operand_encoding(options, t.name)) << t.name;
      seen.insert(t.type.encoding.precision == tensor::Precision::F8 ? t.type.encoding.scale : 99);
    }
    EXPECT_EQ(seen.size(), options.encodings.size());
    EXPECT_TRUE(verify(plan).empty());  // operands of a product have equal encodings
  }
}

}  // namespace
}  // namespace tw::plan
