#include <fmt/core.h>

#include <set>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/infer.h"

namespace tw::graph {
namespace {

enum class Region { Top, Body };

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), definitions_(graph.values.size(), 0) {}

  std::vector<std::string> run() {
    Scope top;
    check_inputs(top);
    for (const Sequence& sequence : graph_.sequences) check_sequence(sequence, top);
    check_ops(graph_.ops, top, Region::Top);
    if (graph_.outputs.empty()) problem("the graph has no output");
    for (ValueId id : graph_.outputs) check_use(id, top, "output");
    if (repeats_.size() != graph_.repeats.size()) problem("a repeat region belongs to no operation");
    for (std::size_t i = 0; i < definitions_.size(); ++i)
      if (definitions_[i] != 1)
        problem(
            fmt::format("value %{} \"{}\" is defined {} times", i, graph_.values[i].name, definitions_[i]));
    return std::move(problems_);
  }

 private:
  using Scope = std::set<ValueId>;

  void problem(std::string text) { problems_.push_back(std::move(text)); }
  bool exists(ValueId id, const std::string& where) {
    if (id.value < graph_.values.size()) return true;
    problem(fmt::format("{}: value id {} does not exist", where, id.value));
    return false;
  }
  void define(ValueId id, Scope& scope, const std::string& where) {
    if (!exists(id, where)) return;
    ++definitions_[id.value];
    scope.insert(id);
  }
  bool check_use(ValueId id, const Scope& scope, const std::string& where) {
    if (!exists(id, where)) return false;
    if (scope.contains(id)) return true;
    problem(fmt::format("{}: %{} \"{}\" is not defined here", where, id.value, graph_.at(id).name));
    return false;
  }

  void check_inputs(Scope& top) {
    std::set<std::string> names;
    for (std::uint32_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.kind != ValueKind::Host && value.kind != ValueKind::Parameter) continue;
      define(ValueId(i), top, "input");
      if (!names.insert(value.name).second) problem(fmt::format("two inputs are named \"{}\"", value.name));
    }
  }

  void check_sequence(const Sequence& sequence, const Scope& top) {
    const std::string where = fmt::format("sequence \"{}\"", sequence.name);
    for (ValueId id : sequence.members)
      if (check_use(id, top, where) && graph_.at(id).shape != graph_.at(sequence.members[0]).shape)
        problem(where + ": shapes of its members differ");
  }

  void check_ops(const std::vector<Op>& ops, Scope& scope, Region region) {
    std::set<std::string> paths;
    for (const Op& op : ops) {
      if (!paths.insert(op.path).second) problem(fmt::format("two operations are named \"{}\"", op.path));
      if (op.kind != OpKind::Repeat) {
        check_op(op, scope);
      } else if (region == Region::Body) {
        problem(fmt::format("repeat \"{}\" is nested", op.path));
      } else {
        check_repeat(op, scope);
      }
    }
  }

  void check_op(const Op& op, Scope& scope) {
    const std::string where = fmt::format("{} \"{}\"", name_of(op.kind), op.path);
    bool usable = op.results.size() == 1;
    if (!usable) problem(where + ": needs exactly one result");
    std::vector<Shape> shapes;
    for (ValueId id : op.inputs) {
      usable = check_use(id, scope, where) && usable;
      if (usable) shapes.push_back(graph_.at(id).shape);
    }
    for (ValueId id : op.results) define(id, scope, where);
    if (!usable || op.results[0].value >= graph_.values.size()) return;
    try {
      const Shape shape = infer(op, shapes);
      if (shape != graph_.at(op.results[0]).shape)
        problem(fmt::format("{}: result has shape {}, should be {}", where,
                            tensor::to_string(graph_.at(op.results[0]).shape), tensor::to_string(shape)));
    } catch (const Error& error) {
      problem(error.what());
    }
  }

  void check_repeat(const Op& op, Scope& scope) {
    const std::string where = fmt::format("repeat \"{}\"", op.path);
    if (op.repeat >= graph_.repeats.size() || !repeats_.insert(op.repeat).second)
      return problem(where + ": its region does not exist or is used twice");
    const Repeat& repeat = graph_.repeats[op.repeat];
    for (ValueId id : repeat.carried_in) check_use(id, scope, where);
    for (ValueId id : repeat.invariant_in) check_use(id, scope, where);
    for (std::uint32_t index : repeat.iterated)
      if (index >= graph_.sequences.size()) return problem(where + ": iterates an unknown sequence");
    Scope body;
    for (ValueId id : repeat.arguments) define(id, body, where);
    check_ops(repeat.body, body, Region::Body);
    for (ValueId id : repeat.yields) check_use(id, body, where);
    for (ValueId id : op.results) define(id, scope, where);
    if (!problems_.empty()) return;  // shapes mean nothing while ids are wrong
    for (auto& text : repeat_problems(graph_, op)) problem(std::move(text));
    if (op.results.size() != repeat.carried_in.size())
      return problem(where + ": needs one result per carried value");
    for (std::size_t i = 0; i < op.results.size(); ++i)
      if (graph_.at(op.results[i]).shape != graph_.at(repeat.carried_in[i]).shape)
        problem(fmt::format("{}: result {} has another shape than the carried value", where, i));
  }

  const Graph& graph_;
  std::vector<std::uint32_t> definitions_;
  std::set<std::uint32_t> repeats_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace tw::graph
