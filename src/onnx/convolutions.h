// Convolutions and what belongs to them, as operators that the device has. Internal to onnx/.
#pragma once
#include <set>

#include "onnx/facts.h"

namespace tw::onnx {

// Where the kernel of a two-dimensional convolution reads: position i of the output and k of the kernel read
// input stride i + dilation k - pad. Per axis; pads of the ends follow those of the starts.
struct Window {
  std::vector<std::int64_t> stride, dilation, pad;
};
// Of a Conv whose input has four axes; auto_pad is worked out.
Window window_of(const Node& node, const Facts& facts);

// Batch norms with constants become part of the convolution before them, or a factor and a sum.
void fold_batch_norms(Model& model, Facts& facts);

// Indices of the convolutions that can be products (two axes, one group, at most nine positions) and stand
// behind a product. Those of a backbone, before all products, stay on the host; a model that has no products
// has no backbone either.
std::set<std::size_t> convolutions_for_device(const Model& model, const Facts& facts);

// The convolutions `which` as products with the channels last, one for all positions of the kernel, whose
// columns are shifted and added.
void rewrite_convolutions(Model& model, Facts& facts, const std::set<std::size_t>& which);

}  // namespace tw::onnx
