#include "ref/ref.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace tw::ref {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Op;
using graph::OpKind;
using tensor::Shape;
using Doubles = std::vector<double>;

// A second, slow reading of compiler.md 1.2 in double precision: one element at a time by coordinates.
class Oracle {
 public:
  Oracle(const Graph& g, std::map<std::string, std::vector<float>> inputs) : g_(g), values_(g.values.size()) {
    for (std::size_t i = 0; i < g.values.size(); ++i)
      if (inputs.contains(g.values[i].name)) {
        const auto& data = inputs.at(g.values[i].name);
        values_[i] = Doubles(data.begin(), data.end());
      }
  }
  Doubles run() {
    for (const Op& op : g_.ops) {
      if (op.kind != OpKind::Repeat) {
        values_[op.results[0].value] = eval(op);
        continue;
      }
      const graph::Repeat& r = g_.repeats[op.repeat];
      std::vector<Doubles> carried;
      for (ValueId id : r.carried_in) carried.push_back(values_[id.value]);
      for (std::uint32_t it = 0; it < r.count; ++it) {
        std::size_t a = 0;
        for (const Doubles& c : carried) values_[r.arguments[a++].value] = c;
        for (ValueId id : r.invariant_in) values_[r.arguments[a++].value] = values_[id.value];
        for (std::uint32_t s : r.iterated)
          values_[r.arguments[a++].value] = values_[g_.sequences[s].members[it].value];
        for (const Op& inner : r.body) values_[inner.results[0].value] = eval(inner);
        for (std::size_t c = 0; c < carried.size(); ++c) carried[c] = values_[r.yields[c].value];
      }
      for (std::size_t c = 0; c < carried.size(); ++c) values_[op.results[c].value] = carried[c];
    }
    return values_[g_.outputs[0].value];
  }

