// Attention and rotary positions in the spellings of exporters (models.md D.4, 5 to 9).
#include "program.h"

namespace tw::onnx {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 5, kHeads = 3, kHead = 4, kWidth = kHeads * kHead;

std::string linear(Draft& d, const std::string& x, std::int64_t in, std::int64_t out, unsigned seed) {
  const std::string y = d.op("MatMul", {x, d.constant(drawn({in, out}, seed, 0.5F))});
  return d.op("Add", {d.constant(drawn({out}, seed + 1, 0.2F)), y});
}

struct Qkv {
  std::string q, k, v;  // [batch, heads, tokens, width]; k may be turned
};
// Where the scale of the scores stands.
enum class Scale : std::uint8_t { Scores, Divided, Query, Both, None };

std::string attend(Draft& d, Qkv a, Scale scale, bool turned = false, float mask = -1) {
  const float s = 1 / std::sqrt(static_cast<float>(kHead));
  if (!turned) a.k = d.transpose(a.k, {0, 1, 3, 2});
  if (scale == Scale::Query) a.q = d.op("Mul", {a.q, d.scalar(s)});
  if (scale == Scale::Both) {
    a.q = d.op("Mul", {a.q, d.scalar(std::sqrt(s))});
    a.k = d.op("Mul", {a.k, d.scalar(std::sqrt(s))});
  }
  std::string scores = d.op("MatMul", {a.q, a.k});
  if (scale == Scale::Scores) scores = d.op("Mul", {scores, d.scalar(s)});
  if (scale == Scale::Divided) scores = d.op("Div", {scores, d.scalar(1 / s)});
  if (mask >= 0) scores = d.op("Add", {scores, d.constant(floats({1, 1, 1, 1}, {0}))});
  if (mask > 0) {
    std::vector<float> values(kTokens, 0);
    values[1] = mask;
    scores = d.op("Add", {scores, d.constant(floats({1, 1, 1, kTokens}, values))});
  }
  return d.op("MatMul", {d.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), a.v});
}
std::string merged(Draft& d, const std::string& y) {
  return d.reshape(d.transpose(y, {0, 2, 1, 3}), {kBatch, kTokens, kWidth});
}

// Three products, as transformers has it.
Qkv three_products(Draft& d, const std::string& x, bool turned = false) {
  const auto heads = [&](unsigned seed, bool keys) {
    const std::string y = d.reshape(linear(d, x, kWidth, kWidth, seed), {kBatch, -1, kHeads, kHead});
    return d.transpose(y, keys && turned ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3});
  };
  return {heads(1, false), heads(3, true), heads(5, false)};
}

Kinds projected(int products, int slices, int heads = 3) {
  Kinds k{
      {"gemm", products}, {"add", products}, {"split_heads", heads}, {"attention", 1}, {"merge_heads", 1}};
  if (slices > 0) k["slice"] = slices;
  return k;
}
float scale_of(const Program& p) {
  for (const graph::Op& op : p.graph.ops)
    if (op.kind == graph::OpKind::Attention) return op.scale;
  return 0;
}

TEST(Attention, ScaleStandsAnywhere) {
  for (const Scale s : {Scale::Scores, Scale::Divided, Scale::Query, Scale::Both, Scale::None})
    for (const bool turned : {false, true}) {
      Draft d(14);
      const Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}), turned);
      d.output(merged(d, attend(d, a, s, turned)));
      const Program p = checked(d);
      EXPECT_EQ(kinds(p), projected(3, 0));
      EXPECT_FLOAT_EQ(scale_of(p), s == Scale::None ? 1.0F : 0.5F);
    }
}

TEST(Attention, ScaleBeforeTheHeads) {
  Draft d(14);
  const std::string x = d.input("x", {kBatch, kTokens, kWidth});
  Qkv a = three_products(d, x);
  const std::string q = d.op("Mul", {linear(d, x, kWidth, kWidth, 9), d.scalar(0.5F)});
  a.q = d.transpose(d.reshape(q, {kBatch, kTokens, kHeads, kHead}), {0, 2, 1, 3});
  d.output(merged(d, attend(d, a, Scale::None)));
  const Program p = checked(d);
  EXPECT_EQ(kinds(p).at("attention"), 1);
  EXPECT_FALSE(kinds(p).contains("mul"));
  EXPECT_FLOAT_EQ(scale_of(p), 0.5F);
}

