// Attention (compiler.md 3.5): one grid of query rows with complete keys and values in one or several blocks,
// or a grid for each product. Internal to plan/.
#pragma once
#include <optional>

#include "plan/attention_grids.h"

namespace tw::plan {

// Without grids: `key_step` keys at a time on the query rows, blocks merged online.
struct AttentionForm {
  std::uint32_t key_step = 0;
  std::optional<AttentionGrids> grids;
  bool operator==(const AttentionForm&) const = default;
};

// Forms that the options allow, the best of which `choose_attention` finds by building their fragments.
// Throws Error{UnsupportedOp} when there are more streams than tiles.
std::vector<AttentionForm> attention_forms(const Draft& draft, const Held& q, const Held& k, const Held& v);
AttentionForm choose_attention(Draft& draft, const Held& q, const Held& k, const Held& v, float scale);

// q [S,R,c], k [S,keys,c], v [S,keys,cv] (S = batch * heads) -> [S,R,cv], Row order on the query rows.
TensorId emit_attention(Draft& draft, const Held& q, const Held& k, const Held& v, float scale,
                        const AttentionForm& form);

}  // namespace tw::plan
