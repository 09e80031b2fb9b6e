#include <fmt/core.h>

#include <limits>
#include <utility>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/infer.h"

namespace tw::graph {
namespace {

ValueId declare(Graph& graph, ValueKind kind, std::string name, Shape shape) {
  std::uint64_t total = 1;
  for (std::uint32_t extent : shape) {
    if (extent == 0)
      throw Error(ErrorKind::Shape, fmt::format("\"{}\": shape {} is empty", name, tensor::to_string(shape)));
    if (total > std::numeric_limits<std::uint32_t>::max() / extent)
      throw Error(ErrorKind::Shape,
                  fmt::format("\"{}\": shape {} is too large", name, tensor::to_string(shape)));
    total *= extent;
  }
  graph.values.push_back({kind, std::move(name), std::move(shape)});
  return ValueId(static_cast<std::uint32_t>(graph.values.size() - 1));
}

}  // namespace

Builder::Builder(std::string model) { graph_.model = std::move(model); }

std::vector<Op>& Builder::region() { return in_repeat_ ? graph_.repeats.back().body : graph_.ops; }

ValueId Builder::host(const std::string& name, Shape shape) {
  return declare(graph_, ValueKind::Host, name, std::move(shape));
}
ValueId Builder::parameter(const std::string& name, Shape shape) {
  return declare(graph_, ValueKind::Parameter, name, std::move(shape));
}

namespace {
Op make(OpKind kind, const std::string& path, std::vector<ValueId> inputs) {
  Op op;
  op.kind = kind;
  op.path = path;
  op.inputs = std::move(inputs);
  return op;
}
Shape infer_in(const Graph& graph, const Op& op) {
  std::vector<Shape> shapes;
  for (ValueId id : op.inputs) {
    TW_CHECK(id.value < graph.values.size(), "operand of \"" + op.path + "\" does not exist");
    shapes.push_back(graph.at(id).shape);
  }
  return infer(op, shapes);
}
}  // namespace

ValueId Builder::append(Op op) {
  const ValueId id = declare(graph_, ValueKind::Result, op.path, infer_in(graph_, op));
  op.results = {id};
  region().push_back(std::move(op));
  return id;
}

ValueId Builder::gemm(const std::string& path, ValueId x, ValueId w) {
  return append(make(OpKind::Gemm, path, {x, w}));
}
ValueId Builder::gelu(const std::string& path, ValueId x) { return append(make(OpKind::Gelu, path, {x})); }
ValueId Builder::layer_norm(const std::string& path, ValueId x, ValueId scale, ValueId bias, float epsilon) {
  Op op = make(OpKind::LayerNorm, path, {x, scale, bias});
  op.epsilon = epsilon;
  return append(std::move(op));
}
ValueId Builder::add(const std::string& path, ValueId a, ValueId b) {
  return append(make(OpKind::Add, path, {a, b}));
}
ValueId Builder::split_heads(const std::string& path, ValueId x, std::uint32_t heads) {
  Op op = make(OpKind::SplitHeads, path, {x});
  op.heads = heads;
  return append(std::move(op));
}
ValueId Builder::merge_heads(const std::string& path, ValueId x, std::uint32_t heads) {
  Op op = make(OpKind::MergeHeads, path, {x});
  op.heads = heads;
  return append(std::move(op));
}
ValueId Builder::slice(const std::string& path, ValueId x, std::uint32_t axis, std::uint32_t start,
                       std::uint32_t length, std::uint32_t step) {
  Op op = make(OpKind::Slice, path, {x});
  op.axis = axis;
  op.start = start;
  op.length = length;
  op.step = step;
  return append(std::move(op));
}
ValueId Builder::rope(const std::string& path, ValueId x, ValueId cosine, ValueId sine, bool interleaved) {
  Op op = make(OpKind::Rope, path, {x, cosine, sine});
  op.interleaved = interleaved;
  return append(std::move(op));
}
ValueId Builder::unary(const std::string& path, numeric::Unary function, ValueId x) {
  Op op = make(OpKind::Unary, path, {x});
  op.unary = function;
  return append(std::move(op));
}
ValueId Builder::binary(const std::string& path, numeric::Binary function, ValueId a, ValueId b) {
  Op op = make(OpKind::Binary, path, {a, b});
  op.binary = function;
  return append(std::move(op));
}
ValueId Builder::softmax(const std::string& path, ValueId x) {
  return append(make(OpKind::Softmax, path, {x}));
}
ValueId Builder::reduce(const std::string& path, numeric::Reduction function, ValueId x) {
  Op op = make(OpKind::Reduce, path, {x});
  op.reduction = function;
  return append(std::move(op));
}
ValueId Builder::reshape(const std::string& path, ValueId x, Shape shape) {
  Op op = make(OpKind::Reshape, path, {x});
  op.shape = std::move(shape);
  return append(std::move(op));
}
ValueId Builder::transpose(const std::string& path, ValueId x, std::vector<std::uint32_t> permutation) {
  Op op = make(OpKind::Transpose, path, {x});
  op.permutation = std::move(permutation);
  return append(std::move(op));
}
ValueId Builder::expand(const std::string& path, ValueId x, Shape shape) {
  Op op = make(OpKind::Expand, path, {x});
  op.shape = std::move(shape);
  return append(std::move(op));
}
ValueId Builder::concat(const std::string& path, std::vector<ValueId> parts, std::uint32_t axis) {
  Op op = make(OpKind::Concat, path, std::move(parts));
  op.axis = axis;
  return append(std::move(op));
}
ValueId Builder::attention(const std::string& path, ValueId q, ValueId k, ValueId v, float scale) {
  Op op = make(OpKind::Attention, path, {q, k, v});
  op.scale = scale;
  return append(std::move(op));
}

std::uint32_t Builder::sequence(const std::string& name, std::vector<ValueId> members) {
  for (ValueId id : members)
    if (graph_.at(id).shape != graph_.at(members[0]).shape)
      throw Error(ErrorKind::Shape, fmt::format("sequence \"{}\": shapes of its members differ", name));
  if (members.empty()) throw Error(ErrorKind::Shape, fmt::format("sequence \"{}\" is empty", name));
  graph_.sequences.push_back({name, std::move(members)});
  return static_cast<std::uint32_t>(graph_.sequences.size() - 1);
}

std::vector<ValueId> Builder::begin_repeat(const std::string& path, std::uint32_t count,
                                           std::vector<ValueId> carried, std::vector<ValueId> invariant,
                                           std::vector<std::uint32_t> iterated) {
  TW_CHECK(!in_repeat_, "repeats do not nest");
  std::vector<ValueId> arguments;
  auto argument = [&](const std::string& suffix, const Shape& shape) {
    arguments.push_back(declare(graph_, ValueKind::Argument, path + "/" + suffix, shape));
  };
  for (std::size_t i = 0; i < carried.size(); ++i)
    argument(fmt::format("carried{}", i), Shape(graph_.at(carried[i]).shape));
  for (std::size_t i = 0; i < invariant.size(); ++i)
    argument(fmt::format("invariant{}", i), Shape(graph_.at(invariant[i]).shape));
  for (std::uint32_t index : iterated)
    argument(graph_.sequences.at(index).name, Shape(graph_.at(graph_.sequences[index].members[0]).shape));
  Repeat repeat;
  repeat.count = count;
  repeat.carried_in = std::move(carried);
  repeat.invariant_in = std::move(invariant);
  repeat.iterated = std::move(iterated);
  repeat.arguments = arguments;
  graph_.repeats.push_back(std::move(repeat));
  in_repeat_ = true;
  repeat_path_ = path;
  return arguments;
}

std::vector<ValueId> Builder::end_repeat(std::vector<ValueId> yields) {
  TW_CHECK(in_repeat_, "end_repeat without begin_repeat");
  in_repeat_ = false;
  Repeat& repeat = graph_.repeats.back();
  repeat.yields = std::move(yields);
  Op op = make(OpKind::Repeat, repeat_path_, {});
  op.repeat = static_cast<std::uint32_t>(graph_.repeats.size() - 1);
  const auto problems = repeat_problems(graph_, op);
  if (!problems.empty()) throw Error(ErrorKind::Shape, problems.front());
  for (std::size_t i = 0; i < repeat.carried_in.size(); ++i)
    op.results.push_back(declare(graph_, ValueKind::Result, fmt::format("{}/{}", repeat_path_, i),
                                 Shape(graph_.at(repeat.carried_in[i]).shape)));
  graph_.ops.push_back(op);
  return op.results;
}

Graph Builder::finish(std::vector<ValueId> outputs) {
  TW_CHECK(!in_repeat_, "finish inside a repeat");
  graph_.outputs = std::move(outputs);
  const auto problems = verify(graph_);
  if (!problems.empty()) throw Error(ErrorKind::Shape, problems.front());
  return std::move(graph_);
}

}  // namespace tw::graph