 private:
  static std::size_t flat(const Shape& shape, const std::vector<std::size_t>& coord) {
    std::size_t index = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) index = index * shape[i] + (shape[i] == 1 ? 0 : coord[i]);
    return index;
  }
  static std::vector<std::size_t> unflat(const Shape& shape, std::size_t index) {
    std::vector<std::size_t> coord(shape.size());
    for (std::size_t i = shape.size(); i-- > 0; index /= shape[i]) coord[i] = index % shape[i];
    return coord;
  }
  // Value at the last coordinates that the shape has (numpy alignment).
  static double aligned(const Doubles& v, const Shape& shape, const std::vector<std::size_t>& coord) {
    return v[flat(shape, {coord.end() - static_cast<std::ptrdiff_t>(shape.size()), coord.end()})];
  }

  Doubles eval(const Op& op) {
    const Shape& out = g_.at(op.results[0]).shape;
    Doubles y(tensor::elements(out));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = element(op, unflat(out, i));
    return y;
  }
  const Shape& shape(const Op& op, std::size_t i) { return g_.at(op.inputs[i]).shape; }
  const Doubles& in(const Op& op, std::size_t i) { return values_[op.inputs[i].value]; }

  double element(const Op& op, std::vector<std::size_t> c) {
    const std::size_t last = c.size() - 1;
    switch (op.kind) {
      case OpKind::Gemm: {
        double sum = 0;
        for (std::size_t k = 0; k < shape(op, 0).back(); ++k) {
          auto left = c, right = c;
          left[last] = k;
          right[last - 1] = k;
          sum += aligned(in(op, 0), shape(op, 0), left) * aligned(in(op, 1), shape(op, 1), right);
        }
        return sum;
      }
      case OpKind::Gelu: {
        const double x = aligned(in(op, 0), shape(op, 0), c);
        return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
      }
      case OpKind::LayerNorm: {
        const double n = shape(op, 0).back();
        double mean = 0, variance = 0;
        auto at = [&](std::size_t i) {
          auto p = c;
          p[last] = i;
          return aligned(in(op, 0), shape(op, 0), p);
        };
        for (std::size_t i = 0; i < n; ++i) mean += at(i) / n;
        for (std::size_t i = 0; i < n; ++i) variance += (at(i) - mean) * (at(i) - mean) / n;
        return (at(c[last]) - mean) / std::sqrt(variance + op.epsilon) * in(op, 1)[c[last]] +
               in(op, 2)[c[last]];
      }
      case OpKind::Add:
        return aligned(in(op, 0), shape(op, 0), c) + aligned(in(op, 1), shape(op, 1), c);
      case OpKind::SplitHeads:
        return in(op, 0)[flat(
            shape(op, 0), {c[0] / op.heads, c[1], c[0] % op.heads * (shape(op, 0)[2] / op.heads) + c[2]})];
      case OpKind::MergeHeads: {
        const std::size_t width = shape(op, 0)[2];
        return in(op, 0)[flat(shape(op, 0), {c[0] * op.heads + c[2] / width, c[1], c[2] % width})];
      }
      case OpKind::Slice:
        c[op.axis] = op.start + c[op.axis] * op.step;
        return in(op, 0)[flat(shape(op, 0), c)];
      case OpKind::Rope: {
        const std::size_t width = c[last], half = shape(op, 0)[2] / 2;
        const bool first = op.interleaved ? width % 2 == 0 : width < half;
        auto other = c;
        other[last] = op.interleaved ? width ^ 1 : (width + half) % (2 * half);
        const double cosine = in(op, 1)[c[1] * 2 * half + width], sine = in(op, 2)[c[1] * 2 * half + width];
        return in(op, 0)[flat(shape(op, 0), c)] * cosine +
               (first ? -1 : 1) * in(op, 0)[flat(shape(op, 0), other)] * sine;
      }
      case OpKind::Unary:
        return numeric::evaluate(op.unary, aligned(in(op, 0), shape(op, 0), c));
      case OpKind::Binary:
        return numeric::evaluate(op.binary, aligned(in(op, 0), shape(op, 0), c),
                                 aligned(in(op, 1), shape(op, 1), c));
      case OpKind::Softmax: {
        double sum = 0;
        const double own = in(op, 0)[flat(shape(op, 0), c)];
        for (std::size_t i = 0; i < shape(op, 0).back(); ++i) {
          c[last] = i;
          sum += std::exp(in(op, 0)[flat(shape(op, 0), c)] - own);
        }
        return 1 / sum;
      }
      case OpKind::Reduce: {
        const double n = shape(op, 0).back();
        double sum = 0, largest = -INFINITY;
        for (std::size_t i = 0; i < n; ++i) {
          c[last] = i;
          const double x = in(op, 0)[flat(shape(op, 0), c)];
          sum += x;
          largest = std::max(largest, x);
        }
        return op.reduction == numeric::Reduction::Maximum ? largest
               : op.reduction == numeric::Reduction::Mean  ? sum / n
                                                           : sum;
      }
      case OpKind::Reshape: {
        std::size_t at = flat(op.shape, c);
        std::vector<std::size_t> from(shape(op, 0).size());
        for (std::size_t axis = from.size(); axis-- > 0; at /= shape(op, 0)[axis])
          from[axis] = at % shape(op, 0)[axis];
        return in(op, 0)[flat(shape(op, 0), from)];
      }
      case OpKind::Transpose: {
        auto from = c;
        for (std::size_t i = 0; i < c.size(); ++i) from[op.permutation[i]] = c[i];
        return in(op, 0)[flat(shape(op, 0), from)];
      }
      case OpKind::Expand:
        return aligned(in(op, 0), shape(op, 0), c);
      case OpKind::Concat: {
        std::size_t part = 0;
        while (c[op.axis] >= shape(op, part)[op.axis]) c[op.axis] -= shape(op, part++)[op.axis];
        return in(op, part)[flat(shape(op, part), c)];
      }
      case OpKind::Attention: {
        double sum = 0, value = 0;
        for (std::size_t k = 0; k < shape(op, 1)[1]; ++k) {
          double score = 0;
          for (std::size_t j = 0; j < shape(op, 0)[2]; ++j)
            score +=
                in(op, 0)[flat(shape(op, 0), {c[0], c[1], j})] * in(op, 1)[flat(shape(op, 1), {c[0], k, j})];
          const double weight = std::exp(score * op.scale);
          sum += weight;
          value += weight * in(op, 2)[flat(shape(op, 2), {c[0], k, c[2]})];
        }
        return value / sum;
      }
      case OpKind::Repeat:
        break;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  const Graph& g_;
  std::vector<Doubles> values_;
};

std::map<std::string, std::vector<float>> gaussian_inputs(const Graph& g, float deviation = 1.0F) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::map<std::string, std::vector<float>> out;
  for (const auto& value : g.values) {
    if (value.kind != graph::ValueKind::Host && value.kind != graph::ValueKind::Parameter) continue;
    auto& data = out[value.name];
    data.resize(tensor::elements(value.shape));
    for (float& x : data) x = normal(random);
  }
  return out;
}

