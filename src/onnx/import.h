// From an ONNX model to a graph for the device and what runs on the host before and after it (models.md D.4).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "onnx/model.h"

namespace tw::onnx {

struct ImportOptions {
  std::map<std::string, std::int64_t> dims;  // of symbolic extents
  std::map<std::string, Tensor> constants;   // inputs with one value for good, e.g. the shape of a Reshape
};

graph::Shape graph_shape(const Dims& dims);  // of a value in the graph: a scalar is [1]

struct Program {
  Model whole;   // bound; for the reference
  Model prefix;  // model inputs -> host values of the graph and what else the suffix needs
  graph::Graph graph;
  std::vector<std::string> outputs;  // ONNX names of the graph's outputs
  Model suffix;                      // graph outputs, prefix outputs and model inputs -> model outputs
  std::map<std::string, std::vector<float>> parameters;  // of the graph
  std::vector<std::string> notes;                        // what runs on the host, and why; a line each
};

// Error{Usage}: extents or inputs that are not there. Error{UnsupportedOp}: operators that neither the device
// nor the host can run, all of them; or nothing is left for the device. Error{Shape}: the model contradicts
// itself. The model is interpreted once on zeros, for its shapes.
Program import(Model model, const ImportOptions& options);

}  // namespace tw::onnx
