#include "graph/parameters.h"

namespace tw::graph {

std::set<ValueId> product_parameters(const Graph& graph) {
  std::set<ValueId> found;
  const auto collect = [&](const std::vector<Op>& ops) {
    for (const Op& op : ops)
      if (op.kind == OpKind::Gemm) found.insert(op.inputs[1]);
  };
  collect(graph.ops);
  for (const Repeat& repeat : graph.repeats) {
    collect(repeat.body);
    std::size_t argument = repeat.carried_in.size();
    for (const ValueId outer : repeat.invariant_in)
      if (found.contains(repeat.arguments.at(argument++))) found.insert(outer);
    for (const std::uint32_t sequence : repeat.iterated) {
      const std::vector<ValueId>& members = graph.sequences.at(sequence).members;
      if (found.contains(repeat.arguments.at(argument++))) found.insert(members.begin(), members.end());
    }
  }
  std::erase_if(found, [&](ValueId id) { return graph.at(id).kind != ValueKind::Parameter; });
  return found;
}

}  // namespace tw::graph
