#include "onnx/interpret.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "import/problems.h"
#include "onnx/call.h"

namespace tw::onnx {

namespace {

using import::printable;

// By domain and operator; the newest form that an opset has.
using Table = std::map<std::pair<std::string, std::string>, Operator>;
const Table& table() {
  static const Table made = [] {
    Table t;
    for (const auto& list : {pointwise_operators(), compare_operators(), reduce_operators(),
                             product_operators(), window_operators(), shape_operators(), index_operators(),
                             resize_operators(), transformer_operators()})
      for (const Operator& op : list)
        t.emplace(std::pair<std::string, std::string>{op.domain, op.op_type}, op);
    return t;
  }();
  return made;
}

const Operator* find(const Node& node, std::int64_t opset) {
  const auto found = table().find({node.domain, node.op_type});
  return found == table().end() || opset < found->second.since ? nullptr : &found->second;
}

[[noreturn]] void refuse(const Node& node, std::int64_t opset) {
  throw Error(
      ErrorKind::UnsupportedOp,
      fmt::format("{}: the operator {}{}{} of opset {} is not supported", title(node), printable(node.domain),
                  node.domain.empty() ? "" : ".", printable(node.op_type), opset));
}

void check_input(const Value& value, const Tensor& given) {
  std::int64_t count = 0;
  if (!count_elements(given.dims, count) || count != given.size())
    throw Error(ErrorKind::Usage, fmt::format("input '{}': {} values for shape {}", printable(value.name),
                                              given.size(), to_string(given.dims)));
  if (value.element != given.element)
    throw Error(ErrorKind::Usage, fmt::format("input '{}' is {}, the model needs {}", printable(value.name),
                                              name_of(given.element), name_of(value.element)));
  bool same = value.dims.size() == given.dims.size();
  for (std::size_t i = 0; same && i < value.dims.size(); ++i)
    same = value.dims[i].value < 0 || value.dims[i].value == given.dims[i];
  if (same || !value.has_shape) return;
  std::string wanted;
  for (const Dim& d : value.dims)
    wanted += (wanted.empty() ? "" : ",") + (d.value < 0 ? printable(d.name) : std::to_string(d.value));
  throw Error(ErrorKind::Usage, fmt::format("input '{}' has shape {}, the model needs [{}]",
                                            printable(value.name), to_string(given.dims), wanted));
}

// The nodes that `wanted` depends on, in order; values that are given end the search.
std::vector<std::size_t> needed_nodes(const Model& model, const Values& inputs,
                                      const std::vector<std::string>& wanted) {
  std::set<std::string> open(wanted.begin(), wanted.end());
  std::vector<std::size_t> order;
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    const Node& node = model.nodes[i];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) {
      return !name.empty() && open.contains(name) && !inputs.contains(name);
    });
    if (!needed) continue;
    order.push_back(i);
    for (const std::string& name : node.inputs)
      if (!name.empty()) open.insert(name);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// Values during a run: those of the model and the caller by reference, results until their last reader.
class Memory {
 public:
  Memory(const Model& model, const Values& inputs) : model_(&model), inputs_(&inputs) {}

  const Tensor* find(const std::string& name) const {
    for (const Values* values : {&made_, inputs_, &model_->initializers})
      if (const auto found = values->find(name); found != values->end()) return &found->second;
    return nullptr;
  }
  void keep(const std::string& name, Tensor value) { made_[name] = std::move(value); }
  void release(const std::string& name) { made_.erase(name); }
  Tensor take(const std::string& name) {
    const auto found = made_.find(name);
    if (found != made_.end()) return std::move(found->second);
    const Tensor* value = find(name);
    if (value == nullptr)
      throw Error(ErrorKind::Usage, fmt::format("value '{}' cannot be computed", printable(name)));
    return *value;
  }

 private:
  const Model* model_;
  const Values* inputs_;
  Values made_;
};

void run_in(Memory& memory, const Node& node, std::int64_t opset, const Limits& limits) {
  std::vector<const Tensor*> inputs;
  for (const std::string& name : node.inputs) {
    inputs.push_back(name.empty() ? nullptr : memory.find(name));
    if (!name.empty() && inputs.back() == nullptr)
      throw Error(ErrorKind::Usage,
                  fmt::format("{}: its input '{}' has no value", title(node), printable(name)));
  }
  std::vector<Tensor> outputs = run_node(node, inputs, opset, limits);
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) memory.keep(node.outputs[i], std::move(outputs[i]));
}

}  // namespace

bool is_supported(const Node& node, std::int64_t opset) { return find(node, opset) != nullptr; }

std::vector<Unsupported> unsupported(const Model& model) {
  std::vector<Unsupported> out;
  for (const Node& node : model.nodes) {
    if (is_supported(node, model.opset(node.domain))) continue;
    auto found = std::find_if(out.begin(), out.end(), [&](const Unsupported& u) {
      return u.op_type == node.op_type && u.domain == node.domain;
    });
    if (found == out.end()) found = out.insert(out.end(), {node.op_type, node.domain, 0, {}});
    if (++found->count <= 3) found->first_nodes.push_back(title(node));
  }
  return out;
}

std::vector<Tensor> run_node(const Node& node, std::span<const Tensor* const> inputs, std::int64_t opset,
                             const Limits& limits) {
  const Operator* op = find(node, opset);
  if (op == nullptr) refuse(node, opset);
  const Call call(node, inputs, opset, limits);
  std::vector<Tensor> outputs = op->run(call);
  for (std::size_t i = outputs.size(); i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) call.refuse("its output " + std::to_string(i) + " is not supported");
  }
  outputs.resize(node.outputs.size());
  return outputs;
}

Values run_subset(const Model& model, const Values& inputs, const std::vector<std::string>& wanted,
                  const Limits& limits) {
  const std::vector<std::size_t> order = needed_nodes(model, inputs, wanted);
  std::map<std::string, std::size_t> last_reader;
  for (const std::size_t i : order)
    for (const std::string& name : model.nodes[i].inputs) last_reader[name] = i;
  for (const std::string& name : wanted) last_reader.erase(name);
  Memory memory(model, inputs);
  for (const std::size_t i : order) {
    const Node& node = model.nodes[i];
    run_in(memory, node, model.opset(node.domain), limits);
    for (const std::string& name : node.inputs)
      if (const auto found = last_reader.find(name); found != last_reader.end() && found->second == i)
        memory.release(name);
  }
  Values out;
  for (const std::string& name : wanted)
    if (!out.contains(name)) out.emplace(name, memory.take(name));
  return out;
}

Values run(const Model& model, const Values& inputs, const Limits& limits) {
  std::set<std::string> known;
  for (const Value& value : model.inputs) {
    known.insert(value.name);
    const auto found = inputs.find(value.name);
    if (found == inputs.end())
      throw Error(ErrorKind::Usage,
                  fmt::format("input '{}' of the model has no value", printable(value.name)));
    check_input(value, found->second);
  }
  for (const auto& [name, tensor] : inputs) {
    if (!known.contains(name))
      throw Error(ErrorKind::Usage, fmt::format("'{}' is no input of the model", printable(name)));
  }
  std::vector<std::string> wanted;
  for (const Value& value : model.outputs) wanted.push_back(value.name);
  return run_subset(model, inputs, wanted, limits);
}

}  // namespace tw::onnx
