// Constant rows (class tokens, registers) and sums of constants (biases, positions). Internal to onnx/.
#pragma once
#include <functional>
#include <string>

#include "onnx/facts.h"

namespace tw::onnx {

// Constant rows joined to a product of rows that the host gives become sums: the host joins rows of zeros,
// and the constants stand in one table with the product's bias. `given(name)`: the host makes that value.
void join_constant_rows(Model& model, Facts& facts, const std::function<bool(const std::string&)>& given);

// x + a + b with constants a and b as x + (a + b).
void join_constant_sums(Model& model, Facts& facts);

}  // namespace tw::onnx
