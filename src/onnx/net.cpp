#include "onnx/net.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "onnx/interpret.h"
#include "onnx/lower.h"

namespace tw::onnx {

Net::Net(const Model& model, const Facts& facts) : facts_(facts), opset_(model.opset()) {
  for (const Node& node : model.nodes) {
    for (const std::string& name : node.outputs)
      if (!name.empty()) producer_[name] = &node;
    for (const std::string& name : node.inputs) ++readers_[name];
  }
  for (const Value& v : model.outputs) ++readers_[v.name];
}

const Node* Net::producer(const std::string& name) const {
  const auto found = producer_.find(name);
  return found == producer_.end() ? nullptr : found->second;
}

const Node* Net::producer(const std::string& name, const char* op) const {
  const Node* node = producer(name);
  return node != nullptr && node->domain.empty() && node->op_type == op ? node : nullptr;
}

int Net::readers(const std::string& name) const {
  const auto found = readers_.find(name);
  return found == readers_.end() ? 0 : found->second;
}

std::optional<float> Net::scalar(const std::string& name) const {
  const auto found = facts_.constants.find(name);
  if (found == facts_.constants.end() || found->second.floats.size() != 1) return {};
  return found->second.floats[0];
}

bool Net::is(const std::string& name, double wanted) const {
  const auto value = scalar(name);
  return value && near(*value, wanted);
}

bool near(double a, double b) { return std::abs(a - b) <= 2e-4 * std::abs(b); }

Scaled scaled_once(const Net& net, const std::string& name) {
  // A scalar of more axes than the value would change its shape.
  const auto keeps = [&](const std::string& value) { return net.dims(value) == net.dims(name); };
  if (const Node* mul = net.producer(name, "Mul"))
    for (std::size_t i = 0; i < 2; ++i)
      if (const auto c = net.scalar(mul->inputs[i]); c && keeps(mul->inputs[1 - i]))
        return {mul->inputs[1 - i], *c};
  if (const Node* div = net.producer(name, "Div"))
    if (const auto c = net.scalar(div->inputs[1]); c && *c != 0 && keeps(div->inputs[0]))
      return {div->inputs[0], 1.0 / *c};
  return {name, 1};
}

Scaled scaled(const Net& net, const std::string& name) {
  Scaled all{name, 1};
  for (;;) {
    const Scaled next = scaled_once(net, all.value);
    if (next.value == all.value) return all;
    all = {next.value, all.scale * next.scale};
  }
}

std::vector<std::int64_t> origins(const Net& net, const std::string& source, const std::string& target,
                                  bool through_scalars) {
  Values known;
  const Dims& dims = net.dims(source);
  std::int64_t count = 0;
  if (!count_elements(dims, count)) return {};
  Tensor numbers{.element = Element::Int64, .dims = dims, .floats = {}, .ints = {}};
  numbers.ints.resize(static_cast<std::size_t>(count));
  std::iota(numbers.ints.begin(), numbers.ints.end(), 1);
  known[source] = std::move(numbers);
  const std::function<const Tensor*(const std::string&)> find =
      [&](const std::string& name) -> const Tensor* {
    if (const auto found = known.find(name); found != known.end()) return &found->second;
    if (const Scaled s = scaled_once(net, name); through_scalars && s.value != name) return find(s.value);
    const Node* node = net.producer(name);
    if (node == nullptr || !(is_movement(*node) || (node->domain.empty() && node->op_type == "Neg")))
      return nullptr;
    std::vector<const Tensor*> inputs;
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      if (!has(*node, i)) {
        inputs.push_back(nullptr);
      } else if (net.facts().constant(node->inputs[i])) {
        inputs.push_back(&net.facts().constants.at(node->inputs[i]));
      } else if (inputs.push_back(find(node->inputs[i])); inputs.back() == nullptr) {
        return nullptr;
      }
    }
    for (const Tensor* t : inputs)
      if (t != nullptr && t->element != Element::Int64) return nullptr;
    std::vector<Tensor> outputs = run_node(*node, inputs, net.opset());
    for (std::size_t i = 0; i < outputs.size(); ++i) known[node->outputs[i]] = std::move(outputs[i]);
    return &known.at(name);
  };
  const Tensor* found = find(target);
  return found == nullptr ? std::vector<std::int64_t>{} : found->ints;
}

void append(std::vector<Node>& nodes, Facts& facts, Node node, const Dims& dims) {
  facts.dims[node.outputs.at(0)] = dims;
  facts.elements[node.outputs.at(0)] = Element::Float;
  nodes.push_back(std::move(node));
}

}  // namespace tw::onnx
