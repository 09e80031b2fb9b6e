#include "plan/build.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graphs.h"
#include "plan/cost.h"
#include "plan/gemm.h"

namespace tw::plan {
namespace {

using plan_test::Vit;
using plan_test::VitShape;
using tensor::Precision;

Plan planned(const graph::Graph& graph, const Options& options = {}) {
  Progress quiet;
  return build(c600(), graph, options, quiet);
}

std::string joined(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += problem + "\n";
  return text;
}

graph::Graph linear(std::uint32_t batch, std::uint32_t rows, std::uint32_t k, std::uint32_t n) {
  graph::Builder b("linear");
  return b.finish({plan_test::biased_gemm(b, "fc", b.host("x", {batch, rows, k}), k, n)});
}

VitShape small_siglip() {
  return {.batch = 1, .tokens = 4, .patch = 588, .width = 144, .hidden = 288, .heads = 2, .layers = 2};
}

template <class Action>
std::vector<const Action*> steps_of(const std::vector<Step>& steps) {
  std::vector<const Action*> found;
  for (const Step& step : steps) {
    if (const auto* action = std::get_if<Action>(&step.action)) found.push_back(action);
    if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
      for (const Action* inner : steps_of<Action>(repeat->body)) found.push_back(inner);
    }
  }
  return found;
}

std::size_t count_of(const Plan& plan, LocalKind kind) {
  const auto locals = steps_of<Local>(plan.steps);
  return static_cast<std::size_t>(
      std::ranges::count_if(locals, [&](const Local* l) { return l->kind == kind; }));
}

TEST(Build, LinearLayerVerifies) {
  for (const std::uint32_t tiles : {32U, 64U, 1472U}) {
    for (const Precision precision : {Precision::F8, Precision::F16}) {
      const Plan plan = planned(linear(1, 729, 588, 1152), {.tiles = tiles, .precision = precision});
      EXPECT_EQ(joined(verify(plan)), "") << tiles;
      EXPECT_GT(plan.estimated_cycles, 0);
    }
  }
}

TEST(Build, SmallSiglipVerifies) {
  const graph::Graph graph = Vit(small_siglip()).build();
  for (const std::uint32_t tiles : {2U, 16U, 1472U}) {
    for (const Precision precision : {Precision::F8, Precision::F16}) {
      for (const Policy policy : {Policy::Default, Policy::Capacity}) {
        const Plan plan = planned(graph, {.tiles = tiles, .precision = precision, .policy = policy});
        EXPECT_EQ(joined(verify(plan)), "") << tiles;
      }
    }
  }
}

TEST(Build, FullSizeSiglipAndPeVerify) {
  VitShape pe{
      .batch = 2, .tokens = 577, .patch = 588, .width = 1024, .hidden = 4096, .heads = 16, .layers = 24};
  VitShape siglip;
  siglip.layers = 27;
  for (const VitShape& shape : {siglip, pe}) {
    for (const Policy policy : {Policy::Default, Policy::Capacity}) {
      const Plan plan = planned(Vit(shape).build(), {.policy = policy});
      EXPECT_EQ(joined(verify(plan)), "");
      // Everything must fit beside the support reservation (compiler.md 6).
      EXPECT_LT(plan.estimated_tensor_bytes, 586960U - 49152U);
    }
  }
}

// 729 keys of 72 padded columns are 122,880 B; on a grid per product no tile holds more than a part of them.
TEST(Build, NoTileHoldsCompleteKeys) {
  VitShape siglip;
  siglip.batch = 2;
  const graph::Graph graph = Vit(siglip).build();
  const auto largest_right = [&](Attention attention) {
    const Plan plan = planned(graph, {.policy = Policy::Capacity, .attention = attention});
    EXPECT_EQ(joined(verify(plan)), "");
    std::uint64_t most = 0;
    for (const Product* product : steps_of<Product>(plan.steps)) {
      if (plan.at(product->right).type.shape.size() < 3) continue;  // a dense layer's
      most = std::max(most, tensor::ResolvedLayout(plan.at(product->right).type).max_shard_bytes());
    }
    return most;
  };
  EXPECT_LT(largest_right(Attention::Materialized), 64U * 1024);
  EXPECT_LT(largest_right(Attention::Auto), 64U * 1024);
  EXPECT_EQ(largest_right(Attention::Streaming), 64U * 80 * 2);
}

TEST(Build, SameResultForAnyThreadCount) {
  const graph::Graph graph = Vit(small_siglip()).build();
  const std::string one = print(planned(graph, {.tiles = 100, .threads = 1}));
  EXPECT_EQ(print(planned(graph, {.tiles = 100, .threads = 4})), one);
  EXPECT_EQ(print(planned(graph, {.tiles = 100, .threads = 1})), one);
}

TEST(Build, BiasAndGeluFuse) {
  const Plan plan = planned(Vit(small_siglip()).build());
  EXPECT_EQ(count_of(plan, LocalKind::BiasGelu), 2U);  // layer and MAP head
  EXPECT_EQ(count_of(plan, LocalKind::Gelu), 0U);
}

TEST(Build, CarriedValueIsUpdatedInPlace) {
  const Plan plan = planned(Vit(small_siglip()).build());
  std::uint32_t carried = UINT32_MAX;
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].role == Role::Carried) carried = i;
  }
  ASSERT_NE(carried, UINT32_MAX);
  const auto body = std::ranges::find_if(
      plan.steps, [](const Step& s) { return std::holds_alternative<Repeat>(s.action); });
  ASSERT_NE(body, plan.steps.end());
  const auto& steps = std::get<Repeat>(body->action).body;
  // Both residuals are written over the carried storage, so no copy stands at the end of the body.
  const auto* last = std::get_if<Local>(&steps.back().action);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->kind, LocalKind::Add);
  EXPECT_EQ(plan.storage_of(last->outputs[0]).value, carried);
}

