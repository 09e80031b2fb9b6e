#include "onnx/constant_rows.h"

#include <algorithm>
#include <optional>

#include "onnx/interpret.h"
#include "onnx/lower.h"
#include "onnx/net.h"
#include "onnx/replace.h"

namespace tw::onnx {
namespace {

Tensor evaluate(const char* op, const std::vector<const Tensor*>& inputs, std::int64_t opset,
                std::map<std::string, Attribute> attributes = {}) {
  Node node{.op_type = op,
            .domain = {},
            .name = {},
            .inputs = std::vector<std::string>(inputs.size(), "x"),
            .outputs = {"y"},
            .attributes = std::move(attributes)};
  return run_node(node, inputs, opset).at(0);
}

Tensor zeros(const Dims& dims, Element element) {
  Tensor t{.element = element, .dims = dims, .floats = {}, .ints = {}};
  t.floats.assign(static_cast<std::size_t>(elements_of(dims)), 0.0F);
  return t;
}

// The constant that a node adds, and the other operand.
struct Sum {
  std::string x, constant;
};
std::optional<Sum> sum_of(const Node* node, const Net& net) {
  if (node == nullptr || !node->domain.empty() || node->op_type != "Add") return {};
  const bool first = net.facts().constant(node->inputs[0]);
  const Sum sum{node->inputs[first ? 1 : 0], node->inputs[first ? 0 : 1]};
  const bool keeps = net.facts().constant(sum.constant) && !net.facts().constant(sum.x) &&
                     is_floating(net.facts().elements.at(sum.constant)) &&
                     net.dims(sum.x) == net.dims(node->outputs[0]);
  return keeps ? std::optional(sum) : std::nullopt;
}

// A join of constants and one product of rows from the host, whose result may have constants added.
struct Join {
  const Node* product = nullptr;
  std::size_t part = 0;                // the input that is not constant
  std::vector<std::string> constants;  // added to the product
};
std::optional<Join> join_of(const Node& node, const Net& net,
                            const std::function<bool(const std::string&)>& given) {
  if (!node.domain.empty() || node.op_type != "Concat") return {};
  const std::size_t rank = net.dims(node.outputs[0]).size();
  if (!is_floating(net.facts().elements.at(node.outputs[0]))) return {};
  Join join;
  std::size_t values = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (elements_of(net.dims(node.inputs[i])) < 1) return {};
    if (!net.facts().constant(node.inputs[i])) join.part = i, ++values;
  }
  if (values != 1 || rank < 3 || axis_of(number(node, "axis", 0), rank) != rank - 2) return {};
  std::string name = node.inputs[join.part];
  for (auto sum = sum_of(net.producer(name), net); sum && net.readers(name) == 1;
       sum = sum_of(net.producer(name), net)) {
    join.constants.push_back(sum->constant);
    name = sum->x;
  }
  join.product = net.producer(name, "MatMul");
  if (join.product == nullptr || net.readers(name) != 1 || !given(join.product->inputs[0]) ||
      !net.facts().constant(join.product->inputs[1]) || net.dims(join.product->inputs[0]).size() != rank)
    return {};
  return join;
}

// One table for all images where they are equal.
Tensor shared_rows(Tensor rows) {
  const auto images = static_cast<std::size_t>(elements_of(rows.dims)) /
                      static_cast<std::size_t>(elements_of({rows.dims.end() - 2, rows.dims.end()}));
  const std::size_t one = rows.floats.size() / images;
  for (std::size_t i = 1; i < images; ++i)
    if (!std::equal(rows.floats.begin(), rows.floats.begin() + static_cast<std::ptrdiff_t>(one),
                    rows.floats.begin() + static_cast<std::ptrdiff_t>(i * one)))
      return rows;
  rows.floats.resize(one);
  std::fill(rows.dims.begin(), rows.dims.end() - 2, 1);
  return rows;
}

void replace_join(const Node& node, const Join& join, const Net& net, Facts& facts,
                  std::vector<Node>& nodes) {
  Replacement r(node, facts, nodes);
  const std::int64_t axis = static_cast<std::int64_t>(facts.dims.at(node.outputs[0]).size()) - 2;
  const Element element = facts.elements.at(node.outputs[0]);
  Tensor rows = zeros(facts.dims.at(node.inputs[join.part]), element);
  for (const std::string& name : join.constants)
    rows = evaluate("Add", {&rows, &facts.constants.at(name)}, net.opset());
  std::vector<const Tensor*> parts;
  std::vector<std::string> inputs;
  Dims dims = facts.dims.at(join.product->inputs[0]);
  const std::int64_t given_rows = dims[static_cast<std::size_t>(axis)];
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool constant = i != join.part;
    parts.push_back(constant ? &facts.constants.at(node.inputs[i]) : &rows);
    dims[static_cast<std::size_t>(axis)] =
        constant ? facts.dims.at(node.inputs[i])[static_cast<std::size_t>(axis)] : given_rows;
    inputs.push_back(constant ? r.constant(".zeros" + std::to_string(i), zeros(dims, element))
                              : join.product->inputs[0]);
  }
  Tensor table = shared_rows(evaluate("Concat", parts, net.opset(), {{"axis", axis}}));
  const Dims out = facts.dims.at(node.outputs[0]);
  dims[static_cast<std::size_t>(axis)] = out[static_cast<std::size_t>(axis)];
  const std::string x = r.add("Concat", std::move(inputs), r.out() + ".rows", dims, {{"axis", axis}});
  const std::string y = r.add("MatMul", {x, join.product->inputs[1]}, r.out() + ".product", out);
  r.add("Add", {y, r.constant(".table", std::move(table))}, r.out(), out);
}

}  // namespace

void join_constant_rows(Model& model, Facts& facts, const std::function<bool(const std::string&)>& given) {
  const Net net(model, facts);
  std::vector<Node> nodes;
  for (const Node& node : model.nodes) {
    if (const auto join = join_of(node, net, given))
      replace_join(node, *join, net, facts, nodes);
    else
      nodes.push_back(node);
  }
  model.nodes = std::move(nodes);
  drop_dead(model);
}

void join_constant_sums(Model& model, Facts& facts) {
  const Net net(model, facts);
  std::vector<Node> nodes = model.nodes;
  std::map<std::string, Sum> joined;  // by result
  for (Node& node : nodes) {
    auto outer = sum_of(&node, net);
    if (!outer) continue;
    const auto known = joined.find(outer->x);
    const auto inner =
        known != joined.end() ? std::optional(known->second) : sum_of(net.producer(outer->x), net);
    if (inner && net.readers(outer->x) == 1) {
      Tensor sum = evaluate(
          "Add", {&facts.constants.at(inner->constant), &facts.constants.at(outer->constant)}, net.opset());
      std::vector<Node> none;
      const std::string constant = Replacement(node, facts, none).constant(".constants", std::move(sum));
      outer = Sum{inner->x, constant};
      node.inputs = {inner->x, constant};
    }
    joined[node.outputs[0]] = *outer;
  }
  model.nodes = std::move(nodes);
  drop_dead(model);
}

}  // namespace tw::onnx
