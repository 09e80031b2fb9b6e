// Small graphs for the planner's tests, built by hand so that they do not depend on model/.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw::plan_test {

inline ValueId biased_gemm(graph::Builder& b, const std::string& path, ValueId x, std::uint32_t k,
                           std::uint32_t n) {
  const ValueId w = b.parameter(path + ".weight", {k, n});
  const ValueId bias = b.parameter(path + ".bias", {1, 1, n});
  return b.add(path + ".add", b.gemm(path, x, w), bias);
}

struct VitShape {
  std::uint32_t batch = 1, tokens = 729, patch = 588, width = 1152, hidden = 4304, heads = 16, layers = 1;
};

// A SigLIP tower: embedding, `layers` encoder layers in a Repeat, MAP head (models.md B.1).
class Vit {
 public:
  explicit Vit(VitShape s) : s_(s), b_("vit") {}

  graph::Graph build() {
    ValueId x = b_.host("patches", {s_.batch, s_.tokens, s_.patch});
    x = biased_gemm(b_, "embedding", x, s_.patch, s_.width);
    x = b_.add("position", x, b_.parameter("position", {1, s_.tokens, s_.width}));
    x = encoder(x);
    x = norm("final_norm", x);
    return b_.finish({head(x)});
  }

 private:
  ValueId norm(const std::string& path, ValueId x) {
    return b_.layer_norm(path, x, b_.parameter(path + ".scale", {1, 1, s_.width}),
                         b_.parameter(path + ".bias", {1, 1, s_.width}), 1e-6F);
  }

  ValueId attend(const std::string& path, ValueId q, ValueId k, ValueId v) {
    q = b_.split_heads(path + ".q", q, s_.heads);
    k = b_.split_heads(path + ".k", k, s_.heads);
    v = b_.split_heads(path + ".v", v, s_.heads);
    const float scale = 1.0F / std::sqrt(static_cast<float>(s_.width / s_.heads));
    return b_.merge_heads(path + ".merge", b_.attention(path, q, k, v, scale), s_.heads);
  }

  std::uint32_t weights(const std::string& role, const graph::Shape& shape) {
    std::vector<ValueId> members;
    for (std::uint32_t i = 0; i < s_.layers; ++i) {
      members.push_back(b_.parameter("layer" + std::to_string(i) + "." + role, shape));
    }
    return b_.sequence("layer{}." + role, members);
  }

  ValueId encoder(ValueId x) {
    const std::uint32_t d = s_.width, h = s_.hidden;
    std::vector<std::uint32_t> sequences;
    for (const char* name : {"norm1.scale", "norm1.bias", "norm2.scale", "norm2.bias"}) {
      sequences.push_back(weights(name, {1, 1, d}));
    }
    const std::vector<std::pair<std::string, graph::Shape>> dense{
        {"qkv", {d, 3 * d}}, {"out", {d, d}}, {"up", {d, h}}, {"down", {h, d}}};
    for (const auto& [name, shape] : dense) {
      sequences.push_back(weights(name + ".weight", shape));
      sequences.push_back(weights(name + ".bias", {1, 1, shape[1]}));
    }
    const std::vector<ValueId> a = b_.begin_repeat("encoder", s_.layers, {x}, {}, sequences);
    const auto dense_op = [&](const std::string& path, ValueId in, std::size_t index) {
      return b_.add(path + ".add", b_.gemm(path, in, a[index]), a[index + 1]);
    };
    ValueId t = b_.layer_norm("layer.norm1", a[0], a[1], a[2], 1e-6F);
    const ValueId qkv = dense_op("layer.qkv", t, 5);
    t = attend("layer.attention", b_.slice("layer.q", qkv, 2, 0, d), b_.slice("layer.k", qkv, 2, d, d),
               b_.slice("layer.v", qkv, 2, 2 * d, d));
    const ValueId y = b_.add("layer.residual1", a[0], dense_op("layer.out", t, 7));
    t = b_.layer_norm("layer.norm2", y, a[3], a[4], 1e-6F);
    t = b_.gelu("layer.gelu", dense_op("layer.up", t, 9));
    const ValueId z = b_.add("layer.residual2", y, dense_op("layer.down", t, 11));
    return b_.end_repeat({z})[0];
  }

  ValueId head(ValueId x) {
    const std::uint32_t d = s_.width;
    const ValueId probe = b_.parameter("map.probe", {s_.batch, 1, d});
    const ValueId q = biased_gemm(b_, "map.query", probe, d, d);
    const ValueId kv = biased_gemm(b_, "map.kv", x, d, 2 * d);
    const ValueId o =
        attend("map.attention", q, b_.slice("map.k", kv, 2, 0, d), b_.slice("map.v", kv, 2, d, d));
    const ValueId h = biased_gemm(b_, "map.out", o, d, d);
    ValueId t = norm("map.norm", h);
    t = b_.gelu("map.gelu", biased_gemm(b_, "map.up", t, d, s_.hidden));
    return b_.add("map.residual", h, biased_gemm(b_, "map.down", t, s_.hidden, d));
  }

  VitShape s_;
  graph::Builder b_;
};

}  // namespace tw::plan_test
