// What a weight is for, whatever its layer: the names under which scales are given (models.md C.5).
#pragma once
#include <string>

namespace tw::tensor {

// "vit.encoder.layer3.mlp.up.weight" and "encoder.layer{}.mlp.up" -> "encoder.layer.mlp.up": without a
// leading "vit.", a trailing ".weight" and the index of the layer.
std::string role_of(const std::string& name);

inline constexpr const char* kEmbeddingRole = "embedding";  // the product on image patches

}  // namespace tw::tensor
