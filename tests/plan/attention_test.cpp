#include "plan/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "attention_cases.h"

namespace tw::plan {
namespace {

using plan_test::attention_data;
using plan_test::AttentionCase;
using plan_test::AttentionPlan;
using ::testing::IsEmpty;

std::vector<double> naive(const AttentionCase& c) {
  const auto q = attention_data("q", std::size_t{c.streams} * c.queries * c.width),
             k = attention_data("k", std::size_t{c.streams} * c.keys * c.width),
             v = attention_data("v", std::size_t{c.streams} * c.keys * c.values);
  std::vector<double> out(std::size_t{c.streams} * c.queries * c.values, 0);
  for (std::size_t row = 0; row < std::size_t{c.streams} * c.queries; ++row) {
    const std::size_t first = row / c.queries * c.keys;
    std::vector<double> e(c.keys);
    double total = 0;
    for (std::size_t j = 0; j < c.keys; ++j) {
      double dot = 0;
      for (std::size_t i = 0; i < c.width; ++i) dot += q[row * c.width + i] * k[(first + j) * c.width + i];
      total += e[j] = std::exp(dot * c.scale());
    }
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t i = 0; i < c.values; ++i)
        out[row * c.values + i] += e[j] / total * v[(first + j) * c.values + i];
  }
  return out;
}

Values computed(const AttentionCase& c, const AttentionForm& form) {
  const Plan plan = AttentionPlan(c).build(form);
  EXPECT_THAT(verify(plan), IsEmpty());
  std::map<std::string, std::vector<float>> data;
  for (const TensorId id : plan.inputs) {
    const Tensor& t = plan.at(id);
    data[t.name] = attention_data(t.name, tensor::elements(t.type.shape));
  }
  return run_exact(plan, [&](const std::string& name) -> const std::vector<float>& { return data.at(name); })
      .front();
}

double distance(const Values& got, const std::vector<double>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (got.at(i) - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

// compiler.md 3.5: 729 keys are 46 groups of 16 (5 parts of 160, 7 of 112) and 23 groups of 32 (a seventh
// part would be empty).
TEST(AttentionGrids, LastPartOfKeysIsNeverEmpty) {
  EXPECT_TRUE(every_part_filled(46, 5));
  EXPECT_TRUE(every_part_filled(46, 7));
  EXPECT_FALSE(every_part_filled(23, 7));
  const AttentionShape siglip{
      .streams = 16, .queries = 729, .keys = 729, .width = 72, .values = 72, .parts = 92};
  std::map<std::uint32_t, bool> inner;
  for (const ProductGrid& g : pv_grids(siglip, 1472)) inner[g.inner] = true;
  EXPECT_EQ(inner.size(), 8U);
  // 5 groups in 4 parts are 2, 2, 1 and none.
  const AttentionShape few{.streams = 1, .queries = 9, .keys = 80, .width = 16, .values = 16, .parts = 9};
  for (const ProductGrid& g : pv_grids(few, 64)) EXPECT_TRUE(g.inner <= 3 || g.inner == 5) << g.inner;
}

TEST(AttentionGrids, GridsFollowTheRules) {
  const AttentionShape s{.streams = 32, .queries = 729, .keys = 729, .width = 72, .values = 72, .parts = 46};
  const std::vector<ProductGrid> qk = qk_grids(s, 1472);
  EXPECT_EQ(qk.size(), 16U);  // 1..16 rows of the 46 tiles of a stream
  EXPECT_THAT(qk, ::testing::Contains(ProductGrid{.rows = 6, .cols = 7, .inner = 1}));
  // compiler.md 13.3: the reference chose 7 x 1 x 6.
  EXPECT_THAT(pv_grids(s, 1472), ::testing::Contains(ProductGrid{.rows = 7, .cols = 1, .inner = 6}));
  for (const ProductGrid& g : pv_grids(s, 1472)) {
    EXPECT_LE(g.rows * g.cols * g.inner, 46U);
    EXPECT_LE(g.cols, 5U);
  }
  AttentionShape pooling = s;
  pooling.queries = pooling.parts = 1;
  EXPECT_EQ(qk_grids(pooling, 1472), (std::vector{ProductGrid{.rows = 1, .cols = 46, .inner = 1}}));
  EXPECT_LE(attention_grids(s, 1472, 32).size(), 32U);
  EXPECT_THAT(attention_grids(s, 32, 32), IsEmpty());  // one tile per stream
}

TEST(AttentionForms, OptionsDecideWhatIsOffered) {
  const AttentionCase siglip{
      .streams = 32, .queries = 729, .keys = 729, .width = 72, .values = 72, .tiles = 1472};
  EXPECT_EQ(AttentionPlan(siglip, Attention::Streaming).forms(),
            (std::vector{AttentionForm{.key_step = 64, .grids = {}}}));
  // The query rows take complete keys (768 x 80 x 2 = 122,880 B) up to four pairs of elements, three under
  // the capacity policy.
  EXPECT_EQ(AttentionPlan(siglip, Attention::Materialized).forms().front().key_step, 729U);
  EXPECT_EQ(AttentionPlan(siglip).forms().front().key_step, 768U);
  EXPECT_EQ(AttentionPlan(siglip, Attention::Auto, Policy::Capacity).forms().front().key_step, 384U);
  const std::vector<AttentionForm> forms = AttentionPlan(siglip).forms();
  EXPECT_GT(forms.size(), 4U);
  EXPECT_LE(forms.size(), 33U);
  EXPECT_TRUE(AttentionPlan(siglip).chosen().grids.has_value());
}

// One K part multiplies the same groups in the same order as complete keys on the query rows: same bits.
TEST(AttentionForms, WholeKeysOnGridsEqualTheQueryRowsBitForBit) {
  for (const AttentionCase& c :
       {AttentionCase{}, AttentionCase{.streams = 3, .queries = 37, .keys = 100, .width = 72, .values = 72},
        AttentionCase{.streams = 4, .queries = 1, .keys = 113, .width = 16, .values = 8}}) {
    const Values rows = computed(c, {.key_step = c.keys, .grids = {}});
    const AttentionShape s{.streams = c.streams,
                           .queries = c.queries,
                           .keys = c.keys,
                           .width = c.width,
                           .values = c.values,
                           .parts = std::min(c.queries, c.tiles / c.streams)};
    for (const ProductGrid& qk : qk_grids(s, c.tiles)) {
      EXPECT_EQ(computed(c, {.key_step = 0, .grids = AttentionGrids{qk, {.rows = 1}}}), rows);
    }
    for (const ProductGrid& pv : pv_grids(s, c.tiles)) {
      if (pv.inner > 1) continue;
      EXPECT_EQ(computed(c, {.key_step = 0, .grids = AttentionGrids{{.rows = 1}, pv}}), rows);
    }
  }
}

RC_GTEST_PROP(AttentionProperty, EveryFormComputesAttention, ()) {
  AttentionCase c;
  c.streams = *rc::gen::inRange(1U, 5U);
  c.queries = *rc::gen::element(1U, 2U, 5U, 19U, 33U);
  c.keys = *rc::gen::inRange(2U, 150U);
  c.width = 2 * *rc::gen::element(3U, 8U, 17U, 36U);
  c.values = *rc::gen::element(c.width, 2 * *rc::gen::inRange(1U, 25U));
  c.tiles = c.streams * *rc::gen::inRange(2U, 13U);
  const std::vector<double> want = naive(c);
  for (const AttentionForm& form : AttentionPlan(c).forms())
    RC_ASSERT(distance(computed(c, form), want) < 0.01);
}

}  // namespace
}  // namespace tw::plan
