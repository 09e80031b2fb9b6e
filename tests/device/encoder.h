// One small vision transformer of free extents for the device's tests: embedding product, positions, pre-norm
// blocks, final norm and a head. heads x head_width need not be the model's width.
#pragma once
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "graph/graph.h"

namespace tw::device_test {

enum class Activation : std::uint8_t { TanhGelu, ErfGelu, QuickGelu, Relu };
enum class Pool : std::uint8_t { None, Mean, ClassToken, Attention };

struct Extents {
  std::uint32_t batch = 1, tokens = 16, patch = 48, width = 64, heads = 2, head_width = 32, hidden = 128;
  std::uint32_t layers = 1;  // more than one: a Repeat
  Activation activation = Activation::TanhGelu;
  Pool pool = Pool::Mean;
};

// Input "patches" [batch, tokens, patch]; output [batch, width], [batch, 1, width] (class token, attention)
// or [batch, tokens, width] (no pooling).
class Encoder {
 public:
  explicit Encoder(const Extents& e) : e_(e), b_("encoder") {}

  graph::Graph build() {
    ValueId x = b_.host("patches", {e_.batch, e_.tokens, e_.patch});
    x = dense("embedding", x,
              top({{"weight", {e_.patch, e_.width}}, {"bias", {1, 1, e_.width}}}, "embedding."));
    x = b_.add("positions", x, b_.parameter("positions", {1, e_.tokens, e_.width}));
    x = blocks(x);
    x = norm("final", x, top({{"scale", {1, 1, e_.width}}, {"bias", {1, 1, e_.width}}}, "final."));
    return b_.finish({pooled(x)});
  }

 private:
  using Weights = std::map<std::string, ValueId>;
  using Roles = std::vector<std::pair<std::string, tensor::Shape>>;

  Weights top(const Roles& roles, const std::string& prefix) {
    Weights w;
    for (const auto& [role, shape] : roles) w[role] = b_.parameter(prefix + role, shape);
    return w;
  }
  static Weights of(const Weights& all, const std::string& prefix) {
    Weights w;
    for (const auto& [name, id] : all)
      if (name.starts_with(prefix + ".")) w[name.substr(prefix.size() + 1)] = id;
    return w;
  }

  ValueId dense(const std::string& path, ValueId x, const Weights& w) {
    return b_.add(path + ".add", b_.gemm(path, x, w.at("weight")), w.at("bias"));
  }
  ValueId norm(const std::string& path, ValueId x, const Weights& w) {
    return b_.layer_norm(path, x, w.at("scale"), w.at("bias"), 1e-6F);
  }
  ValueId attend(const std::string& path, ValueId from, ValueId to, const Weights& w) {
    const auto heads = [&](const std::string& role, ValueId x) {
      return b_.split_heads(path + role + ".split", dense(path + role, x, of(w, role)), e_.heads);
    };
    const ValueId q = heads("query", from), k = heads("key", to), v = heads("value", to);
    const float scale = 1.0F / std::sqrt(static_cast<float>(e_.head_width));
    const ValueId o = b_.attention(path + "attention", q, k, v, scale);
    return dense(path + "out", b_.merge_heads(path + "merge", o, e_.heads), of(w, "out"));
  }
  ValueId activate(const std::string& path, ValueId x) {
    switch (e_.activation) {
      case Activation::TanhGelu:
        return b_.gelu(path, x);
      case Activation::ErfGelu:
        return b_.unary(path, numeric::Unary::GeluErf, x);
      case Activation::QuickGelu:
        return b_.unary(path, numeric::Unary::QuickGelu, x);
      default:
        return b_.unary(path, numeric::Unary::Relu, x);
    }
  }
  ValueId block(ValueId x, const Weights& w) {
    const ValueId n = norm("block.norm1", x, of(w, "norm1"));
    const ValueId y = b_.add("block.residual1", x, attend("block.", n, n, w));
    const ValueId up = dense("block.up", norm("block.norm2", y, of(w, "norm2")), of(w, "up"));
    return b_.add("block.residual2", y, dense("block.down", activate("block.gelu", up), of(w, "down")));
  }

  Roles attention_roles() const {
    const std::uint32_t inner = e_.heads * e_.head_width;
    Roles roles;
    for (const char* name : {"query", "key", "value"}) {
      roles.emplace_back(std::string(name) + ".weight", tensor::Shape{e_.width, inner});
      roles.emplace_back(std::string(name) + ".bias", tensor::Shape{1, 1, inner});
    }
    roles.emplace_back("out.weight", tensor::Shape{inner, e_.width});
    roles.emplace_back("out.bias", tensor::Shape{1, 1, e_.width});
    return roles;
  }
  Roles block_roles() const {
    Roles roles = attention_roles();
    for (const char* name : {"norm1", "norm2"})
      for (const char* part : {".scale", ".bias"})
        roles.emplace_back(std::string(name) + part, tensor::Shape{1, 1, e_.width});
    roles.emplace_back("up.weight", tensor::Shape{e_.width, e_.hidden});
    roles.emplace_back("up.bias", tensor::Shape{1, 1, e_.hidden});
    roles.emplace_back("down.weight", tensor::Shape{e_.hidden, e_.width});
    roles.emplace_back("down.bias", tensor::Shape{1, 1, e_.width});
    return roles;
  }

  ValueId blocks(ValueId x) {
    const Roles roles = block_roles();
    if (e_.layers == 1) return block(x, top(roles, "layer0."));
    std::vector<std::uint32_t> iterated;
    for (const auto& [role, shape] : roles) {
      std::vector<ValueId> members;
      for (std::uint32_t i = 0; i < e_.layers; ++i)
        members.push_back(b_.parameter("layer" + std::to_string(i) + "." + role, shape));
      iterated.push_back(b_.sequence("layer{}." + role, std::move(members)));
    }
    const std::vector<ValueId> arguments = b_.begin_repeat("blocks", e_.layers, {x}, {}, iterated);
    Weights w;
    for (std::size_t i = 0; i < roles.size(); ++i) w[roles[i].first] = arguments[1 + i];
    return b_.end_repeat({block(arguments[0], w)})[0];
  }

  ValueId pooled(ValueId x) {
    switch (e_.pool) {
      case Pool::Mean: {
        const ValueId columns = b_.transpose("pool.transpose", x, {0, 2, 1});
        return b_.reshape("pool.rows", b_.reduce("pool.mean", numeric::Reduction::Mean, columns),
                          {e_.batch, e_.width});
      }
      case Pool::ClassToken:
        return b_.slice("pool.class", x, 1, 0, 1);
      case Pool::Attention:
        return attend("pool.", b_.parameter("pool.probe", {e_.batch, 1, e_.width}), x,
                      top(attention_roles(), "pool."));
      default:
        return x;
    }
  }

  Extents e_;
  graph::Builder b_;
};

// Scales of layer norms near one, biases near zero, as trained models have them.
inline std::map<std::string, Values> trained_like(const graph::Graph& graph) {
  std::map<std::string, Values> data;
  for (const graph::Value& v : graph.values) {
    const bool scale = v.name.ends_with(".scale"), bias = v.name.ends_with(".bias");
    if (v.kind != graph::ValueKind::Parameter || !(scale || bias)) continue;
    std::mt19937 random(seed_of(v.name));
    std::normal_distribution<float> normal(scale ? 1.0F : 0.0F, 0.1F);
    Values& values = data[v.name];
    values.resize(tensor::elements(v.shape));
    for (float& x : values) x = numeric::f16_to_f32(numeric::f32_to_f16(normal(random)));
  }
  return data;
}

}  // namespace tw::device_test
