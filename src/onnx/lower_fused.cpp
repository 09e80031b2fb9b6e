// Operators that other tools or the importer itself put together, and choices between values.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "onnx/interpret.h"
#include "onnx/lower.h"
#include "onnx/net.h"

namespace tw::onnx {
namespace {

using graph::Shape;
using numeric::Binary;
using numeric::Unary;

constexpr const char* kMicrosoft = "com.microsoft";

std::uint32_t heads_of(const Node& node, const char* key) {
  return static_cast<std::uint32_t>(number(node, key, 0));
}

// softmax(q k^T) v without a mask, a past or a cap; as many key heads as query heads.
std::string why_no_attention(const Node& node, const Facts& facts) {
  const std::size_t most = node.domain.empty() ? 3 : node.op_type == "MultiHeadAttention" ? 4 : 3;
  for (std::size_t i = most; i < node.inputs.size(); ++i)
    if (has(node, i)) return "its mask or its past";
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) return "its second result";
  if (number(node, "is_causal", 0) != 0 || number(node, "unidirectional", 0) != 0) return "its causal mask";
  if (real(node, "softcap", 0) != 0) return "its cap";
  if (real(node, "scale", 0) < 0) return "its negative scale";
  if (node.domain.empty()) {
    const Dims &q = facts.dims.at(node.inputs[0]), &k = facts.dims.at(node.inputs[1]);
    const bool shared =
        q.size() == 3 ? number(node, "q_num_heads", 0) != number(node, "kv_num_heads", 0) : q[1] != k[1];
    if (shared) return "heads of keys that several heads of queries share";
  } else if (facts.dims.at(node.inputs[0]).size() != 3) {
    return "its packed operands";
  }
  return "";
}

std::string why_no_rotation(const Node& node, const Facts& facts) {
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    if (has(node, i) && !facts.constant(node.inputs[i])) return fmt::format("input {} is not constant", i);
  const Dims& x = facts.dims.at(node.inputs[0]);
  const std::int64_t heads = number(node, "num_heads", 0);
  if (x.size() != 4 && (x.size() != 3 || heads < 1)) return "its shape";
  const std::int64_t width = x.size() == 4 ? x[3] : x[2] / heads;
  const std::int64_t rotated = number(node, "rotary_embedding_dim", 0);
  if (rotated != 0 && rotated != width) return "columns that are not rotated";
  return "";
}

}  // namespace

std::string why_no_fused(const Node& node, const Facts& facts) {
  if (node.op_type == "Attention" || node.op_type == "MultiHeadAttention")
    return why_no_attention(node, facts);
  if (node.op_type == "RotaryEmbedding") return why_no_rotation(node, facts);
  if (node.op_type == "SkipLayerNormalization")
    for (const std::size_t i : {1U, 2U})
      if (i < node.outputs.size() && !node.outputs[i].empty()) return "its second result";
  return "";
}

bool is_fused(const Node& node) {
  static const std::set<std::pair<std::string, std::string>> kKnown = {{"", "Attention"},
                                                                       {"", "RotaryEmbedding"},
                                                                       {"", "RMSNormalization"},
                                                                       {kMicrosoft, "Attention"},
                                                                       {kMicrosoft, "MultiHeadAttention"},
                                                                       {kMicrosoft, "SkipLayerNormalization"},
                                                                       {kMicrosoft, "Gelu"},
                                                                       {kMicrosoft, "BiasGelu"},
                                                                       {kMicrosoft, "FastGelu"},
                                                                       {kMicrosoft, "QuickGelu"}};
  return kKnown.contains({node.domain, node.op_type});
}

void Lowering::fused(const Node& node) {
  if (node.domain == kFused) return own(node);
  if (node.op_type == "Attention" || node.op_type == "MultiHeadAttention") return attention(node);
  if (node.op_type == "RotaryEmbedding") return rotary(node);
  if (node.op_type == "RMSNormalization") return rms_norm(node);
  if (node.op_type == "SkipLayerNormalization") return skip_norm(node);
  ValueId x = value(node.inputs[0]);
  if (has(node, 1)) x = builder_.add(path(), x, value(node.inputs[1]));
  if (node.op_type == "FastGelu") return give(node, builder_.gelu(path(), x));
  if (node.op_type != "QuickGelu") return give(node, builder_.unary(path(), Unary::GeluErf, x));
  const float alpha = real(node, "alpha", 1.702F);
  if (alpha == 1.702F) return give(node, builder_.unary(path(), Unary::QuickGelu, x));
  const ValueId scaled =
      builder_.binary(path(), Binary::Multiply, x, parameter(node_ + ".alpha", {1}, {alpha}));
  give(node, builder_.binary(path(), Binary::Multiply, x, builder_.unary(path(), Unary::Sigmoid, scaled)));
}

