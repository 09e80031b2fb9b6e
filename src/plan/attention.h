// Attention (compiler.md 3.5), materialised (one key block) or streaming (64 keys at a time with an explicit
// online-softmax accumulator), as the options say. Internal to plan/.
#pragma once
#include "plan/convert.h"

namespace tw::plan {

// q [S,R,c], k [S,keys,c], v [S,keys,cv] (S = batch * heads) -> [S,R,cv], Row order on the query owners.
// Throws Error{UnsupportedOp} when there are more streams than tiles.
TensorId emit_attention(Draft& draft, const Held& q, const Held& k, const Held& v, float scale);

}  // namespace tw::plan
