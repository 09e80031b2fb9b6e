// ONNX nodes as operations of the graph. Internal to onnx/.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "onnx/facts.h"
#include "onnx/import.h"

namespace tw::onnx {

// Empty: the device can run it. Else why not.
std::string why_not(const Node& node, const Facts& facts, std::int64_t opset);
// Multiply-adds of its products.
double work_of(const Node& node, const Facts& facts);
// Only moves elements.
bool is_movement(const Node& node);
// Only gives its input another shape.
bool is_reshape(const Node& node);
// Every element of the result depends on the elements of the inputs at its place, with broadcasting.
bool is_pointwise(const Node& node);

// Operators of ONNX Runtime's optimiser, and those of opset 23 that are a whole attention or norm.
bool is_fused(const Node& node);
std::string why_no_fused(const Node& node, const Facts& facts);

// Attributes and constant inputs of a node.
std::int64_t number(const Node& node, const char* key, std::int64_t otherwise);
float real(const Node& node, const char* key, float otherwise);
// A list that newer opsets pass as input i and older ones as an attribute; empty: neither, or not constant.
std::vector<std::int64_t> list(const Node& node, const Facts& facts, const char* key, std::size_t i);
bool has(const Node& node, std::size_t i);
std::int64_t elements_of(const Dims& dims);
std::uint32_t axis_of(std::int64_t axis, std::size_t rank);

class Lowering {
 public:
  Lowering(const std::string& name, const Facts& facts, std::int64_t opset);
  void host(const std::string& name);
  void lower(const Node& node);  // why_not() is empty
  graph::Graph finish(const std::vector<std::string>& outputs);
  std::map<std::string, std::vector<float>> parameters;

 private:
  ValueId value(const std::string& name);
  ValueId parameter(const std::string& name, const graph::Shape& shape, std::vector<float> values);
  ValueId vector(const Node& node, std::size_t input, std::uint32_t width, float otherwise);
  void pointwise(const Node& node);
  ValueId binary(numeric::Binary f, ValueId x, ValueId y);
  void matmul(const Node& node);
  void gemm(const Node& node);
  void softmax(const Node& node);
  void reduce(const Node& node);
  void layer_norm(const Node& node);
  void clip(const Node& node);
  void hard_sigmoid(const Node& node);
  void leaky_relu(const Node& node);
  // lower_fused.cpp
  void fused(const Node& node);
  void own(const Node& node);
  void attention(const Node& node);
  void rotary(const Node& node);
  void rms_norm(const Node& node);
  void skip_norm(const Node& node);
  void choose(const Node& node);
  ValueId streams(ValueId x, std::uint32_t heads);
  // Movements, lower_moves.cpp.
  void move(const Node& node);
  void slice(const Node& node);
  void split(const Node& node);
  ValueId pick(ValueId x, std::uint32_t axis, const std::vector<std::int64_t>& indices);
  ValueId reshaped(ValueId x, const graph::Shape& shape);
  ValueId as_rows(
      ValueId x);  // without axes of extent 1 before the last one: the plan spreads the axis there
  ValueId moved_last(ValueId x, const std::vector<std::uint32_t>& axes);  // those axes behind the others

  graph::Shape out_shape(const Node& node, std::size_t i = 0) const;
  void give(const Node& node, ValueId id, std::size_t i = 0);
  // Of the next operation: the node's output, made unique.
  std::string path(const char* suffix = "");

  const Facts& facts_;
  std::int64_t opset_;
  graph::Builder builder_;
  std::map<std::string, ValueId> values_;  // with the elements of the model's value, in any shape
  std::map<ValueId, ValueId> source_;      // of a reshape
  std::map<std::pair<ValueId, graph::Shape>, ValueId> reshapes_;
  std::map<std::string, int> paths_;
  std::string node_;  // name of what is being lowered
};

}  // namespace tw::onnx
