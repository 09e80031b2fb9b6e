#include "plan/convert.h"

#include "base/error.h"
#include "plan/canonical.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::Order;
using tensor::TensorType;

TensorId unpacked_to_canonical(Draft& draft, TensorId result) {
  TensorType row = with_order(draft.at(result).type, {});
  row.layout.memory = tensor::MemoryClass::Standard;
  const TensorId rows = draft.add("row", std::move(row), draft.at(result).owners, Role::Activation);
  draft.local({.kind = LocalKind::Reorder, .inputs = {result}, .outputs = {rows}});
  return row_to_canonical(draft, rows);
}

}  // namespace

Held whole(const Draft& draft, TensorId tensor, bool owned) {
  const tensor::Shape& shape = draft.at(tensor).type.shape;
  return {.tensor = tensor, .view = tensor::identity_map(shape.size()), .shape = shape, .owned = owned};
}

TensorId gather(Draft& draft, const std::string& part, const Held& value, TensorType type,
                tensor::OwnerMap owners, Role role) {
  const TensorId id = draft.add(part, std::move(type), std::move(owners), role);
  draft.copy(id, value.tensor, value.view);
  return id;
}

TensorId canonical(Draft& draft, const Held& value) {
  TensorType type = canonical_type(value.shape, draft.tiles(), draft.options.policy);
  const Tensor& held = draft.at(value.tensor);
  if (value.direct(draft) && held.type == type && held.owners == draft.all_tiles()) return value.tensor;
  return gather(draft, "canonical", value, std::move(type), draft.all_tiles(), Role::Activation);
}

TensorId row_to_canonical(Draft& draft, TensorId row) { return canonical(draft, whole(draft, row, true)); }

TensorId result_to_canonical(Draft& draft, TensorId result) {
  Draft direct(draft.device, draft.options), unpacked(draft.device, draft.options);
  row_to_canonical(direct, direct.import(draft.at(result)));
  unpacked_to_canonical(unpacked, unpacked.import(draft.at(result)));
  const bool straight = sequential_cycles(direct.plan, 0) <= sequential_cycles(unpacked.plan, 0);
  return straight ? row_to_canonical(draft, result) : unpacked_to_canonical(draft, result);
}

double sequential_cycles(const Plan& plan, std::size_t first_step) {
  Layouts layouts(plan);
  double cycles = 0;
  for (std::size_t i = first_step; i < plan.steps.size(); ++i) {
    const Price price = price_of(plan, plan.steps[i], layouts);
    cycles += price.exchange + price.local;
  }
  return cycles;
}

TensorType with_order(TensorType type, tensor::ElementOrder order) {
  type.layout.order = order;
  return type;
}

tensor::AxisTiling axis_tiling(std::uint32_t axis, std::uint32_t parts, std::uint32_t stride,
                               std::uint32_t block, tensor::Padding padding) {
  return {.axis = axis,
          .parts = parts,
          .groups = 1,
          .block = block,
          .pad_multiple = 0,
          .shard_multiple = 1,
          .padding = padding,
          .stride = stride};
}

}  // namespace tw::plan
