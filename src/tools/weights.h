// Where the values of a model's parameters come from: the seed, or the checkpoint that --weights names.
#pragma once
#include <vector>

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
// Values of host inputs (drawn), parameters and constants. Error{File} as check_weights, but no value is
// looked at.
model::TensorSource tensor_source(const Recipe& recipe, const model::Model& model);

}  // namespace tw::tools
