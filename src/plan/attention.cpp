#include "plan/attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/math.h"
#include "plan/decide.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::ElementOrder;
using tensor::MemoryClass;
using tensor::Order;
using tensor::Padding;
using tensor::TensorType;

constexpr std::size_t kMostGrids = 32;  // fragments built per attention
// Most bytes of complete keys or values on a tile: four pairs of elements of region 1; three under the
// capacity policy.
constexpr std::uint32_t kOperandBytes = 131072, kCapacityOperandBytes = 98304;

AttentionShape shape_of(const Draft& draft, const Held& q, const Held& k, const Held& v) {
  AttentionShape s{.streams = q.shape[0],
                   .queries = q.shape[1],
                   .keys = k.shape[1],
                   .width = q.shape[2],
                   .values = v.shape[2],
                   .parts = 1};
  if (s.streams > draft.tiles()) {
    throw Error(ErrorKind::UnsupportedOp,
                fmt::format("{}: attention has {} streams (batch x heads), more than {} tiles", draft.path,
                            s.streams, draft.tiles()));
  }
  s.parts = std::min(s.queries, draft.tiles() / s.streams);
  return s;
}

// Unnormalised probabilities of one key block and their PV product. `suffix` tells blocks apart.
struct Block {
  TensorId pv, state;
};
Block emit_block(Draft& draft, const std::string& suffix, TensorId q_left, const Held& k, const Held& v,
                 const AttentionShape& s, float scale) {
  const TensorId keys = pack_and_broadcast(draft, "k" + suffix, k, s, kRightOrder, kRightOrder);
  TensorType score_type = query_type(s, s.keys, kKeyBlock, kLeftOrder);
  score_type.layout.memory = MemoryClass::Interleaved;
  const TensorId scores = draft.add("scores" + suffix, score_type, Role::Scratch);
  draft.step(Product{.left = q_left, .right = keys, .out = scores, .right_transposed = true});
  const Probabilities p = emit_softmax(draft, suffix, scores, s, scale);

  // Values arrive after the keys are dead, so that only one of the two is resident.
  const ElementOrder block{.kind = Order::BlockMajor, .row_block = kKeyBlock, .col_block = kPanel};
  ElementOrder complete = block;
  complete.row_block = up(s.keys, kKeyBlock);
  const TensorId v_right = pack_and_broadcast(draft, "v" + suffix, v, s, block, complete);
  TensorType pv_type = query_type(s, s.values, kPanel, kLeftOrder);
  pv_type.layout.memory = MemoryClass::Interleaved;
  const TensorId pv = draft.add("pv" + suffix, pv_type, Role::Scratch);
  draft.step(Product{.left = p.weights, .right = v_right, .out = pv});
  return {pv, p.state};
}

// Streaming takes 64 keys at a time. Left alone, the query rows take one block unless its complete keys or
// values would take more than the policy allows; then as few equal blocks as do.
std::uint32_t keys_at_a_time(const Options& options, std::uint32_t keys, std::uint32_t width) {
  if (options.attention == Attention::Streaming) return kKeyBlock;
  if (options.attention == Attention::Materialized) return keys;
  const std::uint32_t limit = options.policy == Policy::Capacity ? kCapacityOperandBytes : kOperandBytes;
  const std::uint32_t bytes = 2 * up(keys, kKeyBlock) * up(width, kPanel);
  return up(cd(keys, cd(bytes, limit)), kKeyBlock);
}

// Rows [start, start + length) of a value's key axis.
Held key_rows(const Held& x, std::uint32_t start, std::uint32_t length) {
  Held rows = x;
  rows.view = tensor::compose(x.view, tensor::slice_map(3, 1, start));
  rows.shape[1] = length;
  return rows;
}

// The running F32 accumulator: width + 2 columns, the last two hold maximum and denominator
// (compiler.md 3.5).
TensorId add_accumulator(Draft& draft, const std::string& name, const AttentionShape& s) {
  TensorType type = query_type(s, s.values + 2, kPanel, {});
  type.encoding = {tensor::Precision::F32, 0};
  return draft.add(name, std::move(type), Role::Scratch);
}

TensorId emit_on_query_rows(Draft& draft, const Held& q, const Held& k, const Held& v, AttentionShape s,
                            float scale, std::uint32_t step) {
  const TensorId q_left = pack_queries(draft, q, s);
  const std::uint32_t all_keys = s.keys;
  TensorId accumulator;
  for (std::uint32_t start = 0; start < all_keys; start += step) {
    const std::string suffix = step < all_keys ? std::to_string(start / step) : "";
    s.keys = std::min(step, all_keys - start);
    const bool initial = start == 0, final = start + step >= all_keys;
    const Block block =
        emit_block(draft, suffix, q_left, key_rows(k, start, s.keys), key_rows(v, start, s.keys), s, scale);
    const TensorId out = final ? draft.add("result", query_type(s, s.values, kPanel, {}), Role::Activation)
                               : add_accumulator(draft, "accumulator" + suffix, s);
    Local merge{.kind = LocalKind::Merge, .inputs = {block.pv, block.state}, .outputs = {out}};
    if (!initial) merge.inputs.push_back(accumulator);
    merge.initial = initial;
    merge.final = final;
    draft.local(std::move(merge));
    accumulator = out;
  }
  return accumulator;
}

Metrics fragment_metrics(const Draft& draft, const Held& q, const Held& k, const Held& v, float scale,
                         const AttentionForm& form) {
  Draft fragment(draft.device, draft.options);
  fragment.path = draft.path;
  std::map<TensorId, TensorId> imported;  // one tensor often holds all three
  const auto local = [&](Held held) {
    const auto [slot, fresh] = imported.try_emplace(held.tensor);
    if (fresh) slot->second = fragment.import(draft.at(held.tensor));
    held.tensor = slot->second;
    return held;
  };
  const Held lq = local(q), lk = local(k), lv = local(v);
  canonical(fragment, whole(fragment, emit_attention(fragment, lq, lk, lv, scale, form), true));
  return estimate_quickly(fragment.plan);
}

}  // namespace

std::vector<AttentionForm> attention_forms(const Draft& draft, const Held& q, const Held& k, const Held& v) {
  const AttentionShape s = shape_of(draft, q, k, v);
  std::vector<AttentionForm> forms{
      {.key_step = keys_at_a_time(draft.options, s.keys, std::max(s.width, s.values)), .grids = {}}};
  if (draft.options.attention == Attention::Streaming) return forms;
  for (const AttentionGrids& grids : attention_grids(s, draft.tiles(), kMostGrids)) {
    forms.push_back({.key_step = 0, .grids = grids});
  }
  return forms;
}

AttentionForm choose_attention(Draft& draft, const Held& q, const Held& k, const Held& v, float scale) {
  const std::vector<AttentionForm> forms = attention_forms(draft, q, k, v);
  if (forms.size() == 1) return forms.front();
  return forms[decide(draft, forms.size(),
                      [&](std::size_t i) { return fragment_metrics(draft, q, k, v, scale, forms[i]); })];
}

TensorId emit_attention(Draft& draft, const Held& q, const Held& k, const Held& v, float scale,
                        const AttentionForm& form) {
  const AttentionShape s = shape_of(draft, q, k, v);
  return form.grids ? emit_on_grids(draft, q, k, v, s, scale, *form.grids)
                    : emit_on_query_rows(draft, q, k, v, s, scale, form.key_step);
}

}  // namespace tw::plan
