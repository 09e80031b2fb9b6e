#include "onnx/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "graph/parameters.h"
#include "graph/roll.h"
#include "import/problems.h"
#include "onnx/constant_rows.h"
#include "onnx/convolutions.h"
#include "onnx/facts.h"
#include "onnx/interpret.h"
#include "onnx/lower.h"
#include "onnx/patterns.h"
#include "onnx/read.h"
#include "onnx/transposes.h"

namespace tw::onnx {
namespace {

enum class Stage : std::uint8_t { Prefix, Device, Suffix };

void bind(Model& model, const ImportOptions& options) {
  for (const auto& [name, tensor] : options.constants) {
    const auto input = std::ranges::find(model.inputs, name, &Value::name);
    if (input == model.inputs.end())
      throw Error(ErrorKind::Usage, fmt::format("the model has no input \"{}\"", name));
    model.inputs.erase(input);
    model.initializers[name] = tensor;
  }
  bind_dims(model, options.dims);
}

// The import interprets every node, so what the interpreter lacks nobody can run.
void refuse_unsupported(const Model& model) {
  std::string text;
  for (const Unsupported& u : unsupported(model))
    text += fmt::format("{}{} ({} nodes: {})", text.empty() ? "" : "; ", u.op_type, u.count,
                        fmt::join(u.first_nodes, ", "));
  if (!text.empty())
    throw Error(ErrorKind::UnsupportedOp, "operators that neither the device nor the host can run: " + text);
}

// Where every node runs: what the device cannot do stands before or after it. Nodes are in order, so the
// first k of those before and the rest after it is a cut; the one with most work on the device wins.
class Partition {
 public:
  // `able`: nodes that will be rewritten for the device.
  Partition(const Model& model, const Facts& facts, const std::set<std::size_t>& able)
      : model_(model), facts_(facts) {
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      for (const std::string& name : model.nodes[i].outputs) producer_[name] = i;
      if (!able.contains(i) && !why_not(model.nodes[i], facts, model.opset()).empty()) foreign_.push_back(i);
      products_ = products_ || work_of(model.nodes[i], facts) > 0;
    }
  }

  std::vector<Stage> best() const {
    std::vector<Stage> best;
    std::pair<double, std::size_t> most{-1, 0};
    for (std::size_t k = 0; k <= foreign_.size(); ++k) {
      std::vector<Stage> stages = cut(k);
      std::pair<double, std::size_t> worth{0, 0};
      for (std::size_t i = 0; i < stages.size(); ++i)
        if (stages[i] == Stage::Device) worth.first += work_of(model_.nodes[i], facts_), ++worth.second;
      if (worth > most) most = worth, best = std::move(stages);
    }
    return best;
  }

 private:
  std::vector<Stage> cut(std::size_t before) const {
    const std::vector<Node>& nodes = model_.nodes;
    std::vector<Stage> stages(nodes.size(), Stage::Device);
    for (std::size_t f = 0; f < foreign_.size(); ++f)
      stages[foreign_[f]] = f < before ? Stage::Prefix : Stage::Suffix;
    for (std::size_t i = nodes.size(); i-- > 0;)  // upward
      if (stages[i] == Stage::Prefix)
        for (const std::string& name : nodes[i].inputs)
          if (const auto p = producer_.find(name); p != producer_.end()) stages[p->second] = Stage::Prefix;
    for (std::size_t i = 0; i < nodes.size(); ++i) {  // downward
      bool after = stages[i] == Stage::Suffix, given = is_movement(nodes[i]);
      for (const std::string& name : nodes[i].inputs) {
        const auto p = producer_.find(name);
        const Stage from = p == producer_.end() ? Stage::Prefix : stages[p->second];
        after = after || from == Stage::Suffix;
        given = given && from == Stage::Prefix;
      }
      if (after) stages[i] = Stage::Suffix;
      // The host hands a value over in the form in which the device wants it.
      if (given && products_ && stages[i] == Stage::Device) stages[i] = Stage::Prefix;
    }
    return stages;
  }

