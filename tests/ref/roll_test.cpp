// Rolled layers compute what the written ones do.
#include "graph/roll.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ref/ref.h"

namespace tw::graph {
namespace {

std::vector<float> drawn(const std::string& name, const Shape& shape) {
  std::mt19937 rng(static_cast<unsigned>(std::hash<std::string>{}(name)));
  std::vector<float> out(tensor::elements(shape));
  for (float& v : out) v = static_cast<float>(rng() % 2001) / 2000.0F - 0.5F;
  return out;
}

std::vector<std::vector<float>> evaluate(const Graph& graph) {
  std::map<std::string, std::vector<float>> data;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::Host || v.kind == ValueKind::Parameter) data[v.name] = drawn(v.name, v.shape);
  return ref::run(graph, [&](const std::string& name) -> const std::vector<float>& { return data.at(name); });
}

// Counts of the Repeats that rolling makes; results must not change.
std::vector<std::uint32_t> rolled(const Graph& graph) {
  const Graph out = roll_layers(graph);
  EXPECT_TRUE(verify(out).empty());
  EXPECT_EQ(evaluate(out), evaluate(graph));
  std::vector<std::uint32_t> counts;
  for (const Repeat& r : out.repeats) counts.push_back(r.count);
  return counts;
}

constexpr std::uint32_t kWidth = 6;

ValueId matrix(Builder& b, const std::string& name) { return b.parameter(name, {kWidth, kWidth}); }

// x + (norm(x) A) B
ValueId layer(Builder& b, const std::string& path, ValueId x, float epsilon = 1e-6F) {
  const ValueId n = b.layer_norm(path + ".norm", x, b.parameter(path + ".scale", {kWidth}),
                                 b.parameter(path + ".bias", {kWidth}), epsilon);
  const ValueId y =
      b.gemm(path + ".down", b.gemm(path + ".up", n, matrix(b, path + ".a")), matrix(b, path + ".b"));
  return b.add(path + ".sum", x, y);
}
std::string numbered(std::uint32_t i) { return fmt::format("layers.{}", i); }
ValueId start(Builder& b) { return b.gemm("in", b.host("x", {4, kWidth}), matrix(b, "in.weight")); }

TEST(Roll, EqualLayersBecomeOneRepeat) {
  Builder b("test");
  ValueId x = start(b);
  for (std::uint32_t i = 0; i < 11; ++i) x = layer(b, numbered(i), x);
  const Graph graph = b.finish({b.gemm("out", x, matrix(b, "out.weight"))});
  EXPECT_EQ(rolled(graph), std::vector<std::uint32_t>{11});
  const Graph out = roll_layers(graph);
  ASSERT_EQ(out.repeats.size(), 1U);
  EXPECT_EQ(out.repeats[0].body.size(), 4U);
  EXPECT_EQ(out.repeats[0].body[0].path, "layers.{}.norm");
  EXPECT_EQ(out.sequences.at(0).name, "layers.{}.scale");
  EXPECT_EQ(out.repeats[0].carried_in.size(), 1U);
  EXPECT_EQ(out.ops.size(), 3U);
}

TEST(Roll, ALayerThatDiffersStaysAsItIs) {
  Builder b("test");
  ValueId x = start(b);
  for (std::uint32_t i = 0; i < 5; ++i) x = layer(b, numbered(i), x, i == 3 ? 1e-5F : 1e-6F);
  EXPECT_EQ(rolled(b.finish({x})), std::vector<std::uint32_t>{3});
}

TEST(Roll, StagesBecomeRepeatsOfTheirOwn) {
  Builder b("test");
  ValueId x = start(b);
  for (std::uint32_t i = 0; i < 3; ++i) x = layer(b, fmt::format("first.{}", i), x);
  x = b.unary("between", numeric::Unary::Tanh, x);
  for (std::uint32_t i = 0; i < 2; ++i) x = layer(b, fmt::format("second.{}", i), x, 1e-3F);
  EXPECT_EQ(rolled(b.finish({x})), (std::vector<std::uint32_t>{3, 2}));
}

TEST(Roll, ResultsReadInTheMiddleEndARepeat) {
  Builder b("test");
  ValueId x = start(b), tapped = x;
  for (std::uint32_t i = 0; i < 6; ++i) {
    x = layer(b, numbered(i), x);
    if (i == 3) tapped = x;
  }
  EXPECT_EQ(rolled(b.finish({b.add("sum", x, tapped)})), (std::vector<std::uint32_t>{4, 2}));
  Builder inside("test");
  x = start(inside);
  ValueId up = x;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::string path = numbered(i);
    up = inside.gemm(path + ".up", x, matrix(inside, path + ".a"));
    x = inside.add(path + ".sum", x, inside.gemm(path + ".down", up, matrix(inside, path + ".b")));
  }
  EXPECT_EQ(rolled(inside.finish({x, up})), std::vector<std::uint32_t>{3});  // `up` of the last is read
}

