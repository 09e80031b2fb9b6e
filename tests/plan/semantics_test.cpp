// Whether a plan computes its graph: the exact interpreter's outputs against a naive evaluation of the graph
// in double. Catches wrong coordinate maps, owners and orderings of steps, which verify() cannot see.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "graphs.h"
#include "plan/build.h"
#include "plan/exact.h"

namespace tw::plan {
namespace {

using Array = std::vector<double>;

struct Naive {
  const graph::Graph& graph;
  const std::function<const std::vector<float>&(const std::string&)>& host;
  std::map<std::uint32_t, Array> values;

  const Array& get(ValueId id) {
    auto found = values.find(id.value);
    if (found != values.end()) return found->second;
    const std::vector<float>& data = host(graph.at(id).name);
    return values[id.value] = Array(data.begin(), data.end());
  }
  const graph::Shape& shape(ValueId id) const { return graph.at(id).shape; }

  void run(const std::vector<graph::Op>& ops) {
    for (const graph::Op& op : ops) {
      if (op.kind == graph::OpKind::Repeat) {
        repeat(op);
      } else {
        values[op.results[0].value] = one(op);
      }
    }
  }

  void repeat(const graph::Op& op) {
    const graph::Repeat& r = graph.repeats[op.repeat];
    std::vector<Array> carried;
    for (const ValueId id : r.carried_in) carried.push_back(get(id));
    for (std::uint32_t i = 0; i < r.count; ++i) {
      std::size_t argument = 0;
      for (const Array& value : carried) values[r.arguments[argument++].value] = value;
      for (const ValueId id : r.invariant_in) values[r.arguments[argument++].value] = get(id);
      for (const std::uint32_t s : r.iterated) {
        values[r.arguments[argument++].value] = get(graph.sequences[s].members[i]);
      }
      run(r.body);
      for (std::size_t c = 0; c < carried.size(); ++c) carried[c] = get(r.yields[c]);
    }
    for (std::size_t c = 0; c < carried.size(); ++c) values[op.results[c].value] = carried[c];
  }

  Array one(const graph::Op& op) {
    const Array a = get(op.inputs[0]);
    const graph::Shape& in = shape(op.inputs[0]);
    switch (op.kind) {
      case graph::OpKind::Gemm:
        return gemm(a, in, get(op.inputs[1]), shape(op.inputs[1]).back());
      case graph::OpKind::Gelu: {
        Array out = a;
        for (double& x : out) x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        return out;
      }
      case graph::OpKind::LayerNorm:
        return norm(a, in.back(), get(op.inputs[1]), get(op.inputs[2]), op.epsilon);
      case graph::OpKind::Add: {
        Array out = a;
        const Array b = get(op.inputs[1]);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += b[i % b.size()];
        return out;
      }
      case graph::OpKind::Slice: {
        Array out;
        for (std::size_t i = 0; i < a.size(); ++i) {  // last axis only
          const std::size_t c = i % in.back();
          if (c >= op.start && c < op.start + op.length) out.push_back(a[i]);
        }
        return out;
      }
      case graph::OpKind::SplitHeads:
        return heads(a, in[0], in[1], op.heads, in[2] / op.heads, true);
      case graph::OpKind::MergeHeads:
        return heads(a, in[0] / op.heads, in[1], op.heads, in[2], false);
      case graph::OpKind::Attention:
        return attention(op, a);
      default:  // a Repeat; general operations have tests of their own
        break;
    }
    return {};
  }

  static Array gemm(const Array& a, const graph::Shape& in, const Array& w, std::size_t n) {
    const std::size_t k = in.back(), m = a.size() / k;
    Array out(m * n, 0);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t p = 0; p < k; ++p)
        for (std::size_t j = 0; j < n; ++j) out[i * n + j] += a[i * k + p] * w[p * n + j];
    return out;
  }
  static Array norm(const Array& a, std::size_t width, const Array& scale, const Array& bias,
                    double epsilon) {
    Array out = a;
    for (std::size_t row = 0; row < a.size(); row += width) {
      double mean = 0, var = 0;
      for (std::size_t i = 0; i < width; ++i) mean += a[row + i] / double(width);
      for (std::size_t i = 0; i < width; ++i)
        var += (a[row + i] - mean) * (a[row + i] - mean) / double(width);
      for (std::size_t i = 0; i < width; ++i)
        out[row + i] = (a[row + i] - mean) / std::sqrt(var + epsilon) * scale[i] + bias[i];
    }
    return out;
  }
  // [b, r, h, c] <-> [b, h, r, c]
  static Array heads(const Array& a, std::size_t b, std::size_t r, std::size_t h, std::size_t c, bool split) {
    Array out(a.size());
    for (std::size_t i = 0; i < b; ++i)
      for (std::size_t j = 0; j < r; ++j)
        for (std::size_t k = 0; k < h; ++k)
          for (std::size_t l = 0; l < c; ++l) {
            const std::size_t merged = ((i * r + j) * h + k) * c + l, apart = ((i * h + k) * r + j) * c + l;
            if (split) out[apart] = a[merged];
            if (!split) out[merged] = a[apart];
          }
    return out;
  }
  Array attention(const graph::Op& op, const Array& q) {
    const Array k = get(op.inputs[1]), v = get(op.inputs[2]);
    const graph::Shape &qs = shape(op.inputs[0]), &ks = shape(op.inputs[1]), &vs = shape(op.inputs[2]);
    Array out(std::size_t{qs[0]} * qs[1] * vs[2], 0);
    for (std::size_t s = 0; s < qs[0]; ++s)
      for (std::size_t r = 0; r < qs[1]; ++r) {
        Array e(ks[1]);
        double total = 0;
        for (std::size_t j = 0; j < ks[1]; ++j) {
          double dot = 0;
          for (std::size_t c = 0; c < qs[2]; ++c)
            dot += q[(s * qs[1] + r) * qs[2] + c] * k[(s * ks[1] + j) * qs[2] + c];
          total += e[j] = std::exp(dot * op.scale);
        }
        for (std::size_t j = 0; j < ks[1]; ++j)
          for (std::size_t c = 0; c < vs[2]; ++c)
            out[(s * qs[1] + r) * vs[2] + c] += e[j] / total * v[(s * ks[1] + j) * vs[2] + c];
      }
    return out;
  }
};

// Deterministic values of unit scale (weights smaller), by name.
class HostData {
 public:
  explicit HostData(const graph::Graph& graph) {
    for (const graph::Value& value : graph.values) {
      if (value.kind != graph::ValueKind::Host && value.kind != graph::ValueKind::Parameter) continue;
      const bool matrix = value.shape.size() == 2;
      std::vector<float>& data = data_[value.name];
      std::uint32_t state = static_cast<std::uint32_t>(std::hash<std::string>{}(value.name)) | 1U;
      for (std::uint64_t i = 0; i < tensor::elements(value.shape); ++i) {
        state = state * 1664525U + 1013904223U;
        const float unit = static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
        data.push_back(matrix ? unit * 1.7F / std::sqrt(static_cast<float>(value.shape[0])) : unit);
      }
    }
  }
  const std::vector<float>& operator()(const std::string& name) const { return data_.at(name); }

