#include "onnx/patterns.h"

#include <algorithm>

#include "onnx/lower.h"

namespace tw::onnx {
namespace {

bool is_output(const Model& model, const std::string& name) {
  for (const Value& v : model.outputs)
    if (v.name == name) return true;
  return false;
}

// The result is the input; the device knows no element types.
bool copies(const Node& node, const Facts& facts) {
  if (!node.domain.empty()) return false;
  if (node.op_type == "Identity" || node.op_type == "Dropout" || node.op_type == "Cast") return true;
  if (node.op_type == "Transpose") {
    const auto* perm = node.attribute<std::vector<std::int64_t>>("perm");
    return perm != nullptr && !perm->empty() && std::ranges::is_sorted(*perm);
  }
  return is_reshape(node) && facts.dims.at(node.inputs[0]) == facts.dims.at(node.outputs[0]);
}

void drop_copies(Model& model, const Facts& facts) {
  std::map<std::string, std::string> same;
  std::vector<Node> kept;
  for (Node& node : model.nodes) {
    for (std::string& name : node.inputs)
      if (const auto found = same.find(name); found != same.end()) name = found->second;
    if (copies(node, facts) && !facts.constant(node.inputs[0]) && !is_output(model, node.outputs[0]))
      same[node.outputs[0]] = node.inputs[0];
    else
      kept.push_back(std::move(node));
  }
  model.nodes = std::move(kept);
}

// One reshape instead of several in a row.
void join_reshapes(Model& model) {
  std::map<std::string, std::string> from;
  for (Node& node : model.nodes) {
    if (!is_reshape(node)) continue;
    if (const auto found = from.find(node.inputs[0]); found != from.end()) node.inputs[0] = found->second;
    from[node.outputs[0]] = node.inputs[0];
  }
}

}  // namespace

void fuse_patterns(Model& model, Facts& facts) {
  drop_copies(model, facts);
  std::vector<Node> fused;
  const Net net(model, facts);
  Heads heads(net, facts, fused);
  for (const Node& node : model.nodes) {
    if (node.outputs[0].empty())  // e.g. of a Split whose first part nobody reads
      fused.push_back(node);
    else if (auto norm = find_layer_norm(net, node))
      fused.push_back(std::move(*norm));
    else if (auto activation = find_activation(net, node))
      fused.push_back(std::move(*activation));
    else if (!heads.attend(node) && !heads.merge(node) && !heads.rotate(node))
      fused.push_back(node);
  }
  model.nodes = std::move(fused);
  join_reshapes(model);
  drop_copies(model, facts);
  drop_dead(model);
}

}  // namespace tw::onnx