// The scale from the shape of the query, as the tracer writes scaled_dot_product_attention.
TEST(Attention, ScaleFromTheShape) {
  Draft d(14);
  Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
  const std::string width =
      d.op("Slice", {d.op("Shape", {a.q}), d.ints({-1}), d.ints({9223372036854775807})});
  const std::string root = d.op("Sqrt", {d.op("Cast", {width}, {{"to", std::int64_t{1}}})});
  const std::string s = d.op("Sqrt", {d.op("Div", {d.constant(floats({1}, {1})), root})});
  a.q = d.op("Mul", {a.q, s});
  a.k = d.op("Mul", {d.transpose(a.k, {0, 1, 3, 2}), s});
  d.output(merged(d, attend(d, a, Scale::None, true)));
  const Program p = checked(d);
  EXPECT_EQ(kinds(p), projected(3, 0));
  EXPECT_FLOAT_EQ(scale_of(p), 0.5F);
}

TEST(Attention, Masks) {
  const auto with = [](float mask) {
    Draft d(14);
    d.output(merged(d, attend(d, three_products(d, d.input("x", {kBatch, kTokens, kWidth})), Scale::Scores,
                              false, mask)));
    return kinds(checked(d));
  };
  EXPECT_EQ(with(0), projected(3, 0));
  const Kinds masked = with(0.75F);  // a mask that is not zero stays
  EXPECT_FALSE(masked.contains("attention"));
  EXPECT_EQ(masked.at("softmax"), 1);
}

TEST(Attention, NearMisses) {
  {  // the softmax is not that of the rows
    Draft d(14);
    const Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
    const std::string s = d.op("MatMul", {a.q, d.transpose(a.k, {0, 1, 3, 2})});
    d.output(merged(d, d.op("MatMul", {d.op("Softmax", {s}, {{"axis", std::int64_t{2}}}), a.v})));
    EXPECT_FALSE(kinds(checked(d)).contains("attention"));
  }
  {  // the weights are an output too
    Draft d(14);
    const Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
    const std::string w =
        d.op("Softmax", {d.op("MatMul", {a.q, d.transpose(a.k, {0, 1, 3, 2})})}, {{"axis", std::int64_t{3}}});
    d.output(merged(d, d.op("MatMul", {w, a.v})));
    d.output(w);
    EXPECT_FALSE(kinds(checked(d)).contains("attention"));
  }
  {  // a negative scale
    Draft d(14);
    Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
    a.q = d.op("Mul", {a.q, d.scalar(-0.5F)});
    d.output(merged(d, attend(d, a, Scale::None)));
    EXPECT_FALSE(kinds(checked(d)).contains("attention"));
  }
}

TEST(Attention, GuardsAndCastsAreDropped) {
  Draft d(14);
  const Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
  std::string s = d.op("MatMul", {a.q, d.transpose(a.k, {0, 1, 3, 2})});
  s = d.op("Softmax", {d.op("Cast", {s}, {{"to", std::int64_t{1}}})}, {{"axis", std::int64_t{-1}}});
  s = d.op("Where", {d.op("IsNaN", {s}), d.scalar(0), s});
  s = d.op("Dropout", {d.op("Cast", {s}, {{"to", std::int64_t{1}}})});
  d.output(merged(d, d.op("MatMul", {s, a.v})));
  const Program p = checked(d);
  EXPECT_EQ(kinds(p), projected(3, 0));
  EXPECT_TRUE(p.notes.empty());
}

// One product for all three, split in four ways.
TEST(Attention, PackedProjections) {
  for (int spelling = 0; spelling < 5; ++spelling) {
    Draft d(14);
    const std::string x = d.input("x", {kBatch, kTokens, kWidth}), y = linear(d, x, kWidth, 3 * kWidth, 1);
    Qkv a;
    std::string* parts[] = {&a.q, &a.k, &a.v};
    const auto heads = [&](const std::string& v) {
      return d.transpose(d.reshape(v, {kBatch, kTokens, kHeads, kHead}), {0, 2, 1, 3});
    };
    if (spelling < 2) {  // timm
      const std::string all = d.transpose(d.reshape(y, {kBatch, kTokens, 3, kHeads, kHead}), {2, 0, 3, 1, 4});
      const std::vector<std::string> three =
          spelling == 0 ? d.many(3, "Split", {all}, {{"axis", std::int64_t{0}}}) : std::vector<std::string>{};
      for (std::int64_t i = 0; i < 3; ++i)
        *parts[i] =
            spelling == 0
                ? d.op("Squeeze", {three[static_cast<std::size_t>(i)], d.ints({0})})
                : d.op("Gather",
                       {all, d.constant({.element = Element::Int64, .dims = {}, .floats = {}, .ints = {i}})},
                       {{"axis", std::int64_t{0}}});
    } else if (spelling == 2) {
      const auto three =
          d.many(3, "Split", {y, d.ints({kWidth, kWidth, kWidth})}, {{"axis", std::int64_t{-1}}});
      for (std::size_t i = 0; i < 3; ++i) *parts[i] = heads(three[i]);
    } else if (spelling == 3) {
      for (std::int64_t i = 0; i < 3; ++i)
        *parts[i] = heads(d.op("Slice", {y, d.ints({i * kWidth}), d.ints({(i + 1) * kWidth}), d.ints({2})}));
    } else {  // unflatten, unsqueeze, transpose, squeeze: torch's in_proj
      const std::string r = d.op("Unsqueeze", {d.reshape(y, {kBatch, kTokens, 3, kWidth}), d.ints({0})});
      const std::string all = d.op("Squeeze", {d.transpose(r, {3, 1, 2, 0, 4}), d.ints({3})});
      for (std::int64_t i = 0; i < 3; ++i)
        *parts[i] = heads(d.op(
            "Gather", {all, d.constant({.element = Element::Int64, .dims = {}, .floats = {}, .ints = {i}})},
            {{"axis", std::int64_t{0}}}));
    }
    d.output(merged(d, attend(d, a, Scale::Both)));
    EXPECT_EQ(kinds(checked(d)), projected(1, 3)) << spelling;
  }
}

