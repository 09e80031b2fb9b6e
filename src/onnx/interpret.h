// FP32 results of ONNX operators, opset 9 to 17 and some newer ones: for constant folding, and as the
// reference of what is not translated. Floating values are FP32 whatever type the model names (FLOAT16 and
// BFLOAT16 are rounded by Cast only); integers wrap to the width of their type. Results do not depend
// on the number of threads, except the sums of large products inside the BLAS.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace tw::onnx {

struct Limits {
  std::int64_t elements = std::int64_t{1} << 31;  // of one result
  std::int64_t work = 0;                          // multiply-adds of one node; 0: any
  unsigned threads = 0;                           // 0: default_threads()
  bool shapes_only = false;                       // products and convolutions need not be worked out
};
using Values = std::map<std::string, Tensor>;

// The outputs by name. Inputs by name, with the element type and extents that the model says. Error{Usage}:
// an input is missing, unknown or of another type or shape. Error{UnsupportedOp}: the first of unsupported(),
// or a variant of an operator. Error{Shape}: a node cannot be evaluated (shapes that do not match, an index
// outside, a limit). Both name the node.
Values run(const Model& model, const Values& inputs, const Limits& limits = {});
// The named values, from inputs that may be values inside the graph: only the nodes between them are run.
Values run_subset(const Model& model, const Values& inputs, const std::vector<std::string>& wanted,
                  const Limits& limits = {});

// The outputs of one node in its order; an omitted one is empty. inputs: one per input, nullptr where
// omitted.
std::vector<Tensor> run_node(const Node& node, std::span<const Tensor* const> inputs, std::int64_t opset,
                             const Limits& limits = {});

bool is_supported(const Node& node, std::int64_t opset);
struct Unsupported {
  std::string op_type, domain;
  std::size_t count = 0;
  std::vector<std::string> first_nodes;  // at most three titles
};
// Operators that run cannot evaluate, in the order of their first node.
std::vector<Unsupported> unsupported(const Model& model);

}  // namespace tw::onnx
