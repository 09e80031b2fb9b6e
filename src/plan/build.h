// Graph + options -> Plan: the default policy's canonical activations, candidate ranking, conversions and
// compact parameter homes (compiler.md 2.5, 2.6, 3, 4, 7).
#pragma once
#include <map>
#include <string>

#include "base/progress.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

enum class Policy : std::uint8_t { Default, Capacity };
enum class Attention : std::uint8_t { Auto, Streaming, Materialized };

struct Options {
  std::uint32_t tiles = 1472;
  tensor::Precision precision = tensor::Precision::F8;  // of dense products
  int fp8_scale = -4;                                   // of both operands of a product, -16..15
  // Roles (tensor::role_of) of weights whose products have another encoding.
  std::map<std::string, tensor::Encoding> encodings = {};
  Policy policy = Policy::Default;
  Attention attention = Attention::Auto;
  WeightRounding weight_rounding = WeightRounding::Balanced;
  // Candidate to build by operation path, as recorded in Plan::choices; other operations are ranked.
  std::map<std::string, std::uint32_t> choices = {};
  // Products choose what stays within the room beside parameters and carried values (ADR 0010), even where
  // everything is estimated to fit. Without it only where it is not.
  bool within_room = false;
  unsigned threads = 0;
};

// Throws Error{UnsupportedOp|Shape|Capacity} when the model cannot be planned.
Plan build(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress);

// Estimated bytes on the fullest tile (Plan::estimated_tensor_bytes) up to which a full-size model usually
// fits: without what code, rows, host buffers and holes take there.
std::uint64_t usual_budget(const Device& device);

}  // namespace tw::plan
