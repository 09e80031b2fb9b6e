// `--calibration FILE`: FP8 scales by role become part of a recipe (docs/weights.md).
#pragma once
#include <filesystem>

#include "tools/recipe.h"

namespace tw::tools {

// Sets the recipe's scales, and its FP16 embedding if the file says so. One scale for all roles becomes
// Recipe::fp8_scale: the same job as with `--fp8-scale`. Error{File} for a file that does not suit the model,
// Error{Usage} for a model or size that does not exist.
void apply_calibration(Recipe& recipe, const std::filesystem::path& file);

}  // namespace tw::tools