void expect_equal(const Graph& g, float deviation = 1.0F, unsigned threads = 2) {
  const auto inputs = gaussian_inputs(g, deviation);
  Options options;
  options.threads = threads;
  const auto actual =
      run(g, [&](const std::string& name) -> const std::vector<float>& { return inputs.at(name); }, options);
  const Doubles expected = Oracle(g, inputs).run();
  ASSERT_EQ(actual.size(), 1U);
  ASSERT_EQ(actual[0].size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[0][i], expected[i], 2e-6 * (1 + std::abs(expected[i])) * deviation * 4) << i;
}

TEST(Reference, GemmWithSharedAndBatchedWeights) {
  for (const auto& [x, w] : std::vector<std::pair<Shape, Shape>>{{{3, 5}, {5, 7}},
                                                                 {{2, 3, 5}, {5, 7}},
                                                                 {{2, 3, 5}, {2, 5, 7}},
                                                                 {{3, 5}, {4, 5, 7}},
                                                                 {{2, 1, 3, 5}, {4, 5, 6}}}) {
    Builder b("test");
    const ValueId left = b.host("x", x), right = b.parameter("w", w);
    expect_equal(b.finish({b.gemm("gemm", left, right)}));
  }
}

TEST(Reference, GeluOverItsWholeRange) {
  for (float deviation : {0.01F, 1.0F, 30.0F}) {
    Builder b("test");
    const ValueId x = b.host("x", {7, 333});
    expect_equal(b.finish({b.gelu("gelu", x)}), deviation);
  }
}

TEST(Reference, LayerNormOfOddAndEvenWidths) {
  for (std::uint32_t width : {5U, 16U, 72U, 1152U}) {
    Builder b("test");
    const ValueId x = b.host("x", {2, width > 100 ? 1U : 9U, width});
    const ValueId scale = b.parameter("s", {1, 1, width}), bias = b.parameter("b", {width});
    expect_equal(b.finish({b.layer_norm("norm", x, scale, bias, 1e-6F)}));
  }
}

TEST(Reference, AddBroadcasts) {
  for (const auto& [x, y] : std::vector<std::pair<Shape, Shape>>{{{2, 3, 4}, {2, 3, 4}},
                                                                 {{2, 3, 4}, {1, 3, 4}},
                                                                 {{2, 3, 4}, {4}},
                                                                 {{2, 3, 4}, {2, 1, 4}},
                                                                 {{3, 1}, {2, 1, 4}},
                                                                 {{4}, {2, 3, 4}}}) {
    Builder b("test");
    const ValueId left = b.host("x", x), right = b.host("y", y);
    expect_equal(b.finish({b.add("add", left, right)}));
  }
}

TEST(Reference, HeadsSlicesAndAttention) {
  Builder b("test");
  const ValueId x = b.host("x", {2, 13, 36}), y = b.host("y", {2, 7, 12});
  const ValueId q = b.split_heads("q", b.slice("sq", x, 2, 4, 12), 3);
  const ValueId k = b.split_heads("k", y, 3), v = b.split_heads("v", b.host("v", {2, 7, 18}), 3);
  expect_equal(b.finish({b.merge_heads("m", b.attention("a", q, k, v, 0.5F), 3)}));
}

