// Encodings of dense products by the role of their weight (models.md B.4, C.5).
#pragma once
#include <set>
#include <string>

#include "graph/graph.h"
#include "plan/build.h"

namespace tw::plan {

// Roles (tensor::role_of) of the weights that dense products read.
std::set<std::string> product_roles(const graph::Graph& graph);

// Of a weight and of what it is multiplied with, by the name of its parameter or sequence.
tensor::Encoding operand_encoding(const Options& options, const std::string& weight);

}  // namespace tw::plan
