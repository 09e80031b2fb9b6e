// Attention with one grid of tiles per product (compiler.md 3.5, "independent product grids"): scores move
// from the QK grid to whole rows for the softmax, probabilities from there to the PV grid. Internal to plan/.
#pragma once
#include <vector>

#include "plan/attention_parts.h"

namespace tw::plan {

// Owners of a product per stream; `inner` K parts. t = stream + streams * (col + cols * (k + inner * row)).
struct ProductGrid {
  std::uint32_t rows = 1, cols = 1, inner = 1;
  bool operator==(const ProductGrid&) const = default;
};
struct AttentionGrids {
  ProductGrid qk, pv;
  bool operator==(const AttentionGrids&) const = default;
};

// Whether every one of `parts` equal parts (whole groups, the last one short) gets a group.
bool every_part_filled(std::uint32_t groups, std::uint32_t parts);
// Every grid that the rules allow; a PV grid never has an empty last K part.
std::vector<ProductGrid> qk_grids(const AttentionShape& s, std::uint32_t tiles);
std::vector<ProductGrid> pv_grids(const AttentionShape& s, std::uint32_t tiles);

// The pairs worth building, at most `limit`, by closed-form prices. Deterministic order.
std::vector<AttentionGrids> attention_grids(const AttentionShape& s, std::uint32_t tiles, std::size_t limit);

// The attention's result [streams, queries, values], Row order on the query rows.
TensorId emit_on_grids(Draft& draft, const Held& q, const Held& k, const Held& v, const AttentionShape& s,
                       float scale, const AttentionGrids& grids);

}  // namespace tw::plan