TEST(Reference, GeneralOperations) {
  const auto one = [](const char* name, auto&& make) {
    SCOPED_TRACE(name);
    Builder b("general");
    const ValueId x = b.host("x", {2, 5, 6}), y = b.host("y", {5, 1}), t = b.host("t", {5, 6});
    const ValueId root = b.add("use", b.add("both", x, y), t);
    expect_equal(b.finish({make(b, root, t)}));
  };
  one("unary", [](Builder& b, ValueId x, ValueId) { return b.unary("o", numeric::Unary::GeluErf, x); });
  one("binary",
      [](Builder& b, ValueId x, ValueId t) { return b.binary("o", numeric::Binary::Subtract, t, x); });
  one("softmax", [](Builder& b, ValueId x, ValueId) { return b.softmax("o", x); });
  for (const auto f : {numeric::Reduction::Sum, numeric::Reduction::Mean, numeric::Reduction::Maximum})
    one("reduce", [&](Builder& b, ValueId x, ValueId) { return b.reduce("o", f, x); });
  one("slice", [](Builder& b, ValueId x, ValueId) { return b.slice("o", x, 2, 1, 3, 2); });
  one("reshape", [](Builder& b, ValueId x, ValueId) { return b.reshape("o", x, {4, 15}); });
  one("transpose", [](Builder& b, ValueId x, ValueId) { return b.transpose("o", x, {2, 0, 1}); });
  one("expand", [](Builder& b, ValueId x, ValueId) { return b.expand("o", x, {3, 2, 5, 6}); });
  one("concat",
      [](Builder& b, ValueId x, ValueId) { return b.concat("o", {x, b.slice("s", x, 1, 2, 2), x}, 1); });
  for (const bool interleaved : {true, false})
    one("rope", [&](Builder& b, ValueId x, ValueId t) { return b.rope("o", x, t, t, interleaved); });
}

TEST(Reference, SliceOfAnInnerAxis) {
  Builder b("test");
  const ValueId x = b.host("x", {3, 5, 4});
  expect_equal(b.finish({b.slice("s", x, 1, 2, 2)}));
}

// Carried values rotate (y takes the role of x), one invariant, one sequence longer than the count.
TEST(Reference, RepeatCarriesValuesAndIteratesSequences) {
  Builder b("test");
  const ValueId x = b.host("x", {3, 4}), y = b.host("y", {3, 4}), bias = b.parameter("b", {4});
  std::vector<ValueId> weights;
  for (int i = 0; i < 4; ++i) weights.push_back(b.parameter(fmt::format("w{}", i), {4, 4}));
  const auto s = b.sequence("w{}", weights);
  const auto a = b.begin_repeat("loop", 3, {x, y}, {bias}, {s});
  const ValueId z = b.add("bias", b.gemm("gemm", a[0], a[3]), a[2]);
  const auto out = b.end_repeat({a[1], b.add("sum", z, a[1])});
  expect_equal(b.finish({b.add("last", b.gelu("gelu", out[0]), out[1])}), 0.5F);
}

TEST(Reference, CheckpointsNameTheIteration) {
  Builder b("test");
  const ValueId x = b.host("x", {2, 2});
  const auto a = b.begin_repeat("loop", 2, {x}, {}, {});
  const auto out = b.end_repeat({b.add("twice", a[0], a[0])});
  const Graph g = b.finish({b.gelu("gelu", out[0])});
  const std::vector<float> data{1, 2, 3, 4};
  std::vector<std::string> seen;
  Options options;
  options.checkpoint = [&](const std::string& path, std::uint32_t i, const std::vector<float>& values) {
    seen.push_back(fmt::format("{}{}:{}", path, i, static_cast<int>(values[0])));
  };
  run(g, [&](const std::string&) -> const std::vector<float>& { return data; }, options);
  EXPECT_EQ(seen, (std::vector<std::string>{"twice0:2", "twice1:4", "gelu0:3"}));
}

