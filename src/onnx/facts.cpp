#include "onnx/facts.h"

#include <algorithm>

#include "base/error.h"
#include "onnx/interpret.h"

namespace tw::onnx {
namespace {

Tensor zeros(Element element, const Dims& dims) {
  std::int64_t count = 0;
  if (!count_elements(dims, count)) throw Error(ErrorKind::Shape, "an input of absurd size");
  Tensor t;
  t.element = element;
  t.dims = dims;
  if (is_floating(element))
    t.floats.assign(static_cast<std::size_t>(count), 0.0F);
  else
    t.ints.assign(static_cast<std::size_t>(count), 0);
  return t;
}

class Interpretation {
 public:
  explicit Interpretation(Model& model) : model_(model) {
    for (std::size_t i = 0; i < model.nodes.size(); ++i)
      for (const std::string& name : model.nodes[i].inputs) last_[name] = i;
  }

  Facts run() {
    for (auto& [name, tensor] : model_.initializers) know(name, std::move(tensor), true);
    model_.initializers.clear();
    for (const Value& input : model_.inputs) {
      Dims dims;
      for (const Dim& d : input.dims) dims.push_back(d.value);
      know(input.name, zeros(input.element, dims), false);
    }
    std::vector<Node> left;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      if (!evaluate(model_.nodes[i])) left.push_back(model_.nodes[i]);
      for (const std::string& name : model_.nodes[i].inputs)
        if (last_[name] == i) values_.erase(name);
    }
    model_.nodes = std::move(left);
    return std::move(facts_);
  }

 private:
  // True when its results are constants.
  bool evaluate(const Node& node) {
    const bool shape_only = node.op_type == "Shape" || node.op_type == "Size";
    bool constant = true;
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.inputs) {
      if (name.empty()) {
        inputs.push_back(nullptr);
        continue;
      }
      inputs.push_back(&value(name));
      constant = constant && (shape_only || facts_.constant(name));
    }
    std::vector<Tensor> outputs =
        run_node(node, inputs, model_.opset(node.domain), {.shapes_only = !constant});
    for (std::size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
      if (!node.outputs[i].empty()) know(node.outputs[i], std::move(outputs[i]), constant);
    return constant;
  }

  const Tensor& value(const std::string& name) const {
    if (const auto known = facts_.constants.find(name); known != facts_.constants.end()) return known->second;
    const auto known = values_.find(name);
    TW_CHECK(known != values_.end(), "a node reads what nobody wrote: " + name);
    return known->second;
  }

  void know(const std::string& name, Tensor value, bool constant) {
    facts_.dims[name] = value.dims;
    facts_.elements[name] = value.element;
    (constant ? facts_.constants : values_)[name] = std::move(value);
  }

  Model& model_;
  Facts facts_;
  std::map<std::string, Tensor> values_;  // not constant, until their last reader
  std::map<std::string, std::size_t> last_;
};

}  // namespace

Facts find_facts(Model& model) {
  Facts facts = Interpretation(model).run();
  drop_dead(model);
  return facts;
}

void drop_dead(Model& model) {
  std::set<std::string> needed;
  for (const Value& output : model.outputs) needed.insert(output.name);
  std::vector<Node> kept;
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const std::string& o) { return needed.contains(o); }))
      continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  model.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace tw::onnx
