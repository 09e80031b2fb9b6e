#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "ref/kernels.h"
#include "ref/ref.h"

namespace tw::ref {
namespace {

using graph::Graph;
using graph::Op;
using graph::OpKind;
using Data = std::vector<float>;

class Executor {
 public:
  Executor(const Graph& graph, const Host& host, const Options& options)
      : graph_(graph),
        host_(host),
        options_(options),
        owned_(graph.values.size()),
        view_(graph.values.size()) {}

  std::vector<Data> run() {
    for (const Op& op : graph_.ops) op.kind == OpKind::Repeat ? repeat(op) : step(op, 0);
    std::vector<Data> out;
    for (ValueId id : graph_.outputs) out.push_back(at(id));
    return out;
  }

 private:
  // Inputs stay with the caller and body arguments are views; only results are owned.
  const Data& at(ValueId id) {
    if (view_[id.value] == nullptr) view_[id.value] = &input(id);
    return *view_[id.value];
  }
  const Data& input(ValueId id) {
    const graph::Value& value = graph_.at(id);
    TW_CHECK(value.kind == graph::ValueKind::Host || value.kind == graph::ValueKind::Parameter,
             "value \"" + value.name + "\" is used before it is computed");
    const Data& data = host_(value.name);
    if (data.size() != tensor::elements(value.shape))
      throw Error(ErrorKind::Shape, fmt::format("\"{}\": {} values given for shape {}", value.name,
                                                data.size(), tensor::to_string(value.shape)));
    return data;
  }

  void repeat(const Op& op) {
    const graph::Repeat& region = graph_.repeats[op.repeat];
    std::vector<Data> carried;
    for (ValueId id : region.carried_in) carried.push_back(at(id));
    const std::size_t invariants = region.invariant_in.size();
    for (std::uint32_t i = 0; i < region.count; ++i) {
      for (std::size_t j = 0; j < region.arguments.size(); ++j) {
        const Data* value = nullptr;
        if (j < carried.size())
          value = &carried[j];
        else if (j < carried.size() + invariants)
          value = &at(region.invariant_in[j - carried.size()]);
        else
          value = &at(graph_.sequences[region.iterated[j - carried.size() - invariants]].members[i]);
        view_[region.arguments[j].value] = value;
      }
      for (const Op& inner : region.body) step(inner, i);
      std::vector<Data> next;
      for (ValueId id : region.yields) next.push_back(at(id));
      carried = std::move(next);
    }
    for (std::size_t j = 0; j < carried.size(); ++j) own(op.results[j], std::move(carried[j]));
    // What the body computed is dead from here on.
    for (const Op& inner : region.body)
      for (ValueId id : inner.results) owned_[id.value] = Data();
  }

  void own(ValueId id, Data data) {
    owned_[id.value] = std::move(data);
    view_[id.value] = &owned_[id.value];
  }

  void step(const Op& op, std::uint32_t iteration) {
    const tensor::Shape& shape = graph_.at(op.results[0]).shape;
    Data y(tensor::elements(shape));
    Operands operands;
    for (const ValueId id : op.inputs) operands.push_back(&at(id));
    if (options_.operands) options_.operands(op, iteration, operands);
    compute(op, operands, shape, y);
    own(op.results[0], std::move(y));
    if (options_.checkpoint) options_.checkpoint(op.path, iteration, owned_[op.results[0].value]);
  }

  void compute(const Op& op, const Operands& operands, const tensor::Shape& shape, Data& y) {
    const unsigned threads = options_.threads;
    const auto in = [&](std::size_t i) -> const Data& { return *operands[i]; };
    const auto shape_of = [&](std::size_t i) -> const tensor::Shape& {
      return graph_.at(op.inputs[i]).shape;
    };
    switch (op.kind) {
      case OpKind::Gemm:
        return gemm(in(0), shape_of(0), in(1), shape_of(1), y, shape, threads);
      case OpKind::Gelu:
        return gelu(in(0), y, threads);
      case OpKind::LayerNorm:
        return layer_norm(in(0), in(1), in(2), op.epsilon, shape.back(), y, threads);
      case OpKind::Add:
        return add(in(0), shape_of(0), in(1), shape_of(1), y, shape, threads);
      case OpKind::SplitHeads:
        return split_heads(in(0), shape, op.heads, y);
      case OpKind::MergeHeads:
        return merge_heads(in(0), shape_of(0), op.heads, y);
      case OpKind::Rope:
        return rope(in(0), in(1), in(2), shape.back(), op.interleaved, y);
      case OpKind::Unary:
        return unary(op.unary, in(0), y, threads);
      case OpKind::Binary:
        return binary(op.binary, in(0), shape_of(0), in(1), shape_of(1), y, shape, threads);
      case OpKind::Softmax:
        y = in(0);
        for (std::size_t i = 0; i < y.size(); i += shape.back())
          softmax_row(std::span(y).subspan(i, shape.back()), 1.0F);
        return;
      case OpKind::Reduce:
        return reduce(op.reduction, in(0), shape_of(0).back(), y);
      case OpKind::Reshape:
        y = in(0);
        return;
      case OpKind::Slice:
      case OpKind::Transpose:
      case OpKind::Expand:
        return move(op, in(0), shape_of(0), shape, y);
      case OpKind::Concat:
        return join(op, operands, shape, y);
      case OpKind::Attention:
        return attention(in(0), shape_of(0), in(1), in(2), shape_of(2), op.scale, y, threads);
      case OpKind::Repeat:
        break;
    }
    fail_check("OpKind", "a repeat inside a repeat");
  }

  static void move(const Op& op, const Data& x, const tensor::Shape& from, const tensor::Shape& shape,
                   Data& y) {
    std::vector<std::size_t> strides = broadcast_strides(from, op.kind == OpKind::Expand ? shape : from);
    std::size_t offset = 0;
    if (op.kind == OpKind::Slice) {
      offset = op.start * strides[op.axis];
      strides[op.axis] *= op.step;
    }
    if (op.kind == OpKind::Transpose) {
      const std::vector<std::size_t> old = strides;
      for (std::size_t i = 0; i < old.size(); ++i) strides[i] = old[op.permutation[i]];
    }
    strided(x, offset, strides, shape, y);
  }

  void join(const Op& op, const Operands& operands, const tensor::Shape& shape, Data& y) const {
    std::size_t inner = 1, at_axis = 0;
    for (std::size_t i = op.axis + 1; i < shape.size(); ++i) inner *= shape[i];
    const std::size_t row = inner * shape[op.axis];
    for (std::size_t j = 0; j < operands.size(); ++j) {
      const std::size_t part = inner * graph_.at(op.inputs[j]).shape[op.axis];
      const Data& x = *operands[j];
      for (std::size_t i = 0; i < x.size() / part; ++i)
        std::copy_n(&x[i * part], part, &y[i * row + at_axis]);
      at_axis += part;
    }
  }

  const Graph& graph_;
  const Host& host_;
  const Options& options_;
  std::vector<Data> owned_;
  std::vector<const Data*> view_;
};

}  // namespace

std::vector<std::vector<float>> run(const Graph& graph, const Host& host, const Options& options) {
  return Executor(graph, host, options).run();
}

}  // namespace tw::ref