 private:
  std::map<std::string, std::vector<float>> data_;
};

void expect_computes(const graph::Graph& graph, const Options& options, double tolerance = 0.02) {
  Progress quiet;
  const Plan plan = build(c600(), graph, options, quiet);
  const HostData data(graph);
  const std::function<const std::vector<float>&(const std::string&)> host = std::cref(data);
  const std::vector<Values> got = run_exact(plan, host);
  Naive naive{graph, host, {}};
  naive.run(graph.ops);
  ASSERT_EQ(got.size(), graph.outputs.size());
  for (std::size_t o = 0; o < got.size(); ++o) {
    const Array want = naive.get(graph.outputs[o]);
    ASSERT_EQ(got[o].size(), want.size());
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += (got[o][i] - want[i]) * (got[o][i] - want[i]);
      norm += want[i] * want[i];
    }
    // F16 rounding all along stays far below this; a wrong map or a lost row is of order one.
    EXPECT_LT(std::sqrt(error / norm), tolerance) << "tiles " << options.tiles;
  }
}

TEST(Semantics, SmallTowerInF16) {
  plan_test::VitShape s{
      .batch = 2, .tokens = 9, .patch = 52, .width = 72, .hidden = 100, .heads = 2, .layers = 3};
  const graph::Graph graph = plan_test::Vit(s).build();
  for (const std::uint32_t tiles : {4U, 30U, 200U}) {
    for (const Policy policy : {Policy::Default, Policy::Capacity}) {
      expect_computes(graph, {.tiles = tiles, .precision = tensor::Precision::F16, .policy = policy});
    }
  }
}

// F8 operands, both cast orders; eight-bit rounding of every operand leaves a few per cent.
TEST(Semantics, SmallTowerInF8) {
  plan_test::VitShape s{
      .batch = 2, .tokens = 9, .patch = 52, .width = 72, .hidden = 100, .heads = 2, .layers = 2};
  const graph::Graph graph = plan_test::Vit(s).build();
  for (const Policy policy : {Policy::Default, Policy::Capacity}) {
    expect_computes(graph, {.tiles = 64, .precision = tensor::Precision::F8, .policy = policy}, 0.15);
  }
}

TEST(Semantics, ManyKeysAndOneHead) {
  plan_test::VitShape s{
      .batch = 1, .tokens = 150, .patch = 16, .width = 20, .hidden = 32, .heads = 1, .layers = 1};
  expect_computes(plan_test::Vit(s).build(), {.tiles = 40, .precision = tensor::Precision::F16});
}

// 448 x 144 padded keys are more than a block may hold: two blocks, merged online, the second a short one.
TEST(Semantics, KeysInTwoBlocks) {
  plan_test::VitShape s{
      .batch = 1, .tokens = 400, .patch = 16, .width = 144, .hidden = 32, .heads = 1, .layers = 1};
  expect_computes(plan_test::Vit(s).build(),
                  {.tiles = 60, .precision = tensor::Precision::F16, .policy = Policy::Capacity});
}

TEST(Semantics, SwappedAndLateCarriedValues) {
  graph::Builder b("repeat");
  const ValueId x = b.host("x", {1, 6, 32}), y = b.host("y", {1, 6, 32}), z = b.host("z", {1, 6, 32});
  const auto args = b.begin_repeat("loop", 3, {x, y}, {z}, {});
  const ValueId p = b.add("p", args[0], args[2]);
  const ValueId q = b.add("q", p, args[0]);
  const ValueId g = b.gelu("g", q);
  const auto out = b.end_repeat({args[1], b.add("r", g, args[1])});
  expect_computes(b.finish({out[0], out[1]}), {.tiles = 4, .precision = tensor::Precision::F16});
}

}  // namespace
}  // namespace tw::plan
