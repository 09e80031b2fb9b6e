#include "graph/graph.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tw::graph {
namespace {

using ::testing::HasSubstr;

TEST(Builder, InfersTheShapesOfEveryOperation) {
  Builder b("test");
  const ValueId x = b.host("x", {2, 5, 12});
  const ValueId w = b.parameter("w", {12, 24});
  const ValueId y = b.gemm("gemm", x, w);
  const ValueId bias = b.add("bias", y, b.parameter("b", {1, 1, 24}));
  const ValueId g = b.gelu("gelu", bias);
  const ValueId n = b.layer_norm("norm", g, b.parameter("s", {1, 1, 24}), b.parameter("t", {24}), 1e-6F);
  const ValueId q = b.slice("q", n, 2, 8, 8);
  const ValueId heads = b.split_heads("split", q, 4);
  const ValueId a = b.attention("attention", heads, heads, heads, 0.5F);
  const ValueId m = b.merge_heads("merge", a, 4);
  const Graph graph = b.finish({m});
  EXPECT_EQ(graph.at(y).shape, (Shape{2, 5, 24}));
  EXPECT_EQ(graph.at(bias).shape, (Shape{2, 5, 24}));
  EXPECT_EQ(graph.at(g).shape, (Shape{2, 5, 24}));
  EXPECT_EQ(graph.at(n).shape, (Shape{2, 5, 24}));
  EXPECT_EQ(graph.at(q).shape, (Shape{2, 5, 8}));
  EXPECT_EQ(graph.at(heads).shape, (Shape{8, 5, 2}));
  EXPECT_EQ(graph.at(a).shape, (Shape{8, 5, 2}));
  EXPECT_EQ(graph.at(m).shape, (Shape{2, 5, 8}));
  EXPECT_TRUE(verify(graph).empty());
}

// Every shape rule of compiler.md 1.2 has a case that breaks it; the message names the operation.
template <class F>
void expect_shape_error(F&& build, const std::string& path) {
  Builder b("test");
  try {
    build(b);
    FAIL() << path << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::Shape);
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

TEST(Builder, RejectsBrokenShapes) {
  const auto in = [](Builder& b, const char* name, Shape shape) { return b.host(name, std::move(shape)); };
  expect_shape_error([&](Builder& b) { b.gemm("g1", in(b, "x", {2, 3}), in(b, "w", {4, 5})); }, "g1");
  expect_shape_error([&](Builder& b) { b.gemm("g2", in(b, "x", {3}), in(b, "w", {3, 5})); }, "g2");
  expect_shape_error([&](Builder& b) { b.add("a1", in(b, "x", {2, 3}), in(b, "w", {2})); }, "a1");
  expect_shape_error(
      [&](Builder& b) { b.layer_norm("n1", in(b, "x", {2, 3}), in(b, "s", {3}), in(b, "t", {2}), 1e-6F); },
      "n1");
  expect_shape_error(
      [&](Builder& b) { b.layer_norm("n2", in(b, "x", {2, 3}), in(b, "s", {2, 3}), in(b, "t", {3}), 1e-6F); },
      "n2");
  expect_shape_error([&](Builder& b) { b.split_heads("s1", in(b, "x", {1, 2, 7}), 2); }, "s1");
  expect_shape_error([&](Builder& b) { b.merge_heads("m1", in(b, "x", {3, 2, 7}), 2); }, "m1");
  expect_shape_error([&](Builder& b) { b.slice("l1", in(b, "x", {4, 4}), 1, 3, 2); }, "l1");
  expect_shape_error([&](Builder& b) { b.slice("l2", in(b, "x", {4, 4}), 1, 3, 0); }, "l2");
  expect_shape_error([&](Builder& b) { b.slice("l3", in(b, "x", {4, 4}), 1, 2, 0xFFFFFFFF); }, "l3");
  expect_shape_error(
      [&](Builder& b) {
        b.attention("t1", in(b, "q", {1, 2, 4}), in(b, "k", {1, 3, 5}), in(b, "v", {1, 3, 4}), 1.0F);
      },
      "t1");
  expect_shape_error(
      [&](Builder& b) {
        b.attention("t2", in(b, "q", {1, 2, 4}), in(b, "k", {1, 3, 4}), in(b, "v", {1, 2, 4}), 1.0F);
      },
      "t2");
  expect_shape_error(
      [&](Builder& b) {
        b.attention("t3", in(b, "q", {1, 2, 4}), in(b, "k", {1, 3, 4}), in(b, "v", {1, 3, 4}), 0.0F);
      },
      "t3");
  expect_shape_error([&](Builder& b) { in(b, "empty", {4, 0}); }, "empty");
  expect_shape_error([&](Builder& b) { in(b, "huge", {65536, 65536, 65536}); }, "huge");
}

Graph repeated(std::uint32_t count, std::size_t members, bool wrong_yield = false) {
  Builder b("test");
  const ValueId x = b.host("x", {3, 4});
  std::vector<ValueId> weights;
  for (std::size_t i = 0; i < members; ++i) weights.push_back(b.parameter(fmt::format("w{}", i), {4, 4}));
  const std::uint32_t sequence = b.sequence("w{}", weights);
  const ValueId bias = b.parameter("b", {4});
  const auto arguments = b.begin_repeat("loop", count, {x}, {bias}, {sequence});
  const ValueId y = b.gemm("gemm", arguments[0], arguments[2]);
  const ValueId z = b.add("bias", y, arguments[1]);
  const auto out = b.end_repeat({wrong_yield ? b.slice("cut", z, 0, 0, 2) : z});
  return b.finish({out[0]});
}

TEST(Builder, RepeatHasCarriedInvariantAndIteratedArguments) {
  const Graph graph = repeated(3, 4);
  EXPECT_TRUE(verify(graph).empty());
  ASSERT_EQ(graph.repeats.size(), 1U);
  EXPECT_EQ(graph.repeats[0].arguments.size(), 3U);
  EXPECT_EQ(graph.at(graph.repeats[0].arguments[0]).shape, (Shape{3, 4}));
  EXPECT_EQ(graph.at(graph.repeats[0].arguments[1]).shape, (Shape{4}));
  EXPECT_EQ(graph.at(graph.repeats[0].arguments[2]).shape, (Shape{4, 4}));
  EXPECT_EQ(graph.ops.size(), 1U);
  EXPECT_EQ(graph.repeats[0].body.size(), 2U);
}

TEST(Builder, RejectsBrokenRepeats) {
  EXPECT_THROW(repeated(0, 2), Error);
  EXPECT_THROW(repeated(3, 2), Error);
  EXPECT_THROW(repeated(2, 2, true), Error);
}

TEST(Verify, FindsUsesBeforeDefinitionsAndForeignValues) {
  Graph good = repeated(2, 2);
  Graph swapped = good;
  std::swap(swapped.repeats[0].body[0], swapped.repeats[0].body[1]);
  EXPECT_FALSE(verify(swapped).empty());

  Graph captured = good;  // a body may use its arguments only
  captured.repeats[0].body[1].inputs[1] = captured.repeats[0].invariant_in[0];
  EXPECT_FALSE(verify(captured).empty());

  Graph escaped = good;  // a value of a body is visible outside through its yield only
  escaped.outputs[0] = escaped.repeats[0].yields[0];
  EXPECT_FALSE(verify(escaped).empty());

  Graph unknown = good;
  unknown.outputs[0] = ValueId(1000);
  EXPECT_FALSE(verify(unknown).empty());

  Graph twice = good;
  twice.repeats[0].body[1].results = twice.repeats[0].body[0].results;
  EXPECT_FALSE(verify(twice).empty());

  Graph shape = good;
  shape.values[shape.repeats[0].body[0].results[0].value].shape = {4, 4};
  EXPECT_FALSE(verify(shape).empty());

  Graph names = good;
  names.values[1].name = names.values[2].name;
  EXPECT_FALSE(verify(names).empty());
}

TEST(Print, IsReadableAndComplete) {
  EXPECT_EQ(print(repeated(2, 2)),
            "graph \"test\"\n"
            "  %0 = host \"x\" [3,4]\n"
            "  %1 = parameter \"w0\" [4,4]\n"
            "  %2 = parameter \"w1\" [4,4]\n"
            "  %3 = parameter \"b\" [4]\n"
            "  sequence \"w{}\" (%1, %2)\n"
            "  %9 = repeat 2 carried(%0) invariant(%3) \"loop\"\n"
            "    %4 = argument \"loop/carried0\" [3,4]\n"
            "    %5 = argument \"loop/invariant0\" [4]\n"
            "    %6 = argument \"loop/w{}\" [4,4]\n"
            "    %7 = gemm %4, %6 \"gemm\" [3,4]\n"
            "    %8 = add %7, %5 \"bias\" [3,4]\n"
            "    yield %8\n"
            "  output %9\n");
}

}  // namespace
}  // namespace tw::graph