  const Model& model_;
  const Facts& facts_;
  std::map<std::string, std::size_t> producer_;
  std::vector<std::size_t> foreign_;
  bool products_ = false;  // the device has something to do beside movements
};

Value value_of(const Facts& facts, const std::string& name) {
  Value v{.name = name, .element = facts.elements.at(name), .has_shape = true, .dims = {}};
  for (const std::int64_t d : facts.dims.at(name)) v.dims.push_back({.value = d, .name = {}});
  return v;
}

class Assembly {
 public:
  Assembly(const Model& model, Facts& facts, const std::vector<Stage>& stages)
      : model_(model), facts_(facts), stages_(stages) {
    for (std::size_t i = 0; i < model.nodes.size(); ++i)
      for (const std::string& name : model.nodes[i].outputs) made_[name] = stages[i];
  }

  void into(Program& program) {
    const std::vector<std::string> host = crossing(Stage::Prefix, Stage::Device),
                                   past = crossing(Stage::Prefix, Stage::Suffix);
    program.outputs = crossing(Stage::Device, Stage::Suffix);
    std::set<std::string> kept(host.begin(), host.end()),
        read(program.outputs.begin(), program.outputs.end());
    kept.insert(past.begin(), past.end());
    read.insert(past.begin(), past.end());
    program.prefix = part(Stage::Prefix, {kept.begin(), kept.end()});
    std::vector<std::string> outputs;
    for (const Value& v : model_.outputs) outputs.push_back(v.name);
    program.suffix = part(Stage::Suffix, outputs);
    program.suffix.inputs.clear();
    for (const std::string& name : read) program.suffix.inputs.push_back(value_of(facts_, name));
    notes(program);
    Model middle = part(Stage::Device, program.outputs);
    fuse_patterns(middle, facts_);
    lower(middle, host, program);
  }

 private:
  Stage stage_of(const std::string& name) const {
    const auto made = made_.find(name);
    return made == made_.end() ? Stage::Prefix : made->second;
  }
  // Values of one stage that another reads; model outputs are read by the suffix.
  std::vector<std::string> crossing(Stage from, Stage to) const {
    std::vector<std::string> names;
    const auto read = [&](const std::string& name) {
      if (name.empty() || facts_.constant(name) || stage_of(name) != from) return;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    for (std::size_t i = 0; i < model_.nodes.size(); ++i)
      if (stages_[i] == to) std::ranges::for_each(model_.nodes[i].inputs, read);
    if (to == Stage::Suffix)
      for (const Value& v : model_.outputs) read(v.name);
    return names;
  }

  Model part(Stage stage, const std::vector<std::string>& outputs) const {
    Model out;
    out.opsets = model_.opsets;
    out.inputs = model_.inputs;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      if (stages_[i] != stage) continue;
      out.nodes.push_back(model_.nodes[i]);
      if (stage == Stage::Device) continue;  // its constants become parameters
      for (const std::string& name : model_.nodes[i].inputs)
        if (facts_.constant(name)) out.initializers[name] = facts_.constants.at(name);
    }
    for (const std::string& name : outputs) {
      if (facts_.constant(name)) out.initializers[name] = facts_.constants.at(name);
      out.outputs.push_back(value_of(facts_, name));
    }
    return out;
  }

  // Constants are dropped behind their last reader: weights are large.
  void lower(const Model& middle, const std::vector<std::string>& host, Program& program) {
    std::map<std::string, std::size_t> last;
    for (std::size_t i = 0; i < middle.nodes.size(); ++i)
      for (const std::string& name : middle.nodes[i].inputs) last[name] = i;
    Lowering lowering("onnx", facts_, model_.opset());
    for (const std::string& name : host) lowering.host(name);
    for (std::size_t i = 0; i < middle.nodes.size(); ++i) {
      lowering.lower(middle.nodes[i]);
      for (const std::string& name : middle.nodes[i].inputs)
        if (last.at(name) == i) facts_.constants.erase(name);
    }
    program.graph = graph::roll_layers(lowering.finish(program.outputs));
    program.parameters = std::move(lowering.parameters);
  }

