#include <set>

#include "graph/parameters.h"
#include "plan/roles.h"
#include "tools/fit.h"

namespace tw::tools {
namespace {

// The product with the largest left operand plus result.
void largest_product(const graph::Graph& g, const std::vector<graph::Op>& ops, std::uint64_t operand_bytes,
                     FitBound& bound) {
  for (const graph::Op& op : ops) {
    if (op.kind == graph::OpKind::Repeat) largest_product(g, g.repeats[op.repeat].body, operand_bytes, bound);
    if (op.kind != graph::OpKind::Gemm) continue;
    const graph::Value& left = g.at(op.inputs[0]);
    std::uint64_t bytes = 2 * tensor::elements(g.at(op.results[0]).shape);
    if (left.kind != graph::ValueKind::Parameter) bytes += operand_bytes * tensor::elements(left.shape);
    if (bytes <= bound.product_bytes) continue;
    bound.product_bytes = bytes;
    bound.product = op.path;
  }
}

}  // namespace

FitBound fit_bound(const Device& device, const model::Model& model, const Recipe& recipe) {
  const graph::Graph& g = model.graph;
  const std::uint64_t operand_bytes = recipe.precision == tensor::Precision::F8 ? 1 : 2;
  const plan::Options options = compile_options(recipe, 0).plan;
  const auto weight_bytes = [&](const std::string& name) {
    return tensor::bytes_of(plan::operand_encoding(options, name).precision);
  };
  const std::set<ValueId> weights = graph::product_parameters(g);
  FitBound bound;
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind != graph::ValueKind::Parameter) continue;
    bound.parameter_bytes += tensor::elements(g.values[v].shape) *
                             (weights.contains(ValueId(v)) ? weight_bytes(g.values[v].name) : 2);
  }
  largest_product(g, g.ops, operand_bytes, bound);
  const std::uint64_t total = bound.parameter_bytes + bound.product_bytes;
  bound.bytes_per_tile = (total + recipe.tiles - 1) / recipe.tiles;
  bound.available_bytes = device.loader_end - device.data_base - 2 * device.element_bytes +
                          device.aperture_end - device.aperture_begin;
  return bound;
}

}  // namespace tw::tools
