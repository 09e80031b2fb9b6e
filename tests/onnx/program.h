// Models written down as values, and what the import makes of them: the graph's reference between prefix and
// suffix, against the interpreter on the whole model.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "onnx/host.h"
#include "onnx/interpret.h"
#include "ref/ref.h"

namespace tw::onnx {

using Attributes = std::map<std::string, Attribute>;
using Ints = std::vector<std::int64_t>;

inline Tensor floats(Dims dims, std::vector<float> values) {
  return {.element = Element::Float, .dims = std::move(dims), .floats = std::move(values), .ints = {}};
}
inline Tensor drawn(const Dims& dims, unsigned seed, float scale = 1.0F) {
  std::int64_t count = 0;
  count_elements(dims, count);
  std::mt19937 rng(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(scale * (static_cast<float>(rng() % 2001) / 1000.0F - 1.0F));
  return floats(dims, std::move(values));
}

class Draft {
 public:
  explicit Draft(std::int64_t opset) {
    model.opsets[""] = opset;
    model.opsets["com.microsoft"] = 1;
  }
  std::string input(const std::string& name, const Dims& dims) {
    Value v{.name = name, .element = Element::Float, .has_shape = true, .dims = {}};
    for (const std::int64_t d : dims) v.dims.push_back({.value = d, .name = {}});
    model.inputs.push_back(v);
    return name;
  }
  std::string constant(Tensor t) {
    const std::string name = "c" + std::to_string(next_++);
    model.initializers[name] = std::move(t);
    return name;
  }
  std::string scalar(float v) { return constant(floats({}, {v})); }
  std::string ints(Ints v) {
    return constant({.element = Element::Int64,
                     .dims = {static_cast<std::int64_t>(v.size())},
                     .floats = {},
                     .ints = std::move(v)});
  }
  std::vector<std::string> many(std::size_t outputs, const std::string& op, std::vector<std::string> inputs,
                                Attributes attributes = {}, const std::string& domain = "") {
    Node node{.op_type = op,
              .domain = domain,
              .name = "",
              .inputs = std::move(inputs),
              .outputs = {},
              .attributes = std::move(attributes)};
    for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back("v" + std::to_string(next_++));
    model.nodes.push_back(node);
    return node.outputs;
  }
  std::string op(const std::string& type, std::vector<std::string> inputs, Attributes attributes = {},
                 const std::string& domain = "") {
    return many(1, type, std::move(inputs), std::move(attributes), domain)[0];
  }
  void output(const std::string& name) {
    model.outputs.push_back({.name = name, .element = Element::Float, .has_shape = false, .dims = {}});
  }
  std::string reshape(const std::string& x, Ints shape) { return op("Reshape", {x, ints(std::move(shape))}); }
  std::string transpose(const std::string& x, Ints perm) {
    return op("Transpose", {x}, {{"perm", std::move(perm)}});
  }

  Model model;

 private:
  int next_ = 0;
};

// Inputs, prefix, graph, suffix: the model's outputs.
inline Values run_program(const Program& program, const Values& inputs) {
  const Values values = before_device(program, inputs);
  const auto data = [&](const std::string& name) -> const std::vector<float>& {
    const auto found = program.parameters.find(name);
    return found != program.parameters.end() ? found->second : values.at(name).floats;
  };
  return after_device(program, values, ref::run(program.graph, data));
}

// Imports, compares with the interpreter, gives the program.
inline Program checked(const Draft& draft, double tolerance = 1e-4) {
  Program program = import(draft.model, {});
  Values inputs;
  unsigned seed = 1000;
  for (const Value& v : program.whole.inputs) {
    inputs[v.name] = drawn(dims_of(v), ++seed, 2.0F);
  }
  const Values expected = run(program.whole, inputs), actual = run_program(program, inputs);
  for (const Value& v : draft.model.outputs) {
    EXPECT_EQ(actual.at(v.name).dims, expected.at(v.name).dims);
    const std::vector<float>&a = actual.at(v.name).floats, &e = expected.at(v.name).floats;
    EXPECT_EQ(a.size(), e.size());
    double worst = 0;
    for (std::size_t i = 0; i < std::min(a.size(), e.size()); ++i)
      worst = std::isfinite(a[i]) ? std::max(worst, std::abs(static_cast<double>(a[i]) - e[i])) : HUGE_VAL;
    EXPECT_LE(worst, tolerance) << v.name;
  }
  return program;
}

// The graph's operations with how often they are written, bodies of Repeats included; functions by their own
// name.
inline std::map<std::string, int> kinds(const Program& program) {
  std::map<std::string, int> out;
  std::vector<graph::Op> ops = program.graph.ops;
  for (const graph::Repeat& repeat : program.graph.repeats)
    ops.insert(ops.end(), repeat.body.begin(), repeat.body.end());
  for (const graph::Op& op : ops) {
    std::string name = graph::name_of(op.kind);
    if (op.kind == graph::OpKind::Unary) name = numeric::name_of(op.unary);
    if (op.kind == graph::OpKind::Binary) name = numeric::name_of(op.binary);
    ++out[name];
  }
  return out;
}
using Kinds = std::map<std::string, int>;

}  // namespace tw::onnx
