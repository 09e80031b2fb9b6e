// Operators on whole rows (compiler.md 3.6, 3.7): norm, add, bias, GELU. Results are canonical. Internal to
// plan/.
#pragma once
#include "plan/convert.h"

namespace tw::plan {

// A vector (or table) as the second operand of row kernels on canonical(x): replicated on its owners, or
// split along rows like x; in x's precision. Throws Error{UnsupportedOp} when b's shape is no suffix of x's.
TensorId suffix_operand(Draft& draft, const Held& b, TensorId x);
bool is_suffix(const tensor::Shape& b, const tensor::Shape& x);  // b without its leading ones

TensorId emit_add(Draft& draft, const Held& a, const Held& b, bool in_place);
TensorId emit_gelu(Draft& draft, const Held& x);
TensorId emit_bias_gelu(Draft& draft, const Held& x, const Held& bias);
// Whole rows where x is, whole rows spread over more tiles, or statistics split over column parts: the
// cheapest.
TensorId emit_layer_norm(Draft& draft, const Held& x, const Held& scale, const Held& bias, float epsilon);

}  // namespace tw::plan