TEST(Attention, Einsum) {
  Draft d(14);
  const Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
  std::string s = d.op("Einsum", {a.q, a.k}, {{"equation", std::string("bhid,bhjd->bhij")}});
  s = d.op("Softmax", {d.op("Mul", {s, d.scalar(0.5F)})}, {{"axis", std::int64_t{-1}}});
  d.output(merged(d, d.op("Einsum", {s, a.v}, {{"equation", std::string("bhij,bhjd->bhid")}})));
  EXPECT_EQ(kinds(checked(d)), projected(3, 0));
}

// torch.nn.MultiheadAttention: tokens first, heads folded into the batch, a probe as the query.
TEST(Attention, SequenceFirstPoolingWithAProbe) {
  for (const std::int64_t batch : {1, 2}) {
    Draft d(14);
    const std::string x = d.op("Tanh", {d.input("x", {batch, kTokens, kWidth})});
    const std::string probe =
        d.op("Expand", {d.constant(drawn({1, 1, kWidth}, 7)), d.ints({batch, 1, kWidth})});
    const std::string query = linear(d, d.transpose(probe, {1, 0, 2}), kWidth, kWidth, 1);
    const std::string kv = linear(d, d.transpose(x, {1, 0, 2}), kWidth, 2 * kWidth, 3);
    const auto two = d.many(2, "Split", {kv, d.ints({kWidth, kWidth})}, {{"axis", std::int64_t{2}}});
    const auto folded = [&](const std::string& v, std::int64_t rows) {
      return d.transpose(d.reshape(v, {rows, batch * kHeads, kHead}), {1, 0, 2});
    };
    const std::string q = d.op("Mul", {folded(query, 1), d.scalar(0.5F)});
    const std::string s = d.op("MatMul", {q, d.transpose(folded(two[0], kTokens), {0, 2, 1})});
    const std::string w = d.op("Softmax", {s}, {{"axis", std::int64_t{-1}}});
    d.op("ReduceMean", {w}, {{"axes", Ints{1}}});  // need_weights, read by nobody
    const std::string y = d.op("MatMul", {w, folded(two[1], kTokens)});
    const std::string rows = d.reshape(d.transpose(y, {1, 0, 2}), {batch, kWidth});
    d.output(linear(d, rows, kWidth, kWidth, 5));
    const Program p = checked(d);
    EXPECT_EQ(kinds(p).at("attention"), 1);
    EXPECT_EQ(kinds(p).at("split_heads"), 2);
    EXPECT_EQ(kinds(p).at("merge_heads"), 1);
    EXPECT_FALSE(kinds(p).contains("reduce"));
    EXPECT_FLOAT_EQ(scale_of(p), 1.0F);  // the probe is constant, so its scale is in it
  }
}

TEST(Attention, OperatorsOfItsOwn) {
  const auto run = [](const std::string& op, const std::string& domain, Attributes attributes,
                      std::size_t inputs, const char* refused = nullptr) {
    Draft d(23);
    const std::string x = d.input("x", {kBatch, kTokens, kWidth});
    std::vector<std::string> in;
    if (op == "Attention" && !domain.empty()) {
      in = {x, d.constant(drawn({kWidth, 3 * kWidth}, 1)), d.constant(drawn({3 * kWidth}, 2))};
    } else {
      for (unsigned i = 0; i < 3; ++i) in.push_back(linear(d, x, kWidth, kWidth, 2 * i));
      if (inputs > 3) in.push_back(d.constant(drawn({3 * kWidth}, 2)));
    }
    d.output(d.op(op, in, std::move(attributes), domain));
    const Program p = checked(d);
    EXPECT_EQ(kinds(p).count("attention"), refused == nullptr ? 1U : 0U);
    if (refused != nullptr) {
      EXPECT_EQ(p.notes.size(), 1U);
      EXPECT_NE(p.notes.at(0).find(refused), std::string::npos) << p.notes[0];
    }
  };
  const Attributes heads{{"q_num_heads", kHeads}, {"kv_num_heads", kHeads}}, count{{"num_heads", kHeads}};
  run("Attention", "", heads, 3);
  run("MultiHeadAttention", "com.microsoft", count, 3);
  run("MultiHeadAttention", "com.microsoft", count, 4);
  run("Attention", "com.microsoft", count, 3);
  Attributes causal = heads;
  causal["is_causal"] = std::int64_t{1};
  run("Attention", "", causal, 3, "causal");
}

