// Values while planning and the conversions between their formats (compiler.md 4.1). Internal to plan/.
#pragma once
#include "plan/draft.h"

namespace tw::plan {

// A graph value: a Row-order F16 or F32 tensor read through a coordinate map (views cost nothing until
// copied).
struct Held {
  TensorId tensor;
  tensor::CoordMap view;  // tensor coordinate of a value coordinate
  tensor::Shape shape;    // of the value
  bool owned = false;  // made in this region (or carried): its storage may be overwritten after the last use
  bool direct(const Draft& draft) const {
    return shape == draft.at(tensor).type.shape && view == tensor::identity_map(shape.size());
  }
};
Held whole(const Draft& draft, TensorId tensor, bool owned);

// The value seen through another map; copied first where the two maps are not one.
Held seen_through(Draft& draft, const Held& value, const tensor::CoordMap& map, tensor::Shape shape);
Held reshaped(Draft& draft, const Held& value, tensor::Shape shape);

// A new tensor of `type` (Row order) filled from the value. Where precisions differ it casts; F16 elements
// that are no whole words travel as F32.
TensorId gather(Draft& draft, const std::string& part, const Held& value, tensor::TensorType type,
                tensor::OwnerMap owners, Role role);
// The value as a tensor of its canonical type: itself when it is one already.
TensorId canonical(Draft& draft, const Held& value);
// A product's result (AmpLeft) as a canonical Row tensor: straight from the panels, or unpacked first,
// whichever is cheaper.
TensorId result_to_canonical(Draft& draft, TensorId result);
// A Row tensor to the canonical type of its shape.
TensorId row_to_canonical(Draft& draft, TensorId row);

// Exchange and kernel cycles of the steps a function appends, without composition; for choosing conversions.
double sequential_cycles(const Plan& plan, std::size_t first_step);

// The same tiling in another order and encoding.
tensor::TensorType with_order(tensor::TensorType type, tensor::ElementOrder order);
tensor::AxisTiling axis_tiling(std::uint32_t axis, std::uint32_t parts, std::uint32_t stride,
                               std::uint32_t block = 1, tensor::Padding padding = tensor::Padding::Reject);

}  // namespace tw::plan
