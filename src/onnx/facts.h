// What is known of a model's values before it runs: their shapes, and the values of those that are constant.
// Internal to onnx/.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace tw::onnx {

struct Facts {
  std::map<std::string, Dims> dims;
  std::map<std::string, Element> elements;
  std::map<std::string, Tensor> constants;
  bool constant(const std::string& name) const { return constants.contains(name); }
};

// Interprets the model once on zeros. The nodes that are left in `model` compute values that are not constant
// and that an output needs; its initializers move to `constants`.
Facts find_facts(Model& model);

// Drops nodes that no output needs.
void drop_dead(Model& model);

// Convolutions of patches (stride = kernel, no padding, one group) as products, Einsum equations that are
// products, guards against NaN that a softmax cannot give: in ONNX operators. `facts` then also knows the new
// values.
void rewrite_products(Model& model, Facts& facts);
void drop_nan_guards(Model& model, const Facts& facts);

}  // namespace tw::onnx
