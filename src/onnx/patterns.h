// What exporters take apart, as one node again (models.md D.4). Only for nodes that the device runs: the
// fused ones are no ONNX operators. Internal to onnx/.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/net.h"

namespace tw::onnx {

// Norms, GELUs and other activations, attention with its heads, rotary positions. `facts` then also knows the
// new values.
void fuse_patterns(Model& model, Facts& facts);

// (x - mean) / sqrt(variance + epsilon) * scale + bias; either vector may be missing.
std::optional<Node> find_layer_norm(const Net& net, const Node& node);
// GELU (erf or tanh), quick GELU, SiLU, hard swish.
std::optional<Node> find_activation(const Net& net, const Node& node);

// Attention nodes take and give [streams, rows, width], streams = images * heads.
class Heads {
 public:
  // New nodes go to the end of `nodes`.
  Heads(const Net& net, Facts& facts, std::vector<Node>& nodes);
  bool attend(const Node& node);  // softmax(scale q k^T) v
  bool merge(const Node& node);   // a movement that puts the heads of an attention beside each other
  bool rotate(const Node& node);  // x cos + rotated(x) sin, for all rows or all but the first ones

  // The heads are columns start, start + 1, ... of [batch, rows, width].
  struct Columns {
    std::int64_t batch = 1, width = 1, start = 0;
  };

 private:
  // The streams of a value [..., rows, width]; turned: [..., width, rows]. Scalar factors on the way go into
  // *scale.
  std::string split(const std::string& value, const std::string& path, bool turned, double* scale);
  std::string fixed(const std::string& value, const std::string& path, bool turned);  // of a constant
  std::string columns(std::string name, const std::string& path, const Columns& at, std::int64_t heads,
                      std::int64_t rows, std::int64_t width);
  std::string add(const char* op, const char* domain, const std::string& input, const std::string& name,
                  const Dims& dims, std::map<std::string, Attribute> attributes = {});

  const Net& net_;
  Facts& facts_;
  std::vector<Node>& nodes_;
  std::map<std::string, std::string> streams_;  // of an attention's result
};

}  // namespace tw::onnx