TEST(Reference, OperandsAreSeenAndReplaced) {
  Builder b("test");
  const ValueId x = b.host("x", {1, 2}), w = b.parameter("w", {2, 2});
  const auto a = b.begin_repeat("loop", 2, {x}, {w}, {});
  const Graph g = b.finish(b.end_repeat({b.gemm("gemm", a[0], a[1])}));
  const std::vector<float> data{1, 2}, weight{1, 0, 0, 1}, twice{2, 0, 0, 2};
  std::vector<float> seen;
  Options options;
  options.operands = [&](const Op& op, std::uint32_t iteration, Operands& in) {
    ASSERT_EQ(op.path, "gemm");
    ASSERT_EQ(in.size(), 2U);
    EXPECT_EQ(*in[1], weight);
    seen.push_back((*in[0])[0]);
    if (iteration == 0) in[1] = &twice;
  };
  const auto host = [&](const std::string& name) -> const std::vector<float>& {
    return name == "x" ? data : weight;
  };
  EXPECT_EQ(run(g, host, options)[0], (std::vector<float>{2, 4}));  // doubled once
  EXPECT_EQ(seen, (std::vector<float>{1, 2}));
}

TEST(Check, CosineIsTheMinimumOverEmbeddings) {
  const std::vector<float> a{1, 0, 0, 1}, b{2, 0, 1, 1};
  EXPECT_DOUBLE_EQ(minimum_cosine(a, a, 2), 1.0);
  EXPECT_DOUBLE_EQ(minimum_cosine(a, b, 2), 1.0 / std::sqrt(2.0));
  EXPECT_TRUE(std::isnan(minimum_cosine(std::vector<float>{0, 0}, std::vector<float>{1, 0}, 2)));
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(minimum_cosine(std::vector<float>{1, nan}, std::vector<float>{1, 0}, 2)));
  EXPECT_TRUE(
      std::isnan(minimum_cosine(std::vector<float>{1, inf, 1, 1}, std::vector<float>{1, 0, 1, 1}, 2)));
}

TEST(Check, MaximumErrorSeesEveryElement) {
  EXPECT_EQ(max_abs_error(std::vector<float>{1, 2, 3}, std::vector<float>{1, 2.5F, 3}), 0.5);
  EXPECT_TRUE(std::isinf(max_abs_error(std::vector<float>{1, std::nanf("")}, std::vector<float>{1, 0})));
}

TEST(Products, CountsGemmsAndAttention) {
  Builder b("test");
  const ValueId x = b.host("x", {2, 5, 8});
  std::vector<ValueId> weights{b.parameter("w0", {8, 8}), b.parameter("w1", {8, 8})};
  const auto a = b.begin_repeat("loop", 2, {x}, {}, {b.sequence("w{}", weights)});
  const ValueId h = b.split_heads("split", b.gemm("gemm", a[0], a[1]), 4);
  const auto out = b.end_repeat({b.merge_heads("merge", b.attention("attention", h, h, h, 1.0F), 4)});
  const auto extents = products(b.finish({out[0]}));
  ASSERT_EQ(extents.size(), 3U);
  auto expect = [&](std::size_t i, std::vector<std::uint32_t> e) {
    EXPECT_EQ((std::vector<std::uint32_t>{extents[i].m, extents[i].n, extents[i].k, extents[i].count}), e);
  };
  expect(0, {10, 8, 8, 2});
  EXPECT_EQ(extents[0].path, "gemm");
  EXPECT_EQ(extents[0].macs(), 10U * 8 * 8 * 2);
  expect(1, {5, 5, 2, 16});
  expect(2, {5, 2, 5, 16});
  EXPECT_GT(blas_seconds(extents, 2), 0.0);
}

}  // namespace
}  // namespace tw::ref