// x [batch, heads, tokens, width] rotated; cos and sin of all tokens.
struct Rotary {
  bool interleaved = false, repeated = true, wrong_partner = false;
};
std::string rotated(Draft& d, const std::string& x, std::int64_t tokens, const Rotary& r) {
  const std::string c = d.constant(drawn({1, 1, tokens, kHead}, 21)),
                    s = d.constant(drawn({tokens, kHead}, 22));
  std::string turned;
  if (r.interleaved) {
    const std::string pairs = d.reshape(x, {kBatch, kHeads, tokens, kHead / 2, 2});
    const auto two = d.many(2, "Split", {pairs}, {{"axis", std::int64_t{-1}}});
    turned = d.op("Concat", {d.op("Neg", {two[1]}), two[0]}, {{"axis", std::int64_t{-1}}});
    turned = d.reshape(turned, {kBatch, kHeads, tokens, kHead});
  } else {
    const auto half = [&](std::int64_t start) {
      return d.op("Slice", {x, d.ints({start}), d.ints({start + kHead / 2}), d.ints({3})});
    };
    const std::string second = half(r.wrong_partner ? 0 : kHead / 2);
    turned = d.op("Concat", {d.op("Neg", {second}), half(0)}, {{"axis", std::int64_t{-1}}});
  }
  return d.op("Add", {d.op("Mul", {x, c}), d.op("Mul", {turned, s})});
}

TEST(Rotary, InBothFormsBeforeAttention) {
  for (const bool interleaved : {false, true}) {
    Draft d(14);
    Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
    a.q = rotated(d, a.q, kTokens, {.interleaved = interleaved});
    a.k = rotated(d, a.k, kTokens, {.interleaved = interleaved});
    d.output(merged(d, attend(d, a, Scale::Scores)));
    const Program p = checked(d);
    Kinds expected = projected(3, 0);
    expected["rope"] = 2;
    EXPECT_EQ(kinds(p), expected);
    for (const graph::Op& op : p.graph.ops)
      if (op.kind == graph::OpKind::Rope) {
        EXPECT_EQ(op.interleaved, interleaved);
      }
  }
}

TEST(Rotary, ClassRowsStay) {
  Draft d(14);
  Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
  const auto rest = [&](const std::string& x) {
    const std::string first = d.op("Slice", {x, d.ints({0}), d.ints({1}), d.ints({2})});
    const std::string others = d.op("Slice", {x, d.ints({1}), d.ints({kTokens}), d.ints({2})});
    return d.op("Concat", {first, rotated(d, others, kTokens - 1, {.interleaved = true})},
                {{"axis", std::int64_t{2}}});
  };
  a.q = rest(a.q);
  a.k = rest(a.k);
  d.output(merged(d, attend(d, a, Scale::Scores)));
  Kinds expected = projected(3, 0);
  expected["rope"] = 2;
  EXPECT_EQ(kinds(checked(d)), expected);
}

TEST(Rotary, NearMiss) {
  Draft d(14);
  Qkv a = three_products(d, d.input("x", {kBatch, kTokens, kWidth}));
  d.output(rotated(d, a.q, kTokens, {.wrong_partner = true}));
  EXPECT_FALSE(kinds(checked(d)).contains("rope"));
}

TEST(Rotary, OperatorOfItsOwn) {
  for (const bool positions : {false, true}) {
    Draft d(23);
    const std::string x = d.op("Tanh", {d.input("x", {kBatch, kHeads, kTokens, kHead})});
    const Dims cache = positions ? Dims{9, kHead / 2} : Dims{kBatch, kTokens, kHead / 2};
    std::vector<std::string> in{x, d.constant(drawn(cache, 1)), d.constant(drawn(cache, 2))};
    if (positions)
      in.push_back(d.constant({.element = Element::Int64,
                               .dims = {kBatch, kTokens},
                               .floats = {},
                               .ints = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}}));
    d.output(d.op("RotaryEmbedding", in, {{"interleaved", std::int64_t{1}}}));
    EXPECT_EQ(kinds(checked(d)).at("rope"), positions ? 1 : 2);  // one table for both images, or two
  }
}

}  // namespace
}  // namespace tw::onnx
