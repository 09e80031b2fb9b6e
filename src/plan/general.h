// Operations of any shape (docs/numerics.md, "General operations"): F32 rows, whole on their tile. Correct
// first; a model's own operations have faster forms (plan/block.h). Internal to plan/.
#pragma once
#include "numeric/functions.h"
#include "plan/convert.h"

namespace tw::plan {

// F16 when x is held as F16 rows, else F32.
Held emit_unary(Draft& draft, const Held& x, numeric::Unary function);
Held emit_binary(Draft& draft, const Held& a, const Held& b, const tensor::Shape& shape,
                 numeric::Binary function);
Held emit_softmax_rows(Draft& draft, const Held& x);
Held emit_reduce(Draft& draft, const Held& x, numeric::Reduction function);
Held emit_norm_rows(Draft& draft, const Held& x, const Held& scale, const Held& bias, float epsilon);
Held emit_join(Draft& draft, const std::vector<Held>& parts, std::uint32_t axis, const tensor::Shape& shape);
// F16 rows; the tables [rows, width] repeat over the leading axes of x.
Held emit_rope(Draft& draft, const Held& x, const Held& cosine, const Held& sine, bool interleaved);
// F16 product of two activations, leading axes broadcast: x [.., M, K] times y [.., K, N]. Whole matrices of
// y stand on the tiles that share x's rows. Throws Error{UnsupportedOp} for more products than tiles.
Held emit_matmul(Draft& draft, const Held& x, const Held& y, const tensor::Shape& shape);

}  // namespace tw::plan