TEST(Build, EveryOperationHasACheckpoint) {
  const graph::Graph graph = Vit(small_siglip()).build();
  std::set<std::string> wanted, found;
  const auto collect = [&](const std::vector<graph::Op>& ops) {
    for (const graph::Op& op : ops) {
      const bool view = op.kind == graph::OpKind::SplitHeads || op.kind == graph::OpKind::MergeHeads ||
                        op.kind == graph::OpKind::Slice || op.kind == graph::OpKind::Repeat;
      const bool fused = op.path == "layer.up.add" || op.path == "map.up.add";
      if (!view && !fused) wanted.insert(op.path);
    }
  };
  collect(graph.ops);
  collect(graph.repeats.at(0).body);
  const auto walk = [&](const auto& self, const std::vector<Step>& steps) -> void {
    for (const Step& step : steps) {
      if (step.checkpoint.valid()) found.insert(step.path);
      if (const auto* repeat = std::get_if<Repeat>(&step.action)) self(self, repeat->body);
    }
  };
  walk(walk, planned(graph).steps);
  EXPECT_EQ(found, wanted);
}

TEST(Build, SequencesHaveOneMemberPerIteration) {
  const Plan plan = planned(Vit(small_siglip()).build());
  const auto qkv =
      std::ranges::find_if(plan.tensors, [](const Tensor& t) { return t.name == "layer{}.qkv.weight"; });
  ASSERT_NE(qkv, plan.tensors.end());
  EXPECT_EQ(qkv->members, (std::vector<std::string>{"layer0.qkv.weight", "layer1.qkv.weight"}));
}

// A row stands on one tile; kernels count its elements in 20 bits.
TEST(Build, RowsLongerThanATileAreRefused) {
  for (const tensor::Shape& shape : {tensor::Shape{1, 3'000'000}, tensor::Shape{3'000'000},
                                     tensor::Shape{2, 1'048'576}, tensor::Shape{2, 1'048'577}}) {
    SCOPED_TRACE(tensor::to_string(shape));
    for (const bool sum : {true, false}) {
      graph::Builder b("long");
      const ValueId x = b.host("long.rows", shape);
      const graph::Graph graph = b.finish({sum ? b.add("f", x, x) : b.softmax("f", x)});
      try {
        planned(graph);
        if (shape.size() > 1 || !sum) {
          ADD_FAILURE() << "accepted";
        }
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::Contiguity);
        EXPECT_NE(std::string(e.what()).find("its part on one tile"), std::string::npos) << e.what();
      }
    }
  }
}

