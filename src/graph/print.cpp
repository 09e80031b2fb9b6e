#include <fmt/core.h>

#include "graph/graph.h"

namespace tw::graph {
namespace {

std::string list(const std::vector<ValueId>& ids) {
  std::string text;
  for (ValueId id : ids) text += fmt::format("{}%{}", text.empty() ? "" : ", ", id.value);
  return text;
}

std::string attributes(const Op& op) {
  switch (op.kind) {
    case OpKind::SplitHeads:
    case OpKind::MergeHeads:
      return fmt::format(" heads={}", op.heads);
    case OpKind::Slice:
      return fmt::format(" axis={} start={} length={}", op.axis, op.start, op.length) +
             (op.step == 1 ? "" : fmt::format(" step={}", op.step));
    case OpKind::Attention:
      return fmt::format(" scale={:.9g}", op.scale);
    case OpKind::LayerNorm:
      return fmt::format(" epsilon={:.9g}", op.epsilon);
    case OpKind::Rope:
      return op.interleaved ? " pairs=neighbours" : " pairs=halves";
    case OpKind::Unary:
      return fmt::format(" function={}", numeric::name_of(op.unary));
    case OpKind::Binary:
      return fmt::format(" function={}", numeric::name_of(op.binary));
    case OpKind::Reduce:
      return fmt::format(" function={}", numeric::name_of(op.reduction));
    case OpKind::Transpose:
      return fmt::format(" permutation={}", tensor::to_string(op.permutation));
    case OpKind::Concat:
      return fmt::format(" axis={}", op.axis);
    default:
      return "";
  }
}

void print_op(const Graph& graph, const Op& op, const std::string& indent, std::string& out) {
  if (op.kind != OpKind::Repeat) {
    out +=
        fmt::format("{}{} = {} {}{} \"{}\" {}\n", indent, list(op.results), name_of(op.kind), list(op.inputs),
                    attributes(op), op.path, tensor::to_string(graph.at(op.results[0]).shape));
    return;
  }
  const Repeat& repeat = graph.repeats[op.repeat];
  out += fmt::format("{}{} = repeat {} carried({}) invariant({}) \"{}\"\n", indent, list(op.results),
                     repeat.count, list(repeat.carried_in), list(repeat.invariant_in), op.path);
  for (ValueId id : repeat.arguments)
    out += fmt::format("{}  %{} = argument \"{}\" {}\n", indent, id.value, graph.at(id).name,
                       tensor::to_string(graph.at(id).shape));
  for (const Op& inner : repeat.body) print_op(graph, inner, indent + "  ", out);
  out += fmt::format("{}  yield {}\n", indent, list(repeat.yields));
}

}  // namespace

std::string print(const Graph& graph) {
  std::string out = fmt::format("graph \"{}\"\n", graph.model);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == ValueKind::Host || value.kind == ValueKind::Parameter)
      out += fmt::format("  %{} = {} \"{}\" {}\n", i, value.kind == ValueKind::Host ? "host" : "parameter",
                         value.name, tensor::to_string(value.shape));
  }
  for (const Sequence& sequence : graph.sequences)
    out += fmt::format("  sequence \"{}\" ({})\n", sequence.name, list(sequence.members));
  for (const Op& op : graph.ops) print_op(graph, op, "  ", out);
  out += fmt::format("  output {}\n", list(graph.outputs));
  return out;
}

}  // namespace tw::graph
