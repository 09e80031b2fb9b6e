#include "plan/block.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "plan/canonical.h"

namespace tw::plan {
namespace {

using tensor::TensorType;

tensor::Shape without_leading_ones(tensor::Shape shape) {
  const auto first = std::ranges::find_if(shape, [](std::uint32_t e) { return e != 1; });
  shape.erase(shape.begin(), std::min(first, shape.end() - 1));
  return shape;
}

// Row parts of a canonical tensor.
std::uint32_t row_parts(const TensorType& type) { return type.layout.tiling.tile_count; }

// The vector held once by each of `replicas` groups; `parts` column parts inside a group.
TensorType replicated(const tensor::Shape& shape, std::uint32_t replicas, std::uint32_t parts) {
  TensorType type{.shape = shape, .encoding = {}, .layout = {}};
  type.layout.tiling.tile_count = replicas * parts;
  type.layout.tiling.replicas = replicas;
  if (parts > 1) {
    type.layout.tiling.axes = {axis_tiling(static_cast<std::uint32_t>(shape.size() - 1), parts, 1)};
  }
  return type;
}

struct NormPlan {
  std::uint32_t parts = 1;  // column parts; > 1: distributed statistics
  bool spread = false;      // move whole rows to as many tiles as there are rows
};

TensorType spread_rows(const tensor::Shape& shape, std::uint32_t tiles) {
  const auto rank = static_cast<std::uint32_t>(shape.size());
  TensorType type{.shape = shape, .encoding = {}, .layout = {}};
  std::uint32_t owners = std::min(shape[rank - 2], tiles);
  type.layout.tiling.axes = {axis_tiling(rank - 2, owners, 1)};
  for (std::uint32_t axis = 0; axis + 2 < rank; ++axis) {
    const std::uint32_t parts = std::min(shape[axis], tiles / owners);
    if (parts < 2) continue;
    type.layout.tiling.axes.push_back(axis_tiling(axis, parts, owners));
    owners *= parts;
  }
  type.layout.tiling.tile_count = owners;
  return type;
}

TensorId norm_whole_rows(Draft& draft, TensorId x, const Held& scale, const Held& bias, float epsilon) {
  const TensorType type = draft.at(x).type;
  const std::uint32_t owners = row_parts(type);
  const TensorId gamma =
      gather(draft, "scale", scale, replicated(scale.shape, owners, 1), draft.all_tiles(), Role::Operand);
  const TensorId beta =
      gather(draft, "bias", bias, replicated(bias.shape, owners, 1), draft.all_tiles(), Role::Operand);
  const TensorId out = draft.add("result", type, Role::Activation);
  draft.local(
      {.kind = LocalKind::LayerNorm, .inputs = {x, gamma, beta}, .outputs = {out}, .epsilon = epsilon});
  return row_to_canonical(draft, out);
}

// Statistics per column part, exchanged inside each row group (3.6 c).
TensorId norm_split_rows(Draft& draft, const Held& x, const Held& scale, const Held& bias, float epsilon,
                         std::uint32_t parts) {
  const auto rank = static_cast<std::uint32_t>(x.shape.size());
  const std::uint32_t row_groups = std::min(x.shape[rank - 2], draft.tiles() / parts);
  TensorType type{.shape = x.shape, .encoding = {}, .layout = {}};
  type.layout.tiling.tile_count = row_groups * parts;
  type.layout.tiling.axes = {axis_tiling(rank - 1, parts, 1), axis_tiling(rank - 2, row_groups, parts)};

  TensorType statistics{.shape = x.shape, .encoding = {tensor::Precision::F32, 0}, .layout = {}};
  statistics.shape.back() = 2;
  statistics.shape.insert(statistics.shape.begin(), parts);
  statistics.layout.tiling.tile_count = row_groups * parts;
  TensorType gathered = statistics;
  statistics.layout.tiling.axes = {axis_tiling(0, parts, 1), axis_tiling(rank - 1, row_groups, parts)};
  gathered.layout.tiling.replicas = parts;
  gathered.layout.tiling.axes = {axis_tiling(rank - 1, row_groups, parts)};

  const TensorId part = gather(draft, "part", x, type, draft.all_tiles(), Role::Operand);
  const TensorId gamma = gather(draft, "scale", scale, replicated(scale.shape, row_groups, parts),
                                draft.all_tiles(), Role::Operand);
  const TensorId beta = gather(draft, "bias", bias, replicated(bias.shape, row_groups, parts),
                               draft.all_tiles(), Role::Operand);
  const TensorId moments = draft.add("moments", statistics, Role::Scratch);
  draft.local({.kind = LocalKind::Moments, .inputs = {part}, .outputs = {moments}});
  const TensorId all = draft.add("statistics", gathered, Role::Scratch);
  draft.copy(all, moments);
  const TensorId out = draft.add("result", type, Role::Activation);
  draft.local(
      {.kind = LocalKind::Apply, .inputs = {part, all, gamma, beta}, .outputs = {out}, .epsilon = epsilon});
  return row_to_canonical(draft, out);
}

TensorId emit_norm(Draft& draft, const Held& x, const Held& scale, const Held& bias, float epsilon,
                   NormPlan plan) {
  if (plan.parts > 1) return norm_split_rows(draft, x, scale, bias, epsilon, plan.parts);
  const TensorId source = plan.spread ? gather(draft, "rows", x, spread_rows(x.shape, draft.tiles()),
                                               draft.all_tiles(), Role::Operand)
                                      : canonical(draft, x);
  return norm_whole_rows(draft, source, scale, bias, epsilon);
}

double norm_cycles(const Draft& draft, const Held& x, const Held& scale, const Held& bias, NormPlan plan) {
  Draft fragment(draft.device, draft.options);
  const auto imported = [&](Held held) {
    held.tensor = fragment.import(draft.at(held.tensor));
    return held;
  };
  const Held lx = imported(x), lscale = imported(scale), lbias = imported(bias);
  emit_norm(fragment, lx, lscale, lbias, 1e-6F, plan);
  return sequential_cycles(fragment.plan, 0);
}

}  // namespace

bool is_suffix(const tensor::Shape& b, const tensor::Shape& x) {
  const tensor::Shape part = without_leading_ones(b);
  return b.size() <= x.size() && std::equal(part.rbegin(), part.rend(), x.rbegin());
}

TensorId suffix_operand(Draft& draft, const Held& b, TensorId x) {
  const TensorType xt = draft.at(x).type;
  const tensor::Shape suffix = without_leading_ones(b.shape);
  const bool scalar = tensor::elements(b.shape) == 1;
  if (!scalar && !is_suffix(b.shape, xt.shape)) {
    throw Error(ErrorKind::UnsupportedOp,
                fmt::format("{}: operand {} is no contiguous suffix of {}", draft.path,
                            tensor::to_string(b.shape), tensor::to_string(xt.shape)));
  }
  const std::uint32_t owners = row_parts(xt);
  TensorType type = replicated(b.shape, owners, 1);
  type.encoding = xt.encoding;
  const std::uint32_t rows = xt.shape[xt.shape.size() - 2];
  if (suffix.size() >= 2 && owners > 1) {  // has x's rows: split like x
    TW_CHECK(suffix[suffix.size() - 2] == rows, "suffix without x's rows");
    type.layout.tiling.replicas = 1;
    type.layout.tiling.axes = {axis_tiling(static_cast<std::uint32_t>(b.shape.size() - 2), owners, 0)};
  }
  return gather(draft, "operand", b, std::move(type), draft.at(x).owners, Role::Operand);
}

TensorId emit_add(Draft& draft, const Held& a, const Held& b, bool in_place) {
  const TensorId x = canonical(draft, a);
  const TensorId y = a.shape == b.shape ? canonical(draft, b) : suffix_operand(draft, b, x);
  const bool reuse = in_place && x == a.tensor;
  const TensorId out = reuse ? draft.share("result", x)
                             : draft.add("result", draft.at(x).type, draft.at(x).owners, Role::Activation);
  draft.local({.kind = LocalKind::Add, .inputs = {x, y}, .outputs = {out}});
  return out;
}

TensorId emit_gelu(Draft& draft, const Held& x) {
  const TensorId in = canonical(draft, x);
  const TensorId out = draft.add("result", draft.at(in).type, Role::Activation);
  draft.local({.kind = LocalKind::Gelu, .inputs = {in}, .outputs = {out}});
  return out;
}

TensorId emit_bias_gelu(Draft& draft, const Held& x, const Held& bias) {
  const TensorId in = canonical(draft, x);
  const TensorId vector = suffix_operand(draft, bias, in);
  const TensorId out = draft.add("result", draft.at(in).type, Role::Activation);
  draft.local({.kind = LocalKind::BiasGelu, .inputs = {in, vector}, .outputs = {out}});
  return out;
}

TensorId emit_layer_norm(Draft& draft, const Held& x, const Held& scale, const Held& bias, float epsilon) {
  std::vector<NormPlan> plans{{.parts = 1, .spread = false}, {.parts = 1, .spread = true}};
  for (const std::uint32_t parts : {2U, 4U, 8U, 16U, 32U}) {
    const std::uint32_t groups = parts <= draft.tiles() ? draft.tiles() / parts : 0;
    if (x.shape.back() % (4 * parts) == 0 && x.shape[x.shape.size() - 2] <= groups) {
      plans.push_back({.parts = parts, .spread = false});
    }
  }
  std::size_t best = 0;
  double best_cycles = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double cycles = norm_cycles(draft, x, scale, bias, plans[i]);
    if (i == 0 || cycles < best_cycles) best = i, best_cycles = cycles;
  }
  return emit_norm(draft, x, scale, bias, epsilon, plans[best]);
}

}  // namespace tw::plan
