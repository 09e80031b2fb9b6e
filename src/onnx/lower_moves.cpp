// Movements of elements: everything is a view, a stepped slice or a join.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "onnx/lower.h"

namespace tw::onnx {
namespace {

using graph::Shape;

std::vector<std::int64_t> counted(std::int64_t start, std::int64_t step, std::int64_t count) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(start + i * step);
  return out;
}

}  // namespace

ValueId Lowering::reshaped(ValueId x, const Shape& shape) {
  if (const auto made = source_.find(x); made != source_.end()) x = made->second;
  if (builder_.shape(x) == shape) return x;
  const auto [known, fresh] = reshapes_.try_emplace({x, shape});
  if (fresh) {
    known->second = builder_.reshape(path(".shape"), x, shape);
    source_[known->second] = x;
  }
  return known->second;
}

ValueId Lowering::moved_last(ValueId x, const std::vector<std::uint32_t>& axes) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < builder_.shape(x).size(); ++i)
    if (std::ranges::find(axes, i) == axes.end()) order.push_back(i);
  order.insert(order.end(), axes.begin(), axes.end());
  return std::ranges::is_sorted(order) ? x : builder_.transpose(path(), x, order);
}

// The elements `indices` of an axis, in that order: stepped slices, joined.
ValueId Lowering::pick(ValueId x, std::uint32_t axis, const std::vector<std::int64_t>& indices) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t end = i + 1;
    const std::int64_t step = end < indices.size() ? indices[end] - indices[i] : 1;
    while (step > 0 && end < indices.size() && indices[end] - indices[end - 1] == step) ++end;
    const auto length = static_cast<std::uint32_t>(end - i);
    parts.push_back(builder_.slice(path(), x, axis, static_cast<std::uint32_t>(indices[i]), length,
                                   length > 1 ? static_cast<std::uint32_t>(step) : 1));
    i = end;
  }
  return parts.size() == 1 ? parts[0] : builder_.concat(path(), parts, axis);
}

void Lowering::slice(const Node& node) {
  ValueId x = value(node.inputs[0]);
  const auto starts = list(node, facts_, "starts", 1), ends = list(node, facts_, "ends", 2),
             steps = list(node, facts_, "steps", 4);
  std::vector<std::int64_t> axes = list(node, facts_, "axes", 3);
  if (axes.empty()) axes = counted(0, 1, static_cast<std::int64_t>(starts.size()));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::uint32_t axis = axis_of(axes.at(i), builder_.shape(x).size());
    const std::int64_t extent = builder_.shape(x)[axis], step = steps.empty() ? 1 : steps.at(i);
    const auto bounded = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? at + extent : at, low, high);
    };
    const std::int64_t start = step > 0 ? bounded(starts[i], 0, extent) : bounded(starts[i], 0, extent - 1);
    const std::int64_t end = step > 0 ? bounded(ends.at(i), 0, extent) : bounded(ends.at(i), -1, extent - 1);
    const std::int64_t count = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    if (start == 0 && step == 1 && count == extent) continue;
    x = pick(x, axis, counted(start, step, count));
  }
  give(node, x);
}

void Lowering::split(const Node& node) {
  const ValueId x = value(node.inputs[0]);
  const std::uint32_t axis = axis_of(number(node, "axis", 0), builder_.shape(x).size());
  const std::vector<std::int64_t> given = list(node, facts_, "split", 1);
  const auto parts = static_cast<std::uint32_t>(node.outputs.size());
  const std::uint32_t even = (builder_.shape(x)[axis] + parts - 1) / parts;
  std::uint32_t start = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const bool named = !node.outputs[i].empty();
    const std::uint32_t length = named            ? out_shape(node, i).at(axis)
                                 : !given.empty() ? static_cast<std::uint32_t>(given.at(i))
                                                  : even;
    if (named) give(node, builder_.slice(path(), x, axis, start, length), i);
    start += length;
  }
}

void Lowering::move(const Node& node) {
  const std::string& op = node.op_type;
  const ValueId x = value(node.inputs[0]);
  const Shape shape = builder_.shape(x);
  if (op == "Slice") return slice(node);
  if (op == "Split") return split(node);
  if (op == "Transpose") {
    std::vector<std::uint32_t> order(shape.size());
    std::iota(order.rbegin(), order.rend(), 0U);
    if (const auto* perm = node.attribute<std::vector<std::int64_t>>("perm");
        perm != nullptr && !perm->empty())
      order.assign(perm->begin(), perm->end());
    return give(node, std::ranges::is_sorted(order) ? x : builder_.transpose(path(), x, order));
  }
  if (op == "Expand") {
    const Shape out = out_shape(node);
    return give(node, shape == out ? x : builder_.expand(path(), x, out));
  }
  if (op == "Concat") {
    std::vector<ValueId> parts;
    for (const std::string& name : node.inputs) parts.push_back(value(name));
    const std::uint32_t axis = axis_of(number(node, "axis", 0), shape.size());
    return give(node, parts.size() == 1 ? parts[0] : builder_.concat(path(), parts, axis));
  }
  if (op == "Gather") {
    const std::uint32_t axis = axis_of(number(node, "axis", 0), shape.size());
    std::vector<std::int64_t> indices = facts_.constants.at(node.inputs[1]).ints;
    for (std::int64_t& i : indices) i = i < 0 ? i + shape[axis] : i;
    return give(node, pick(x, axis, indices));
  }
  if (op == "Tile") {  // [a, b] -> [1, a, 1, b] -> [ra, a, rb, b] -> [ra a, rb b]
    Shape single, wide;
    const std::vector<std::int64_t>& repeats = facts_.constants.at(node.inputs[1]).ints;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      single.insert(single.end(), {1U, shape[i]});
      wide.insert(wide.end(), {static_cast<std::uint32_t>(repeats.at(i)), shape[i]});
    }
    const ValueId y = reshaped(x, single);
    return give(node, wide == single ? y : builder_.expand(path(), y, wide));
  }
  give(node, x);  // Identity, Dropout, Cast between floating types, and all that only name another shape
}

}  // namespace tw::onnx
