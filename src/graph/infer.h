// Shape inference of one operation (compiler.md 1.2): the single place of the shape rules, used by the
// builder and by the verifier.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

// Number of inputs the kind takes; Concat takes any number, Repeat has none of its own here (its operands are
// in graph::Repeat).
std::size_t arity(OpKind kind);

// Result shape of a non-Repeat operation; throws Error{Shape} naming the operation.
Shape infer(const Op& op, std::span<const Shape> inputs);

// Problems of a Repeat's interface (compiler.md 1.3): count, sequences, arity and shapes. Empty = good.
std::vector<std::string> repeat_problems(const Graph& graph, const Op& op);

}  // namespace tw::graph