TEST(Roll, WhatAllLayersReadIsInvariantAndWhatSomeShareIsNotRolled) {
  for (const bool all : {true, false}) {
    Builder b("test");
    ValueId x = start(b);
    const ValueId table = b.unary("table", numeric::Unary::Tanh, b.host("table.in", {4, kWidth}));
    const ValueId shared = matrix(b, "shared");
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::string path = numbered(i);
      const ValueId w = all || i < 3 ? shared : matrix(b, path + ".own");
      x = b.add(path + ".sum", b.gemm(path + ".one", b.gemm(path + ".two", x, w), matrix(b, path + ".b")),
                table);
    }
    EXPECT_EQ(rolled(b.finish({x})), std::vector<std::uint32_t>{all ? 4U : 3U});
  }
}

TEST(Roll, TwoStreamsAreCarried) {
  Builder b("test");
  ValueId x = start(b), y = b.unary("other", numeric::Unary::Tanh, x);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::string path = numbered(i);
    const ValueId from_x = b.gemm(path + ".to_y", x, matrix(b, path + ".a"));
    const ValueId from_y = b.gemm(path + ".to_x", y, matrix(b, path + ".b"));
    x = b.add(path + ".x", x, from_y);
    y = b.add(path + ".y", y, from_x);
  }
  EXPECT_EQ(rolled(b.finish({x, y})), std::vector<std::uint32_t>{4});
}

TEST(Roll, OneProductIsNoLayer) {
  Builder b("test");
  ValueId x = start(b);
  for (std::uint32_t i = 0; i < 4; ++i)
    x = b.unary(numbered(i) + ".tanh", numeric::Unary::Tanh,
                b.gemm(numbered(i), x, matrix(b, numbered(i) + ".w")));
  // Two of them are one, with two products.
  EXPECT_EQ(rolled(b.finish({x})), std::vector<std::uint32_t>{2});
}

// Layers of several kinds in any order, with taps: whatever is rolled, the results stay.
TEST(Roll, AnyOrderOfLayersKeepsItsResults) {
  std::size_t repeats = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    Builder b("test");
    std::vector<ValueId> results{start(b)};
    std::uint32_t next = 0;
    while (next < 14) {
      const std::uint32_t count = 1 + rng() % 4, kind = rng() % 3;
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::string path = numbered(next++);
        const ValueId x = rng() % 12 == 0 ? results[rng() % results.size()] : results.back();
        if (kind == 0) results.push_back(layer(b, path, x));
        if (kind == 1) results.push_back(layer(b, path, b.unary(path + ".tanh", numeric::Unary::Tanh, x)));
        if (kind == 2) results.push_back(b.add(path, x, results[results.size() / 2]));
      }
    }
    std::vector<ValueId> outputs{results.back()};
    if (rng() % 2 == 0) outputs.push_back(results[rng() % results.size()]);
    repeats += rolled(b.finish(outputs)).size();
  }
  EXPECT_GT(repeats, 100U);
}

}  // namespace
}  // namespace tw::graph
