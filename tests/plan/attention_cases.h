// One attention as a plan of its own, in a form of choice.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "plan/attention.h"
#include "plan/canonical.h"
#include "plan/exact.h"

namespace tw::plan_test {

struct AttentionCase {
  std::uint32_t streams = 2, queries = 20, keys = 50, width = 24, values = 24, tiles = 32;
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(width)); }
};

class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionCase& c, plan::Attention mode = plan::Attention::Auto,
                         plan::Policy policy = plan::Policy::Default)
      : case_(c),
        options_{.tiles = c.tiles, .policy = policy, .attention = mode, .threads = 1},
        draft_(c600(), options_) {
    draft_.path = "attention";
    q_ = input("q", {c.streams, c.queries, c.width});
    k_ = input("k", {c.streams, c.keys, c.width});
    v_ = input("v", {c.streams, c.keys, c.values});
  }

  std::vector<plan::AttentionForm> forms() const { return plan::attention_forms(draft_, q_, k_, v_); }
  plan::AttentionForm chosen() { return plan::choose_attention(draft_, q_, k_, v_, case_.scale()); }

  plan::Plan build(const plan::AttentionForm& form) {
    const TensorId rows = plan::emit_attention(draft_, q_, k_, v_, case_.scale(), form);
    const TensorId out = plan::gather(
        draft_, "out", plan::whole(draft_, rows, false),
        plan::canonical_type({case_.streams, case_.queries, case_.values}, case_.tiles, options_.policy),
        draft_.all_tiles(), plan::Role::Output);
    draft_.plan.outputs = {out};
    return std::move(draft_.plan);
  }

 private:
  plan::Held input(const std::string& name, const tensor::Shape& shape) {
    const TensorId id = draft_.add(name, plan::canonical_type(shape, case_.tiles, options_.policy),
                                   draft_.all_tiles(), plan::Role::Input, true);
    draft_.plan.inputs.push_back(id);
    return plan::whole(draft_, id, false);
  }

  AttentionCase case_;
  plan::Options options_;
  plan::Draft draft_;
  plan::Held q_, k_, v_;
};

// Deterministic values of about unit size.
inline std::vector<float> attention_data(const std::string& name, std::size_t count) {
  std::uint32_t state = 2166136261U + static_cast<std::uint32_t>(name[0]);
  std::vector<float> data;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    data.push_back((static_cast<float>(state >> 8) / 8388608.0F - 1.0F) * 1.7F);
  }
  return data;
}

}  // namespace tw::plan_test
