// Steps and layouts that every form of attention shares. Internal to plan/.
#pragma once
#include "plan/convert.h"

namespace tw::plan {

// streams = batch * heads; `parts` row parts of the queries, on which softmax and merge run:
// t = stream + streams * part.
struct AttentionShape {
  std::uint32_t streams = 1, queries = 1, keys = 1, width = 1, values = 1, parts = 1;
};

inline constexpr std::uint32_t kKeyBlock = 64;  // keys of a streaming step and of a packing owner
inline constexpr std::uint32_t kPanel = 16;     // F16 panel width
inline constexpr tensor::ElementOrder kLeftOrder{.kind = tensor::Order::AmpLeft},
    kRightOrder{.kind = tensor::Order::AmpRight};

// [streams, queries, cols] on the query rows, columns padded to `block`.
tensor::TensorType query_type(const AttentionShape& s, std::uint32_t cols, std::uint32_t block,
                              tensor::ElementOrder order);

// The query rows as a left operand.
TensorId pack_queries(Draft& draft, const Held& q, const AttentionShape& s);
// Keys or values [streams, keys, cols] packed once on a grid of panels, from where whole panels travel.
TensorId pack_keys(Draft& draft, const std::string& name, const Held& x, const AttentionShape& s,
                   tensor::ElementOrder packed);

// Packs keys or values once, then sends the panels to every query owner. The complete operand is interleaved:
// wide loads, and it needs region 1 anyway.
TensorId pack_and_broadcast(Draft& draft, const std::string& name, const Held& x, const AttentionShape& s,
                            tensor::ElementOrder packed, tensor::ElementOrder complete);

// Unnormalised probabilities of scores that hold whole rows of keys, and their statistics [2, streams,
// queries].
struct Probabilities {
  TensorId weights, state;
};
Probabilities emit_softmax(Draft& draft, const std::string& suffix, TensorId scores, const AttentionShape& s,
                           float scale);

}  // namespace tw::plan