// What patterns.h puts together.
void Lowering::own(const Node& node) {
  const ValueId x = value(node.inputs[0]);
  const std::string& op = node.op_type;
  if (op == "Attention")
    return give(node, builder_.attention(path(), x, value(node.inputs[1]), value(node.inputs[2]),
                                         real(node, "scale", 1.0F)));
  if (op == "Rope")
    return give(node, builder_.rope(path(), x, value(node.inputs[1]), value(node.inputs[2]),
                                    number(node, "interleaved", 0) != 0));
  if (op == "SplitHeads") return give(node, builder_.split_heads(path(), x, heads_of(node, "heads")));
  if (op == "MergeHeads") return give(node, builder_.merge_heads(path(), x, heads_of(node, "heads")));
  const ValueId y = as_rows(x);
  if (op == "Silu") return give(node, builder_.unary(path(), Unary::Silu, y));
  if (op == "QuickGelu") return give(node, builder_.unary(path(), Unary::QuickGelu, y));
  if (op == "HardSwish") return give(node, builder_.unary(path(), Unary::HardSwish, y));
  TW_CHECK(op == "Gelu", "an unknown fused operator: " + op);
  const auto* form = node.attribute<std::string>("approximate");
  give(node, form != nullptr && *form == "tanh" ? builder_.gelu(path(), y)
                                                : builder_.unary(path(), Unary::GeluErf, y));
}

// [b,h,t,d] or, with heads, [b,t,h*d] to streams.
ValueId Lowering::streams(ValueId x, std::uint32_t heads) {
  const Shape s = builder_.shape(x);
  if (s.size() == 4) return reshaped(x, {s[0] * s[1], s[2], s[3]});
  return builder_.split_heads(path(), x, heads);
}

void Lowering::attention(const Node& node) {
  const bool packed = node.domain == kMicrosoft && node.op_type == "Attention";
  const std::uint32_t heads = heads_of(node, node.domain.empty() ? "q_num_heads" : "num_heads");
  ValueId parts[3];
  if (packed) {
    ValueId x = builder_.gemm(path(), value(node.inputs[0]), value(node.inputs[1]));
    if (has(node, 2)) x = builder_.add(path(), x, value(node.inputs[2]));
    const std::uint32_t width = builder_.shape(x)[2] / 3;
    for (std::uint32_t i = 0; i < 3; ++i) parts[i] = builder_.slice(path(), x, 2, i * width, width);
  } else {
    for (std::size_t i = 0; i < 3; ++i) parts[i] = value(node.inputs[i]);
  }
  if (!packed && node.domain == kMicrosoft && has(node, 3)) {  // one bias for all three
    const ValueId bias = value(node.inputs[3]);
    std::uint32_t start = 0;
    for (ValueId& p : parts) {
      const std::uint32_t width = builder_.shape(p)[2];
      p = builder_.add(path(), p, builder_.slice(path(), bias, 0, start, width));
      start += width;
    }
  }
  const bool merged = builder_.shape(parts[0]).size() == 3;
  for (ValueId& p : parts) p = streams(p, heads);
  const float given = real(node, "scale", 0);
  const float scale = given != 0 ? given : 1.0F / std::sqrt(static_cast<float>(builder_.shape(parts[0])[2]));
  const ValueId y = builder_.attention(path(), parts[0], parts[1], parts[2], scale);
  give(node, merged ? builder_.merge_heads(path(), y, heads) : y);
}

void Lowering::rotary(const Node& node) {
  const ValueId given = value(node.inputs[0]);
  const auto heads = heads_of(node, "num_heads");
  const bool merged = builder_.shape(given).size() == 3;
  const std::uint32_t images = builder_.shape(given)[0];
  const ValueId x = streams(given, heads);
  const Shape s = builder_.shape(x);
  const std::uint32_t rows = s[1], half = s[2] / 2;
  const bool interleaved = number(node, "interleaved", 0) != 0;
  const std::int64_t* at = has(node, 3) ? facts_.constants.at(node.inputs[3]).ints.data() : nullptr;
  const auto table = [&](std::size_t input, std::uint32_t image) {
    const std::vector<float>& cache = facts_.constants.at(node.inputs[input]).floats;
    std::vector<float> out(std::size_t{rows} * 2 * half);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t row = std::size_t{image} * rows + r;
        const float v = cache.at((at == nullptr ? row : static_cast<std::size_t>(at[row])) * half + i);
        out[r * 2 * half + (interleaved ? 2 * i : i)] = v;
        out[r * 2 * half + (interleaved ? 2 * i + 1 : i + half)] = v;
      }
    return out;
  };
  bool same = true;
  for (std::uint32_t b = 1; b < images && same; ++b)
    same = table(1, b) == table(1, 0) && table(2, b) == table(2, 0);
  const std::uint32_t groups = same ? 1 : images, count = s[0] / groups;
  std::vector<ValueId> parts;
  for (std::uint32_t b = 0; b < groups; ++b) {
    const ValueId part = same ? x : builder_.slice(path(), x, 0, b * count, count);
    const ValueId cosine = parameter(node_ + ".cos", {rows, 2 * half}, table(1, b)),
                  sine = parameter(node_ + ".sin", {rows, 2 * half}, table(2, b));
    parts.push_back(builder_.rope(path(), part, cosine, sine, interleaved));
  }
  const ValueId y = parts.size() == 1 ? parts[0] : builder_.concat(path(), parts, 0);
  give(node, merged ? builder_.merge_heads(path(), y, heads) : y);
}

