// What patterns ask of a model: who writes a value, who reads it, which constants stand in it. Internal to
// onnx/.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/facts.h"

namespace tw::onnx {

// Operators that only the importer makes: their shapes are those of graph::Builder.
inline constexpr const char* kFused = "tilewright";

class Net {
 public:
  Net(const Model& model, const Facts& facts);
  std::int64_t opset() const { return opset_; }
  const Node* producer(const std::string& name) const;
  const Node* producer(const std::string& name, const char* op) const;  // of that operator, else nullptr
  int readers(const std::string& name) const;                           // nodes and model outputs
  const Dims& dims(const std::string& name) const { return facts_.dims.at(name); }
  std::optional<float> scalar(const std::string& name) const;  // a constant of one element
  bool is(const std::string& name, double wanted) const;       // such a constant, near() that
  // The other input of a commutative node whose one input satisfies `test`.
  template <class Test>
  std::optional<std::string> other(const Node& node, Test&& test) const {
    if (node.inputs.size() != 2) return {};
    if (test(node.inputs[0])) return node.inputs[1];
    if (test(node.inputs[1])) return node.inputs[0];
    return {};
  }
  const Facts& facts() const { return facts_; }

 private:
  const Facts& facts_;
  std::int64_t opset_;
  std::map<std::string, const Node*> producer_;
  std::map<std::string, int> readers_;
};

bool near(double a, double b);  // within 2e-4 of b: 0.044715 stored in F16 is 1.5e-4 off

// name = c * value for a scalar c; scale 1 when it is no such product.
struct Scaled {
  std::string value;
  double scale = 1;
};
Scaled scaled_once(const Net& net, const std::string& name);  // one Mul or Div
Scaled scaled(const Net& net, const std::string& name);       // all of them

// Where the elements of `target` come from, when only movements and Neg lie between it and `source` (and, on
// demand, scalar factors, which are ignored): for every element 1 + the index in `source`, negative where it
// is negated. Empty: something else lies between.
std::vector<std::int64_t> origins(const Net& net, const std::string& source, const std::string& target,
                                  bool through_scalars = false);

// A node with one result, and what is known of that.
void append(std::vector<Node>& nodes, Facts& facts, Node node, const Dims& dims);

}  // namespace tw::onnx
