// FP8 scales by role, and roles that stay in F16, become part of a recipe (docs/weights.md).
#pragma once
#include <filesystem>
#include <set>
#include <string>

#include "tools/recipe.h"

namespace tw::tools {

inline constexpr float kLargestF16 = 65504;  // --fp16 helps no role with a larger value

// Error{Usage} for a role among the recipe's fp16_roles that no product of the model has; names of parameters
// become roles.
void check_fp16_roles(Recipe& recipe, const std::set<std::string>& roles);

// `--calibration FILE` and `--fp16 ROLE`: sets the recipe's scales, the file's F16 roles beside its own, and
// the file's digest. One scale for all roles becomes Recipe::fp8_scale. Without a file only the roles are
// checked. Error{File} for a file that does not suit the model, Error{Usage} for a model, size or role that
// does not exist.
void apply_calibration(Recipe& recipe, const std::filesystem::path& file);

// Error{File} when the package of `recipe` was not built with this calibration file, or this is no regular
// file.
void require_same_calibration(const Recipe& recipe, const std::filesystem::path& file);

}  // namespace tw::tools
