#include "plan/rounding.h"

#include "numeric/balance.h"

namespace tw::plan {

std::span<const float> rounded_parameter(const Plan& plan, const Tensor& tensor,
                                         std::span<const float> logical, std::vector<float>& storage,
                                         unsigned threads) {
  const tensor::TensorType& type = tensor.type;
  const bool matrix = tensor.role == Role::Parameter && type.shape.size() == 2;
  if (plan.weight_rounding != WeightRounding::Balanced || !matrix ||
      type.encoding.precision != tensor::Precision::F8 || logical.size() != tensor::elements(type.shape)) {
    return logical;
  }
  storage.assign(logical.begin(), logical.end());
  numeric::round_balanced(storage, type.shape[0], type.shape[1], type.encoding.scale, threads);
  return storage;
}

}  // namespace tw::plan
