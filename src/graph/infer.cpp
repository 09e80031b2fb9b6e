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
  const bool good = op.axis < x.size() && op.length > 0 && op.step > 0 &&
                    op.start + (op.length - 1ULL) * op.step < x[op.axis];
  if (!good)
    reject(op, fmt::format("window {}+{} (step {}) of axis {} is outside {}", op.start, op.length, op.step,
                           op.axis, tensor::to_string(x)));
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

Shape infer_rope(const Op& op, std::span<const Shape> in) {
  const Shape& x = in[0];
  if (x.size() != 3 || x[2] % 2 != 0) reject(op, "needs [streams, rows, width] with an even width");
  for (std::size_t i = 1; i < 3; ++i)
    if (in[i] != Shape{x[1], x[2]})
      reject(op, fmt::format("a table must be {}, not {}", tensor::to_string({x[1], x[2]}),
                             tensor::to_string(in[i])));
  return x;
}

Shape infer_reshape(const Op& op, const Shape& x) {
  if (tensor::elements(op.shape) != tensor::elements(x) || op.shape.empty())
    reject(op, fmt::format("{} does not become {}", tensor::to_string(x), tensor::to_string(op.shape)));
  return op.shape;
}

Shape infer_transpose(const Op& op, const Shape& x) {
  std::vector<bool> seen(x.size(), false);
  Shape out;
  for (const std::uint32_t axis : op.permutation) {
    if (axis >= x.size() || seen[axis]) reject(op, "the permutation does not name every axis once");
    seen[axis] = true;
    out.push_back(x[axis]);
  }
  if (out.size() != x.size()) reject(op, "the permutation does not name every axis once");
  return out;
}

Shape infer_concat(const Op& op, std::span<const Shape> in) {
  if (in.empty() || op.axis >= in[0].size()) reject(op, "nothing to join, or no such axis");
  Shape out = in[0];
  for (const Shape& part : in.subspan(1)) {
    Shape other = part;
    if (part.size() == out.size()) other[op.axis] = out[op.axis];
    if (other != out)
      reject(op, fmt::format("{} and {} differ beside axis {}", tensor::to_string(in[0]),
                             tensor::to_string(part), op.axis));
    out[op.axis] += part[op.axis];
  }
  return out;
}

Shape infer_last_axis(const Op& op, const Shape& x) {
  if (x.empty()) reject(op, "needs a last axis");
  Shape out = x;
  if (op.kind == OpKind::Reduce) out.back() = 1;
  return out;
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
    case OpKind::Rope:
      return "rope";
    case OpKind::Unary:
      return "unary";
    case OpKind::Binary:
      return "binary";
    case OpKind::Softmax:
      return "softmax";
    case OpKind::Reduce:
      return "reduce";
    case OpKind::Reshape:
      return "reshape";
    case OpKind::Transpose:
      return "transpose";
    case OpKind::Expand:
      return "expand";
    case OpKind::Concat:
      return "concat";
    case OpKind::Repeat:
      return "repeat";
  }
  fail_check("OpKind", "unknown kind of operation");
}

std::size_t arity(OpKind kind) {
  switch (kind) {
    case OpKind::Gemm:
    case OpKind::Add:
    case OpKind::Binary:
      return 2;
    case OpKind::LayerNorm:
    case OpKind::Attention:
    case OpKind::Rope:
      return 3;
    case OpKind::Repeat:
      return 0;
    default:
      return 1;
  }
}

Shape infer(const Op& op, std::span<const Shape> inputs) {
  TW_CHECK(op.kind != OpKind::Repeat, "a Repeat has no single result shape");
  if (op.kind != OpKind::Concat && inputs.size() != arity(op.kind))
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
    case OpKind::Rope:
      return infer_rope(op, inputs);
    case OpKind::Unary:
      if (op.unary == numeric::Unary::GeluTanh) reject(op, "the tanh GELU is an operation of its own");
      return inputs[0];
    case OpKind::Binary:
      if (op.binary == numeric::Binary::Add) reject(op, "Add is an operation of its own");
      return broadcast(op, inputs[0], inputs[1]);
    case OpKind::Softmax:
    case OpKind::Reduce:
      return infer_last_axis(op, inputs[0]);
    case OpKind::Reshape:
      return infer_reshape(op, inputs[0]);
    case OpKind::Transpose:
      return infer_transpose(op, inputs[0]);
    case OpKind::Expand:
      if (broadcast(op, inputs[0], op.shape) != op.shape)
        reject(op, fmt::format("{} does not expand to {}", tensor::to_string(inputs[0]),
                               tensor::to_string(op.shape)));
      return op.shape;
    case OpKind::Concat:
      return infer_concat(op, inputs);
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
