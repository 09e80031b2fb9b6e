#include "plan/roles.h"

#include "graph/parameters.h"
#include "tensor/role.h"

namespace tw::plan {
std::set<std::string> product_roles(const graph::Graph& graph) {
  std::set<std::string> roles;
  for (const ValueId id : graph::product_parameters(graph))
    if (graph.at(id).shape.size() == 2) roles.insert(tensor::role_of(graph.at(id).name));
  return roles;
}

tensor::Encoding operand_encoding(const Options& options, const std::string& weight) {
  const auto own = options.encodings.find(tensor::role_of(weight));
  if (own != options.encodings.end()) return own->second;
  return {options.precision, options.precision == tensor::Precision::F8 ? options.fp8_scale : 0};
}

}  // namespace tw::plan
