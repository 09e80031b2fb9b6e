// Fused operators of transformers: those of opset 20 and newer, and of ONNX Runtime's optimiser
// (com.microsoft).
#include <algorithm>
#include <cmath>
#include <limits>

#include "numeric/functions.h"
#include "onnx/call.h"

namespace tw::onnx {

namespace {

constexpr const char* kMicrosoft = "com.microsoft";

std::size_t z(std::int64_t v) { return static_cast<std::size_t>(v); }

Tensor apply(const Call& call, Tensor x, numeric::Unary function) {
  ranges(x.size(), 16, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      x.floats[z(i)] = static_cast<float>(numeric::evaluate(function, x.floats[z(i)]));
  });
  return x;
}

Tensor add(const Call& call, const Tensor& x, std::size_t i) {
  const Tensor other = expand(call, call.floats(i), x.dims);
  Tensor out = x;
  for (std::size_t k = 0; k < out.floats.size(); ++k) out.floats[k] += other.floats[k];
  return out;
}

Results gelu(const Call& call) {
  const std::string form = call.attribute("approximate", "none");
  call.require(form == "none" || form == "tanh", "approximate is unknown");
  return one(
      apply(call, call.floats(0), form == "tanh" ? numeric::Unary::GeluTanh : numeric::Unary::GeluErf));
}
Results fast_gelu(const Call& call) {
  const Tensor& x = call.floats(0);
  return one(apply(call, call.has(1) ? add(call, x, 1) : x, numeric::Unary::GeluTanh));
}
Results bias_gelu(const Call& call) {
  return one(apply(call, add(call, call.floats(0), 1), numeric::Unary::GeluErf));
}
Results quick_gelu(const Call& call) {
  const double alpha = call.attribute("alpha", 1.702F);
  Tensor x = call.floats(0);
  for (float& v : x.floats) v = static_cast<float>(v / (1.0 + std::exp(-alpha * v)));
  return one(std::move(x));
}

// Rows of the last axes from `axis` on, scaled to a mean square of 1.
Results rms_norm(const Call& call) {
  const Tensor& x = call.floats(0);
  const std::size_t axis = call.axis(call.attribute("axis", std::int64_t{-1}), x.dims.size());
  const Dims inner(x.dims.begin() + static_cast<std::ptrdiff_t>(axis), x.dims.end());
  const Tensor scale = expand(call, call.floats(1), inner);
  const std::int64_t n = scale.size(), rows = n == 0 ? 0 : x.size() / n;
  const double epsilon = call.attribute("epsilon", 1e-5F);
  Tensor out = call.make(x.element, x.dims);
  for (std::int64_t r = 0; r < rows; ++r) {
    double square = 0;
    for (std::int64_t i = 0; i < n; ++i)
      square += static_cast<double>(x.floats[z(r * n + i)]) * x.floats[z(r * n + i)];
    const double factor = 1.0 / std::sqrt(square / static_cast<double>(n) + epsilon);
    for (std::int64_t i = 0; i < n; ++i)
      out.floats[z(r * n + i)] = static_cast<float>(x.floats[z(r * n + i)] * factor) * scale.floats[z(i)];
  }
  return one(std::move(out));
}

// Layer norm over the last axis of input + skip (+ bias). Outputs: y, mean, 1/deviation, the sum.
Results skip_layer_norm(const Call& call) {
  Tensor x = add(call, call.floats(0), 1);
  if (call.has(4)) x = add(call, x, 4);
  const Node norm{"LayerNormalization", "",
                  call.node.name,       {"x", "s", "b"},
                  {"y", "m", "d"},      {{"epsilon", call.attribute("epsilon", 1e-12F)}}};
  const Tensor* inputs[] = {&x, &call.floats(2), call.has(3) ? &call.floats(3) : nullptr};
  Results out = run_node(norm, inputs, 17, call.limits);
  out.push_back(std::move(x));
  return out;
}

// [batch, heads, tokens, width] of [batch, tokens, heads * width]; four axes stay.
Tensor split_heads(const Call& call, const Tensor& x, std::int64_t heads) {
  if (x.dims.size() == 4) return x;
  call.require(x.dims.size() == 3, "needs three or four axes");
  call.require(heads > 0 && x.dims[2] % heads == 0, "a width that the heads do not divide");
  Tensor view = x;
  view.dims = {x.dims[0], x.dims[1], heads, x.dims[2] / heads};
  return permute(call, view, {0, 2, 1, 3});
}
Tensor merge_heads(const Call& call, const Tensor& x) {
  Tensor out = permute(call, x, {0, 2, 1, 3});
  out.dims = {x.dims[0], x.dims[2], x.dims[1] * x.dims[3]};
  return out;
}

// Heads of keys and values that several heads of queries share, repeated.
Tensor share_heads(const Call& call, const Tensor& x, std::int64_t heads) {
  if (x.dims[1] == heads) return x;
  call.require(x.dims[1] > 0 && heads % x.dims[1] == 0, "query heads that the key heads do not divide");
  Tensor view = x;
  view.dims = {x.dims[0], x.dims[1], 1, x.dims[2], x.dims[3]};
  Tensor out = expand(call, view, {x.dims[0], x.dims[1], heads / x.dims[1], x.dims[2], x.dims[3]});
  out.dims = {x.dims[0], heads, x.dims[2], x.dims[3]};
  return out;
}

Tensor run_one(const Call& call, Node node, std::initializer_list<const Tensor*> inputs) {
  node.name = call.node.name;
  for (std::size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back("x");
  node.outputs = {"y"};
  const std::vector<const Tensor*> list(inputs);
  return std::move(run_node(node, list, 17, call.limits)[0]);
}

struct Scores {
  float scale = 0;  // 0: 1 / sqrt(width)
  bool causal = false;
  float cap = 0;                 // softcap of the scores; 0: none
  const Tensor* mask = nullptr;  // BOOL, or added
};

// softmax(scale q k^T + mask) v, all of four axes.
Tensor attend(const Call& call, const Tensor& q, Tensor k, Tensor v, const Scores& s) {
  call.require(q.dims.size() == 4 && k.dims.size() == 4 && v.dims.size() == 4, "needs heads");
  k = share_heads(call, k, q.dims[1]);
  v = share_heads(call, v, q.dims[1]);
  const float scale = s.scale != 0 ? s.scale : 1.0F / std::sqrt(static_cast<float>(q.dims[3]));
  Tensor scores = run_one(call, {"MatMul", "", "", {}, {}, {}}, {&q, &k});
  const std::int64_t rows = scores.dims[2], cols = scores.dims[3];
  Tensor mask;
  if (s.mask != nullptr) mask = expand(call, *s.mask, scores.dims);
  for (std::int64_t i = 0; i < scores.size(); ++i) {
    float& x = scores.floats[z(i)];
    x *= scale;
    if (s.cap > 0) x = s.cap * std::tanh(x / s.cap);
    if (!mask.floats.empty()) x += mask.floats[z(i)];
    const bool hidden =
        (!mask.ints.empty() && mask.ints[z(i)] == 0) || (s.causal && i % cols > i / cols % rows);
    if (hidden) x = -std::numeric_limits<float>::infinity();
  }
  const Tensor weights = run_one(call, {"Softmax", "", "", {}, {}, {}}, {&scores});
  return run_one(call, {"MatMul", "", "", {}, {}, {}}, {&weights, &v});
}

Tensor transposed(const Call& call, const Tensor& k) {
  call.require(k.dims.size() == 4, "needs heads");
  return permute(call, k, {0, 1, 3, 2});
}

// Opset 23: Q, K, V, attn_mask; no key and value of the past.
Results attention(const Call& call) {
  call.support(!call.has(4) && !call.has(5), "past keys and values are not supported");
  const Tensor& q = call.floats(0);
  const bool merged = q.dims.size() == 3;
  const std::int64_t heads = call.attribute("q_num_heads", std::int64_t{0});
  const std::int64_t kv_heads = call.attribute("kv_num_heads", heads);
  Scores s{call.attribute("scale", 0.0F), call.attribute("is_causal", std::int64_t{0}) != 0,
           call.attribute("softcap", 0.0F), call.has(3) ? &call.input(3) : nullptr};
  // Published versions disagree on whether the mask is added before or after the cap.
  call.support(s.cap == 0 || (s.mask == nullptr && !s.causal), "softcap with a mask is not supported");
  if (s.mask != nullptr)
    call.require(is_floating(s.mask->element) || s.mask->element == Element::Bool, "a mask of a wrong type");
  const Tensor k = split_heads(call, call.floats(1), kv_heads),
               v = split_heads(call, call.floats(2), kv_heads);
  call.require(
      k.dims[0] == q.dims[0] && v.dims[0] == q.dims[0] && k.dims[1] == v.dims[1] && k.dims[2] == v.dims[2],
      "keys and values that do not match");
  const Tensor split = split_heads(call, q, heads);
  // Shared heads are repeated after the transposition, which leaves axis 1 alone.
  Tensor out = attend(call, split, transposed(call, k), v, s);
  return one(merged ? merge_heads(call, out) : std::move(out));
}

// com.microsoft: heads of merged queries, keys and values, no mask.
Results attended(const Call& call, std::span<const Tensor> parts, std::int64_t heads) {
  const Tensor q = split_heads(call, parts[0], heads), k = split_heads(call, parts[1], heads),
               v = split_heads(call, parts[2], heads);
  const Scores s{call.attribute("scale", 0.0F), call.attribute("unidirectional", std::int64_t{0}) != 0, 0,
                 nullptr};
  return one(merge_heads(call, attend(call, q, transposed(call, k), v, s)));
}

// com.microsoft: query, key, value of [batch, tokens, width], one bias for all three; no masks.
Results multi_head_attention(const Call& call) {
  for (std::size_t i = 4; i < call.count(); ++i)
    call.support(!call.has(i), "masks and past keys are not supported");
  const std::int64_t heads = call.attribute("num_heads", std::int64_t{0});
  Tensor parts[] = {call.floats(0), call.floats(1), call.floats(2)};
  if (call.has(3)) {
    const std::vector<float>& bias = call.floats(3).floats;
    std::size_t first = 0;
    for (Tensor& p : parts) {
      call.require(p.dims.size() == 3 && first + z(p.dims[2]) <= bias.size(), "a bias that does not match");
      for (std::size_t i = 0; i < p.floats.size(); ++i) p.floats[i] += bias[first + i % z(p.dims[2])];
      first += z(p.dims[2]);
    }
  }
  return attended(call, parts, heads);
}

// com.microsoft: x W + b split into Q, K, V of equal widths.
Results packed_attention(const Call& call) {
  for (std::size_t i = 3; i < call.count(); ++i)
    call.support(!call.has(i), "masks and past keys are not supported");
  const std::int64_t heads = call.attribute("num_heads", std::int64_t{0});
  Tensor qkv = run_one(call, {"MatMul", "", "", {}, {}, {}}, {&call.floats(0), &call.floats(1)});
  call.require(qkv.dims.size() == 3 && qkv.dims[2] % 3 == 0, "a product that does not split into three");
  if (call.has(2)) qkv = add(call, qkv, 2);
  Node split{"Split", "", call.node.name, {"x"}, {"q", "k", "v"}, {{"axis", std::int64_t{2}}}};
  const Tensor* input[] = {&qkv};
  const Results parts = run_node(split, input, 13, call.limits);
  return attended(call, parts, heads);
}

// Opset 23: x, cos and sin caches, position_ids. Half-split pairs, or interleaved ones.
Results rotary_embedding(const Call& call) {
  const Tensor &given = call.floats(0), &cosines = call.floats(1), &sines = call.floats(2);
  const bool merged = given.dims.size() == 3;
  Tensor x = split_heads(call, given, call.attribute("num_heads", std::int64_t{0}));
  const std::int64_t batch = x.dims[0], heads = x.dims[1], tokens = x.dims[2], width = x.dims[3];
  std::int64_t rotated = call.attribute("rotary_embedding_dim", std::int64_t{0});
  if (rotated == 0) rotated = width;
  call.require(rotated > 0 && rotated <= width && rotated % 2 == 0, "a width that cannot be rotated");
  const std::int64_t half = rotated / 2;
  const bool interleaved = call.attribute("interleaved", std::int64_t{0}) != 0;
  const bool indexed = call.has(3);
  const Dims wanted =
      indexed ? Dims{cosines.dims.empty() ? 0 : cosines.dims[0], half} : Dims{batch, tokens, half};
  call.require(cosines.dims == wanted && sines.dims == wanted, "caches of another shape");
  if (indexed) call.require(call.ints(3).dims == Dims{batch, tokens}, "position_ids of another shape");
  for (std::int64_t r = 0; r < batch * heads * tokens; ++r) {
    const std::int64_t b = r / (heads * tokens), t = r % tokens;
    std::int64_t row = b * tokens + t;
    if (indexed) {
      row = call.ints(3).ints[z(row)];
      call.require(row >= 0 && row < cosines.dims[0], "a position outside the caches");
    }
    for (std::int64_t i = 0; i < half; ++i) {
      float& first = x.floats[z(r * width + (interleaved ? 2 * i : i))];
      float& second = x.floats[z(r * width + (interleaved ? 2 * i + 1 : i + half))];
      const float c = cosines.floats[z(row * half + i)], s = sines.floats[z(row * half + i)], a = first,
                  d = second;
      first = c * a - s * d;
      second = s * a + c * d;
    }
  }
  return one(merged ? merge_heads(call, x) : std::move(x));
}

constexpr Operator kOperators[] = {
    {"Gelu", gelu, "", 20},
    {"RMSNormalization", rms_norm, "", 23},
    {"Attention", attention, "", 23},
    {"RotaryEmbedding", rotary_embedding, "", 23},
    {"Gelu", gelu, kMicrosoft},
    {"FastGelu", fast_gelu, kMicrosoft},
    {"BiasGelu", bias_gelu, kMicrosoft},
    {"QuickGelu", quick_gelu, kMicrosoft},
    {"SkipLayerNormalization", skip_layer_norm, kMicrosoft},
    {"MultiHeadAttention", multi_head_attention, kMicrosoft},
    {"Attention", packed_attention, kMicrosoft},
};

}  // namespace

std::span<const Operator> transformer_operators() { return kOperators; }

}  // namespace tw::onnx