  void notes(Program& program) const {
    std::map<std::pair<Stage, std::string>, std::pair<int, std::string>> counts;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      if (stages_[i] == Stage::Device) continue;
      auto& [count, why] = counts[{stages_[i], model_.nodes[i].op_type}];
      ++count;
      if (why.empty()) why = why_not(model_.nodes[i], facts_, model_.opset());
    }
    for (const auto& [key, entry] : counts)
      program.notes.push_back(fmt::format("{} of {} on the host, {} the device{}", entry.first, key.second,
                                          key.first == Stage::Prefix ? "before" : "after",
                                          entry.second.empty() ? "" : ": " + entry.second));
  }

  const Model& model_;
  Facts& facts_;
  const std::vector<Stage>& stages_;
  std::map<std::string, Stage> made_;
};

// The part for the device in forms that suit it: convolutions as products, no transposes around them,
// constant rows and sums in one table.
void rewrite_for_device(Model& model, Facts& facts) {
  std::set<std::size_t> convolutions = convolutions_for_device(model, facts);
  std::vector<Stage> stages = Partition(model, facts, convolutions).best();
  std::erase_if(convolutions, [&](std::size_t i) { return stages[i] != Stage::Device; });
  rewrite_convolutions(model, facts, convolutions);
  stages = Partition(model, facts, {}).best();
  cancel_transposes(model, facts, [&](std::size_t i) { return stages[i] == Stage::Device; });
  stages = Partition(model, facts, {}).best();
  std::set<std::string> device;
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages[i] != Stage::Prefix)
      device.insert(model.nodes[i].outputs.begin(), model.nodes[i].outputs.end());
  join_constant_rows(model, facts, [&](const std::string& name) { return !device.contains(name); });
  join_constant_sums(model, facts);
}

// NaN has no place on the device; infinities only where a mask may have them, not in products.
void refuse_not_finite(const Program& program) {
  std::set<std::string> weights;
  for (const ValueId id : graph::product_parameters(program.graph)) weights.insert(program.graph.at(id).name);
  std::vector<std::string> problems;
  for (const auto& [name, values] : program.parameters) {
    const bool product = weights.contains(name);
    const auto bad =
        std::ranges::find_if(values, [&](float v) { return std::isnan(v) || (product && std::isinf(v)); });
    if (bad != values.end())
      problems.push_back(
          fmt::format("{}: element {} is {}", import::in_quotes(name), bad - values.begin(), *bad));
  }
  if (!problems.empty()) import::refuse("weights for the device", problems);
}

}  // namespace

graph::Shape graph_shape(const Dims& dims) {
  graph::Shape shape;
  for (const std::int64_t d : dims) shape.push_back(static_cast<std::uint32_t>(d));
  return shape.empty() ? graph::Shape{1} : shape;
}

Program import(Model model, const ImportOptions& options) {
  Program program;
  bind(model, options);
  refuse_unsupported(model);
  program.whole = model;
  Facts facts = find_facts(model);
  drop_nan_guards(model, facts);
  fold_batch_norms(model, facts);
  rewrite_products(model, facts);
  rewrite_for_device(model, facts);
  const std::vector<Stage> stages = Partition(model, facts, {}).best();
  if (std::ranges::find(stages, Stage::Device) == stages.end()) {
    std::map<std::string, std::string> reasons;
    for (const Node& node : model.nodes)
      reasons.try_emplace(node.op_type, why_not(node, facts, model.opset()));
    std::string text;
    for (const auto& [op, why] : reasons) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", op, why);
    throw Error(ErrorKind::UnsupportedOp, "nothing of the model can run on the device (" +
                                              (text.empty() ? "its outputs are constants or inputs" : text) +
                                              ")");
  }
  Assembly(model, facts, stages).into(program);
  refuse_not_finite(program);
  return program;
}

}  // namespace tw::onnx
