// Where the values of a model's parameters come from: the seed, the checkpoint that --weights names, or a
// reference fixture.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "import/fixture.h"
#include "model/tensors.h"
#include "tools/pipeline.h"
#include "tools/recipe.h"

namespace tw::tools {

// Opens and checks a recipe's weights: every tensor there, of the right shape, finite. Error{File} lists what
// is not. Warns of values that F16 cannot hold. Does nothing for drawn weights. Returns the files with their
// digests.
std::vector<WeightsFile> check_weights(const Host& host, const Recipe& recipe, const model::Model& model);
// Error{File} when the files are no longer those that the recipe names.
void require_same_weights(const Host& host, const Recipe& recipe);
// Everything in a fixture for `calls` calls of the model, values included. Error{File} lists what is wrong.
import::Fixture open_fixture(const Host& host, const std::string& folder, const model::Model& model,
                             std::uint32_t calls);
// The warning of weights that lose values in FP8, at most 50 lines, and what would help; empty without any.
std::string clipped_text(std::span<const compile::ClippedWeights> clipped);
// Values of host inputs (drawn), parameters and constants. Error{File} as check_weights, but no value is
// looked at.
model::TensorSource tensor_source(const Recipe& recipe, const model::Model& model);

}  // namespace tw::tools
