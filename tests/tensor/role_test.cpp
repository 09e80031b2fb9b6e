#include "tensor/role.h"

#include <gtest/gtest.h>

namespace tw::tensor {
namespace {

TEST(Role, LayersShareOne) {
  for (const char* name : {"vit.encoder.layer{}.mlp.up.weight", "vit.encoder.layer0.mlp.up.weight",
                           "encoder.layer26.mlp.up", "encoder.layer.mlp.up"})
    EXPECT_EQ(role_of(name), "encoder.layer.mlp.up") << name;
  EXPECT_EQ(role_of("vit.embedding.weight"), kEmbeddingRole);
  EXPECT_EQ(role_of("vit.map.attention.kv.weight"), "map.attention.kv");
  EXPECT_EQ(role_of("encoder.layers.mlp"), "encoder.layers.mlp");
  EXPECT_EQ(role_of("encoder.layer0"), "encoder.layer0");
  EXPECT_EQ(role_of(""), "");
}

}  // namespace
}  // namespace tw::tensor
