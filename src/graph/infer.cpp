#include "graph/infer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tw::graph {
namespace {

[[noreturn]] void reject(const Op& op, const std::string& why) {
  throw Error(ErrorKind::Shape, fmt::format("{} \"{}\": {}", name_of(op.kind), op.path, why));
}

// numpy broadcasting of two shapes, aligned at the last axis.
Shape broadcast(const Op& op, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t from_end = out.size() - i;
    const std::uint32_t x = from_end <= a.size() ? a[a.size() - from_end] : 1;
    const std::uint32_t y = from_end <= b.size() ? b[b.size() - from_end] : 1;
    if (x != y && x != 1 && y != 1)
      reject(op, fmt::format("cannot broadcast {} with {}", tensor::to_string(a), tensor::to_string(b)));
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Shape infer_gemm(const Op& op, const Shape& x, const Shape& w) {
  if (x.size() < 2 || w.size() < 2) reject(op, "operands need at least two axes");
  if (x.back() != w[w.size() - 2])
    reject(op, fmt::format("inner extents differ: {} times {}", tensor::to_string(x), tensor::to_string(w)));
  Shape out = broadcast(op, Shape(x.begin(), x.end() - 2), Shape(w.begin(), w.end() - 2));
  out.push_back(x[x.size() - 2]);
  out.push_back(w.back());
  return out;
}

Shape infer_layer_norm(const Op& op, std::span<const Shape> in) {
  if (in[0].empty()) reject(op, "needs a last axis");
  for (std::size_t i = 1; i < 3; ++i)
    if (in[i].empty() || in[i].back() != in[0].back() || tensor::elements(in[i]) != in[0].back())
      reject(op, fmt::format("scale and bias must be vectors of width {}, not {}", in[0].back(),
                             tensor::to_string(in[i])));
  if (!(op.epsilon > 0) || !std::isfinite(op.epsilon)) reject(op, "epsilon must be positive");
  return in[0];
}

// [B,R,h*c] -> [B*h,R,c].
Shape infer_split(const Op& op, const Shape& x) {
  if (x.size() != 3 || op.heads == 0 || x[2] % op.heads != 0)
    reject(op, fmt::format("cannot split {} into {} heads", tensor::to_string(x), op.heads));
  return {x[0] * op.heads, x[1], x[2] / op.heads};
}
// [B*h,R,c] -> [B,R,h*c].
Shape infer_merge(const Op& op, const Shape& x) {
  if (x.size() != 3 || op.heads == 0 || x[0] % op.heads != 0)
    reject(op, fmt::format("cannot merge {} heads of {}", op.heads, tensor::to_string(x)));
  return {x[0] / op.heads, x[1], x[2] * op.heads};
}

Shape infer_slice(const Op& op, const Shape& x) {
  if (op.axis >= x.size() || op.length == 0 || op.start > x[op.axis] || op.length > x[op.axis] - op.start)
    reject(op, fmt::format("window {}+{} of axis {} is outside {}", op.start, op.length, op.axis,
                           tensor::to_string(x)));
  Shape out = x;
  out[op.axis] = op.length;
  return out;
}

Shape infer_attention(const Op& op, const Shape& q, const Shape& k, const Shape& v) {
  if (q.size() != 3 || k.size() != 3 || v.size() != 3) reject(op, "operands need three axes");
  if (q[0] != k[0] || q[0] != v[0]) reject(op, "numbers of streams differ");
  if (q[2] != k[2]) reject(op, fmt::format("query width {} and key width {} differ", q[2], k[2]));
  if (k[1] != v[1]) reject(op, fmt::format("{} keys but {} values", k[1], v[1]));
  if (!(op.scale > 0) || !std::isfinite(op.scale)) reject(op, "scale must be positive and finite");
  return {q[0], q[1], v[2]};
}

}  // namespace

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::Gemm:
      return "gemm";
    case OpKind::Gelu:
      return "gelu";
    case OpKind::LayerNorm:
      return "layer_norm";
    case OpKind::Add:
      return "add";
    case OpKind::SplitHeads:
      return "split_heads";
    case OpKind::MergeHeads:
      return "merge_heads";
    case OpKind::Slice:
      return "slice";
    case OpKind::Attention:
      return "attention";
    case OpKind::Repeat:
      return "repeat";
  }
  fail_check("OpKind", "unknown kind of operation");
}

std::size_t arity(OpKind kind) {
  switch (kind) {
    case OpKind::Gemm:
    case OpKind::Add:
      return 2;
    case OpKind::LayerNorm:
    case OpKind::Attention:
      return 3;
    case OpKind::Repeat:
      return 0;
    default:
      return 1;
  }
}

Shape infer(const Op& op, std::span<const Shape> inputs) {
  TW_CHECK(op.kind != OpKind::Repeat, "a Repeat has no single result shape");
  if (inputs.size() != arity(op.kind))
    reject(op, fmt::format("takes {} operands, not {}", arity(op.kind), inputs.size()));
  switch (op.kind) {
    case OpKind::Gemm:
      return infer_gemm(op, inputs[0], inputs[1]);
    case OpKind::Gelu:
      return inputs[0];
    case OpKind::LayerNorm:
      return infer_layer_norm(op, inputs);
    case OpKind::Add:
      return broadcast(op, inputs[0], inputs[1]);
    case OpKind::SplitHeads:
      return infer_split(op, inputs[0]);
    case OpKind::MergeHeads:
      return infer_merge(op, inputs[0]);
    case OpKind::Slice:
      return infer_slice(op, inputs[0]);
    case OpKind::Attention:
      return infer_attention(op, inputs[0], inputs[1], inputs[2]);
    case OpKind::Repeat:
      break;
  }
  fail_check("OpKind", "unknown kind of operation");
}

std::vector<std::string> repeat_problems(const Graph& graph, const Op& op) {
  const Repeat& repeat = graph.repeats.at(op.repeat);
  std::vector<std::string> problems;
  auto problem = [&](const std::string& why) {
    problems.push_back(fmt::format("repeat \"{}\": {}", op.path, why));
  };
  if (repeat.count == 0) problem("runs zero times");
  std::vector<Shape> operands;
  for (ValueId id : repeat.carried_in) operands.push_back(graph.at(id).shape);
  for (ValueId id : repeat.invariant_in) operands.push_back(graph.at(id).shape);
  for (std::uint32_t index : repeat.iterated) {
    const Sequence& sequence = graph.sequences.at(index);
    if (sequence.members.size() < repeat.count)
      problem(fmt::format("sequence \"{}\" has {} members for {} iterations", sequence.name,
                          sequence.members.size(), repeat.count));
    if (sequence.members.empty()) return problems;
    operands.push_back(graph.at(sequence.members[0]).shape);
  }
  if (operands.size() != repeat.arguments.size()) {
    problem(fmt::format("{} operands for {} arguments", operands.size(), repeat.arguments.size()));
    return problems;
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i] != graph.at(repeat.arguments[i]).shape)
      problem(fmt::format("shape of argument {} differs", i));
  if (repeat.yields.size() != repeat.carried_in.size()) {
    problem(fmt::format("{} yields for {} carried values", repeat.yields.size(), repeat.carried_in.size()));
    return problems;
  }
  for (std::size_t i = 0; i < repeat.yields.size(); ++i)
    if (graph.at(repeat.yields[i]).shape != operands[i])
      problem(fmt::format("yield {} has shape {}, the carried value {}", i,
                          tensor::to_string(graph.at(repeat.yields[i]).shape),
                          tensor::to_string(operands[i])));
  return problems;
}

}  // namespace tw::graph
