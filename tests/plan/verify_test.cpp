// verify() must name each kind of broken plan: every test breaks one rule of a good plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graphs.h"
#include "plan/build.h"

namespace tw::plan {
namespace {

Plan good() {
  plan_test::VitShape s{
      .batch = 1, .tokens = 9, .patch = 40, .width = 48, .hidden = 64, .heads = 2, .layers = 2};
  Progress quiet;
  return build(c600(), plan_test::Vit(s).build(), {.tiles = 24}, quiet);
}

std::vector<Step*> all_steps(Plan& plan) {
  std::vector<Step*> list;
  for (Step& step : plan.steps) {
    if (auto* repeat = std::get_if<Repeat>(&step.action)) {
      for (Step& inner : repeat->body) list.push_back(&inner);
    } else {
      list.push_back(&step);
    }
  }
  return list;
}

template <class Action>
Action& first(
    Plan& plan, const std::function<bool(const Action&)>& wanted = [](const Action&) { return true; }) {
  for (Step* step : all_steps(plan)) {
    if (auto* action = std::get_if<Action>(&step->action); action != nullptr && wanted(*action))
      return *action;
  }
  throw std::logic_error("the plan has no such step");
}

bool reports(const Plan& plan, const std::string& text) {
  const auto problems = verify(plan);
  return std::ranges::any_of(problems,
                             [&](const std::string& p) { return p.find(text) != std::string::npos; });
}

TEST(Verify, AcceptsTheUnbrokenPlan) { EXPECT_TRUE(verify(good()).empty()); }

TEST(Verify, ReadBeforeWrite) {
  Plan plan = good();
  plan.steps = std::vector<Step>(plan.steps.begin() + 1, plan.steps.end());
  EXPECT_TRUE(reports(plan, "before it is written"));
}

TEST(Verify, CopyThatCasts) {
  Plan plan = good();
  Copy& copy = first<Copy>(plan);
  plan.tensors[copy.dst.value].type.encoding = {tensor::Precision::F32, 0};
  EXPECT_TRUE(reports(plan, "cannot cast"));
}

TEST(Verify, CopyAcrossPackingDirections) {
  Plan plan = good();
  Copy& copy = first<Copy>(plan, [&](const Copy& c) { return plan.at(c.dst).name == "embedding/right"; });
  plan.tensors[copy.src.value].type.layout.order.kind = tensor::Order::Row;
  EXPECT_TRUE(reports(plan, "different directions"));
}

TEST(Verify, SubWordRun) {
  Plan plan = good();  // the second head would start in the middle of a word
  Copy& copy =
      first<Copy>(plan, [&](const Copy& c) { return plan.at(c.dst).name == "layer.attention/q.rows"; });
  for (tensor::CoordTerm& term : copy.map.axes.back().terms) term.mul = std::min(term.mul, 23U);
  EXPECT_TRUE(reports(plan, "sub-word"));
}

TEST(Verify, MovedPaddingMustBeClearedToo) {
  Plan plan = good();
  first<Copy>(plan, [](const Copy& c) { return c.move_padding; }).clear_padding = false;
  EXPECT_TRUE(reports(plan, "must be cleared"));
}

TEST(Verify, ProductThatReadsUnwrittenPadding) {
  Plan plan = good();
  Copy& copy = first<Copy>(plan, [](const Copy& c) { return c.move_padding; });
  copy.move_padding = copy.clear_padding = false;
  EXPECT_TRUE(reports(plan, "unwritten padding"));
}

TEST(Verify, MapBeyondTheSource) {
  Plan plan = good();
  first<Copy>(plan).map.axes.back().offset = 1;
  EXPECT_TRUE(reports(plan, "leaves the source"));
}

TEST(Verify, OwnersBeyondTheLimit) {
  Plan plan = good();
  plan.tiles = 3;
  EXPECT_TRUE(reports(plan, "beyond the tile limit"));
}

TEST(Verify, TwoShardsOnOneTile) {
  Plan plan = good();
  plan.tensors[first<Product>(plan).out.value].owners.domain = 1;
  EXPECT_TRUE(reports(plan, "two shards on one tile"));
}

TEST(Verify, ProductOnDifferentTiles) {
  Plan plan = good();
  plan.tensors[first<Product>(plan).right.value].owners.rotation = 1;
  EXPECT_TRUE(reports(plan, "different tiles"));
}

TEST(Verify, ProductShardsThatDoNotMatch) {
  Plan plan = good();
  const Product& p = first<Product>(plan, [](const Product& q) { return q.right_transposed; });
  tensor::TensorType& scores = plan.tensors[p.out.value].type;
  for (tensor::AxisTiling& axis : scores.layout.tiling.axes) {  // scores padded otherwise than the keys
    if (axis.axis == scores.shape.size() - 1) axis.block = axis.block == 16 ? 64 : 16;
  }
  EXPECT_TRUE(reports(plan, "shards do not match"));
}

TEST(Verify, PartialsConsumedTwice) {
  Plan plan = good();
  std::vector<Step> doubled;
  for (const Step& step : plan.steps) {
    doubled.push_back(step);
    if (std::holds_alternative<Sum>(step.action)) doubled.push_back(step);
  }
  ASSERT_GT(doubled.size(), plan.steps.size()) << "no split product in this plan";
  plan.steps = doubled;
  EXPECT_TRUE(reports(plan, "not consumed once"));
}

TEST(Verify, WritingAParameter) {
  Plan plan = good();
  Copy& copy = first<Copy>(plan, [&](const Copy& c) { return plan.at(c.src).role == Role::Parameter; });
  std::swap(copy.dst, copy.src);
  EXPECT_TRUE(reports(plan, "writes"));
}

TEST(Verify, SequenceOutsideItsRepeat) {
  Plan plan = good();
  for (Tensor& t : plan.tensors) {
    if (t.name == "embedding.bias") t.members = {"a", "b"};
  }
  EXPECT_TRUE(reports(plan, "outside its Repeat"));
}

TEST(Verify, SharedStorageOfAnotherSize) {
  Plan plan = good();
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    Tensor& t = plan.tensors[i];
    if (!t.storage.valid()) continue;
    t.type.encoding.precision = tensor::Precision::F32;
    EXPECT_TRUE(reports(plan, "storage of another size"));
    return;
  }
  FAIL() << "no tensor shares storage";
}

TEST(Verify, NestedRepeat) {
  Plan plan = good();
  for (Step& step : plan.steps) {
    auto* repeat = std::get_if<Repeat>(&step.action);
    if (repeat == nullptr) continue;
    const Step inner = step;
    repeat->body.push_back(inner);
  }
  EXPECT_TRUE(reports(plan, "nested"));
}

TEST(Verify, WrongKernelOperands) {
  Plan plan = good();
  first<Local>(plan, [](const Local& l) { return l.kind == LocalKind::Add; }).inputs.pop_back();
  EXPECT_TRUE(reports(plan, "wrong number of operands"));
}

TEST(MovedTypes, PaddingTravelsOnlyWhereBothSidesHaveIt) {
  Plan plan;
  // 588 rows padded to 608 by the home, to 640 by the operand: rows up to 608 move, the rest is cleared.
  for (const std::uint32_t block : {32U, 128U}) {
    Tensor t;
    t.type.shape = {588, 16};
    t.type.encoding = {tensor::Precision::F8, 0};
    t.type.layout.tiling.axes = {{.axis = 0, .block = block, .padding = tensor::Padding::Zero}};
    plan.tensors.push_back(t);
  }
  Copy copy{.dst = TensorId(1), .src = TensorId(0), .map = tensor::identity_map(2), .move_padding = true};
  EXPECT_EQ(moved_types(plan, copy).dst.shape, (tensor::Shape{608, 16}));
  EXPECT_EQ(moved_types(plan, copy).src.shape, (tensor::Shape{608, 16}));
  copy.move_padding = false;
  EXPECT_EQ(moved_types(plan, copy).dst.shape, (tensor::Shape{588, 16}));
}

}  // namespace
}  // namespace tw::plan
