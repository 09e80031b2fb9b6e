#include "plan/convert.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "plan/canonical.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::Order;
using tensor::TensorType;

// The same layout in another precision.
TensorId cast_in_place(Draft& draft, const std::string& part, TensorId source, tensor::Precision precision,
                       Role role) {
  TensorType type = draft.at(source).type;
  type.encoding = {precision, 0};
  const TensorId out = draft.add(part, std::move(type), draft.at(source).owners, role);
  draft.local({.kind = LocalKind::Cast, .inputs = {source}, .outputs = {out}});
  return out;
}

// Whether pairs of F16 elements stay pairs: neighbours (2i, 2i + 1) of a destination row are such neighbours
// in the source.
bool keeps_words(const tensor::CoordMap& map, const tensor::Shape& src, const tensor::Shape& dst) {
  if (src.back() % 2 != 0 || dst.back() % 2 != 0) return false;
  const auto last = static_cast<std::uint32_t>(dst.size() - 1);
  bool neighbours = false;
  for (std::size_t axis = 0; axis < src.size(); ++axis) {
    const bool columns = axis + 1 == src.size();
    if (columns && map.axes[axis].offset % 2 != 0) return false;
    for (const tensor::CoordTerm& t : map.axes[axis].terms) {
      const bool even_mod = t.mod == UINT32_MAX || t.mod % 2 == 0;
      if (columns && t.axis == last && t.div == 1 && t.mul == 1 && even_mod && !neighbours) {
        neighbours = true;
      } else if ((t.axis == last && t.div % 2 != 0) || (columns && t.mul % 2 != 0)) {
        return false;
      }
    }
  }
  return neighbours;
}

bool whole_rows(const TensorType& type) {
  return std::ranges::none_of(type.layout.tiling.axes, [&](const tensor::AxisTiling& a) {
    return a.axis + 1 == type.shape.size() && a.parts > 1;
  });
}

// Row-major elements [0, n) of the value.
Held flattened(Draft& draft, const Held& value) {
  const auto count = static_cast<std::uint32_t>(tensor::elements(value.shape));
  const std::optional<tensor::CoordMap> flat = tensor::reshape_map(value.shape, {count});
  TW_CHECK(flat, "every shape flattens");
  const Held view = seen_through(draft, value, *flat, {count});
  return whole(draft,
               gather(draft, "flat", view, canonical_type({count}, draft.tiles(), draft.options.policy),
                      draft.all_tiles(), Role::Activation),
               true);
}

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

Held seen_through(Draft& draft, const Held& value, const tensor::CoordMap& map, tensor::Shape shape) {
  if (const std::optional<tensor::CoordMap> view = tensor::try_compose(value.view, map))
    return {.tensor = value.tensor, .view = *view, .shape = std::move(shape), .owned = false};
  return {.tensor = canonical(draft, value), .view = map, .shape = std::move(shape), .owned = false};
}

Held reshaped(Draft& draft, const Held& value, tensor::Shape shape) {
  if (value.shape == shape) return value;
  if (const std::optional<tensor::CoordMap> map = tensor::reshape_map(value.shape, shape))
    return seen_through(draft, value, *map, std::move(shape));
  const Held flat = flattened(draft, value);
  const std::optional<tensor::CoordMap> map = tensor::reshape_map(flat.shape, shape);
  TW_CHECK(map, "a flat value takes every shape");
  return seen_through(draft, flat, *map, std::move(shape));
}

TensorId gather(Draft& draft, const std::string& part, const Held& value, TensorType type,
                tensor::OwnerMap owners, Role role) {
  using tensor::Precision;
  const Tensor source = draft.at(value.tensor);
  const Precision from = source.type.encoding.precision, to = type.encoding.precision;
  if (from != to && source.role == Role::Parameter) {
    // Homes get their places when all are known (rotate_homes): a cast needs rows of its own.
    TensorType rows = canonical_type(source.type.shape, draft.tiles(), draft.options.policy, from);
    Held moved = value;
    moved.tensor = gather(draft, part + ".rows", whole(draft, value.tensor, false), std::move(rows),
                          draft.all_tiles(), Role::Scratch);
    return gather(draft, part, moved, std::move(type), std::move(owners), role);
  }
  const bool same_place = value.direct(draft) && source.type.layout == type.layout && source.owners == owners;
  if (from != to && same_place) return cast_in_place(draft, part, value.tensor, to, role);
  const bool words = (from == Precision::F32 && to == Precision::F32) ||
                     keeps_words(value.view, source.type.shape, type.shape);
  if (words && from == to) {
    const TensorId id = draft.add(part, std::move(type), std::move(owners), role);
    draft.copy(id, value.tensor, value.view);
    return id;
  }
  TensorId moved = value.tensor;
  if (words && to == Precision::F16 && whole_rows(source.type)) {  // fewer bytes travel
    moved = cast_in_place(draft, part + ".narrow", moved, to, Role::Scratch);
    const TensorId id = draft.add(part, std::move(type), std::move(owners), role);
    draft.copy(id, moved, value.view);
    return id;
  }
  if (from == Precision::F16)
    moved = cast_in_place(draft, part + ".wide", moved, Precision::F32, Role::Scratch);
  TensorType wide = type;
  wide.encoding = {Precision::F32, 0};
  const bool padded = has_padding(wide);
  const TensorId id = draft.add(to == Precision::F32 ? part : part + ".moved", std::move(wide), owners,
                                to == Precision::F32 ? role : Role::Scratch);
  draft.step(Copy{.dst = id, .src = moved, .map = value.view, .clear_padding = padded});
  return to == Precision::F32 ? id : cast_in_place(draft, part, id, to, role);
}

TensorId canonical(Draft& draft, const Held& value) {
  TensorType type = canonical_type(value.shape, draft.tiles(), draft.options.policy);
  const Tensor& held = draft.at(value.tensor);
  if (value.direct(draft) && held.type == type && held.owners == draft.all_tiles()) return value.tensor;
  return gather(draft, "canonical", value, std::move(type), draft.all_tiles(), Role::Activation);
}

TensorId row_to_canonical(Draft& draft, TensorId row) { return canonical(draft, whole(draft, row, true)); }

TensorId result_to_canonical(Draft& draft, TensorId result) {
  if (boundary_precision(draft.at(result).type.shape) != tensor::Precision::F16)
    return unpacked_to_canonical(draft, result);
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