void Lowering::rms_norm(const Node& node) {
  const ValueId x = value(node.inputs[0]);
  const Shape shape = builder_.shape(x);
  const std::uint32_t axis = axis_of(number(node, "axis", -1), shape.size());
  std::uint32_t rows = 1;
  for (std::uint32_t i = 0; i < axis; ++i) rows *= shape[i];
  const std::uint32_t width = static_cast<std::uint32_t>(tensor::elements(shape)) / rows;
  const ValueId flat = reshaped(x, {rows, width});
  const ValueId square = builder_.reduce(path(), numeric::Reduction::Mean,
                                         builder_.binary(path(), Binary::Multiply, flat, flat));
  const ValueId epsilon = parameter(node_ + ".epsilon", {1}, {real(node, "epsilon", 1e-5F)});
  const ValueId factor = builder_.unary(
      path(), Unary::Reciprocal, builder_.unary(path(), Unary::Sqrt, builder_.add(path(), square, epsilon)));
  const ValueId y = builder_.binary(path(), Binary::Multiply, flat, factor);
  give(node, builder_.binary(path(), Binary::Multiply, y, vector(node, 1, width, 1.0F)));
}

// Inputs: x, skip, scale, shift, bias. Outputs: the norm, -, -, the sum.
void Lowering::skip_norm(const Node& node) {
  ValueId x = builder_.add(path(), value(node.inputs[0]), value(node.inputs[1]));
  if (has(node, 4)) x = builder_.add(path(), x, value(node.inputs[4]));
  const std::uint32_t width = builder_.shape(x).back();
  const ValueId scale = reshaped(value(node.inputs[2]), {width});
  give(node,
       builder_.layer_norm(path(), x, scale, vector(node, 3, width, 0.0F), real(node, "epsilon", 1e-12F)));
  if (node.outputs.size() > 3 && !node.outputs[3].empty()) give(node, x, 3);
}

// A constant condition, as factors of 0 and 1: exact for finite values.
void Lowering::choose(const Node& node) {
  const Tensor& condition = facts_.constants.at(node.inputs[0]);
  std::vector<float> first(condition.ints.begin(), condition.ints.end()), second;
  for (const float v : first) second.push_back(1.0F - v);
  const auto all = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float v) { return v == 1.0F; });
  };
  const auto whole = [&](std::size_t i) {
    const ValueId x = value(node.inputs[i]);
    const Shape out = out_shape(node);
    return builder_.shape(x) == out ? x : builder_.expand(path(), x, out);
  };
  if (all(first)) return give(node, whole(1));
  if (all(second)) return give(node, whole(2));
  const auto part = [&](std::size_t i, const char* suffix, std::vector<float> factors) {
    if (const auto fixed = facts_.constants.find(node.inputs[i]); fixed != facts_.constants.end()) {
      const Tensor zero{.element = fixed->second.element, .dims = {}, .floats = {0.0F}, .ints = {}};
      const Tensor* inputs[] = {&condition, i == 1 ? &fixed->second : &zero, i == 1 ? &zero : &fixed->second};
      Tensor chosen = std::move(run_node(node, inputs, opset_)[0]);
      return parameter(node_ + suffix, graph_shape(chosen.dims), std::move(chosen.floats));
    }
    const ValueId f = parameter(node_ + suffix, graph_shape(condition.dims), std::move(factors));
    return builder_.binary(path(), Binary::Multiply, value(node.inputs[i]), f);
  };
  const ValueId a = part(1, ".first", std::move(first)), b = part(2, ".second", std::move(second));
  give(node, builder_.add(path(), a, b));
}

}  // namespace tw::onnx