TEST(Build, RefusesWhatItCannotPlan) {
  graph::Builder b("x");
  const ValueId x = b.host("x", {9, 32, 32}), y = b.host("y", {32, 32});
  const graph::Graph dynamic = b.finish({b.gemm("product", x, y)});
  try {
    planned(dynamic, {.tiles = 8});
    FAIL() << "nine products of activations need nine tiles";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::UnsupportedOp);
    EXPECT_NE(std::string(error.what()).find("product"), std::string::npos);
  }
  try {
    planned(Vit(small_siglip()).build(), {.tiles = 1});  // two heads need two tiles
    FAIL() << "more streams than tiles";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::UnsupportedOp);
  }
  EXPECT_THROW(planned(Vit(small_siglip()).build(), {.tiles = 2000}), Error);
}

// A carried value that the body still reads after the yield's operator, two carried values that are swapped,
// and an invariant one.
TEST(Build, RepeatWithLateReadsAndSwapsVerifies) {
  graph::Builder b("repeat");
  const ValueId x = b.host("x", {1, 6, 32}), y = b.host("y", {1, 6, 32}), z = b.host("z", {1, 6, 32});
  const auto args = b.begin_repeat("loop", 3, {x, y}, {z}, {});
  const ValueId p = b.add("p", args[0], args[2]);
  const ValueId q = b.add("q", p, args[0]);
  const ValueId g = b.gelu("g", q);
  const auto out = b.end_repeat({args[1], b.add("r", g, args[1])});
  const Plan plan = planned(b.finish({out[0], out[1]}), {.tiles = 4});
  EXPECT_EQ(joined(verify(plan)), "");
  EXPECT_EQ(plan.outputs.size(), 2U);
}

RC_GTEST_PROP(BuildProperty, SmallGraphsVerify, ()) {
  VitShape s;
  s.heads = *rc::gen::inRange(1U, 4U);
  s.batch = *rc::gen::inRange(1U, 3U);
  const std::uint32_t head_width = 2 * *rc::gen::inRange(4U, 37U);
  s.width = s.heads * head_width;
  s.hidden = 2 * *rc::gen::inRange(8U, 150U);
  s.tokens = *rc::gen::inRange(1U, 140U);
  s.patch = 4 * *rc::gen::inRange(1U, 60U);
  s.layers = *rc::gen::inRange(1U, 3U);
  Options options;
  options.tiles = *rc::gen::inRange(s.batch * s.heads, 65U);
  options.precision = *rc::gen::element(Precision::F8, Precision::F16);
  options.policy = *rc::gen::element(Policy::Default, Policy::Capacity);
  const Plan plan = planned(Vit(s).build(), options);
  RC_ASSERT(joined(verify(plan)) == "");
}

// Grids of random problems are legal whatever the shape: no part of K is empty, every owner has a tile.
RC_GTEST_PROP(GemmProperty, GridsAreLegal, ()) {
  GemmProblem p;
  p.outer = *rc::gen::inRange(1U, 3U);
  p.rows = *rc::gen::inRange(1U, 50U);  // small enough for one tile, so that there always is a grid
  p.inner = *rc::gen::inRange(1U, 300U);
  p.cols = *rc::gen::inRange(1U, 300U);
  p.precision = *rc::gen::element(Precision::F8, Precision::F16);
  const std::uint32_t tiles = *rc::gen::inRange(1U, 200U);
  const auto candidates = gemm_candidates(c600(), p, tiles, Policy::Capacity);
  RC_ASSERT(!candidates.empty());
  for (const GemmCandidate& c : candidates) {
    RC_ASSERT(c.rows >= 1U && c.cols >= 1U && c.inner >= 1U);
    RC_ASSERT(c.tiles() <= tiles);
    RC_ASSERT(c.rows <= p.rows && c.cols * 16 < p.cols + 16);
    const std::uint32_t groups = (p.inner + p.micro() - 1) / p.micro(),
                        local = (groups + c.inner - 1) / c.inner;
    RC_ASSERT((c.inner - 1) * local < groups);
    RC_ASSERT(c.rows * c.result_rows <= p.rows && c.cols * c.result_cols * c.rows * c.result_rows <= tiles);
  }
}

}  // namespace
}  // namespace tw::plan
