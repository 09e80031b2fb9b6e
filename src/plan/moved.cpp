#include <algorithm>

#include "base/math.h"
#include "plan/plan.h"

namespace tw::plan {
namespace {

// Extent of an axis with its zero padding; axes whose padding is split (groups, shard multiples) do not grow.
std::uint32_t padded_extent(const tensor::TensorType& type, std::uint32_t axis) {
  const std::uint32_t extent = type.shape[axis];
  for (const tensor::AxisTiling& tiling : type.layout.tiling.axes) {
    if (tiling.axis != axis || tiling.groups != 1 || tiling.shard_multiple != 1) continue;
    return up(extent, tiling.pad_multiple > 0 ? tiling.pad_multiple : tiling.block);
  }
  return extent;
}

}  // namespace

MovedTypes moved_types(const Plan& plan, const Copy& copy) {
  MovedTypes moved{plan.at(copy.dst).type, plan.at(copy.src).type};
  if (!copy.move_padding) return moved;
  for (std::uint32_t axis = 0; axis < moved.dst.shape.size(); ++axis) {
    const std::uint32_t extent = std::min(padded_extent(moved.dst, axis), padded_extent(moved.src, axis));
    moved.dst.shape[axis] = moved.src.shape[axis] = extent;
  }
  return moved;
}

}  // namespace tw::plan
