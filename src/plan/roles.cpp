#include "plan/roles.h"

#include <map>

#include "tensor/role.h"

namespace tw::plan {
namespace {

using Names = std::map<ValueId, std::string>;

void collect(const graph::Graph& graph, const std::vector<graph::Op>& ops, Names& weights,
             std::set<std::string>& roles) {
  for (const graph::Op& op : ops) {
    if (op.kind == graph::OpKind::Gemm) {
      if (const auto found = weights.find(op.inputs[1]); found != weights.end())
        roles.insert(tensor::role_of(found->second));
    }
    if (op.kind != graph::OpKind::Repeat) continue;
    const graph::Repeat& repeat = graph.repeats.at(op.repeat);
    std::size_t argument = repeat.carried_in.size();
    for (const ValueId outer : repeat.invariant_in) {
      const ValueId inner = repeat.arguments.at(argument++);
      if (const auto found = weights.find(outer); found != weights.end()) weights[inner] = found->second;
    }
    for (const std::uint32_t sequence : repeat.iterated)
      weights[repeat.arguments.at(argument++)] = graph.sequences.at(sequence).name;
    collect(graph, repeat.body, weights, roles);
  }
}

}  // namespace

std::set<std::string> product_roles(const graph::Graph& graph) {
  Names weights;
  for (std::uint32_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == graph::ValueKind::Parameter && graph.values[i].shape.size() == 2)
      weights[ValueId(i)] = graph.values[i].name;
  }
  std::set<std::string> roles;
  collect(graph, graph.ops, weights, roles);
  return roles;
}

tensor::Encoding operand_encoding(const Options& options, const std::string& weight) {
  const auto own = options.encodings.find(tensor::role_of(weight));
  if (own != options.encodings.end()) return own->second;
  return {options.precision, options.precision == tensor::Precision::F8 ? options.fp8_scale : 0};
}

}  // namespace tw::plan
