// Which parameters the products of a graph read.
#pragma once
#include <set>

#include "graph/graph.h"

namespace tw::graph {

// Second operands of Gemms, with the arguments of a Repeat's body resolved to what they stand for:
// invariants, and all members of a sequence. Parameters only.
std::set<ValueId> product_parameters(const Graph& graph);

}  // namespace tw::graph
