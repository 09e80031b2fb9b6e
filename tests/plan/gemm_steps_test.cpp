// Family B of compiler.md 3.3: outputs stay on their tiles while K passes in steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "gemm_cases.h"
#include "graphs.h"
#include "plan/build.h"
#include "plan/exact.h"
#include "plan/gemm.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::Precision;
using ::testing::IsEmpty;

using plan_test::emitted_gemm;
using Problem = plan_test::GemmCase;

Values computed(const Plan& plan) {
  std::map<std::string, std::vector<float>> data;
  std::uint32_t state = 1;
  for (const char* name : {"x", "w"}) {
    for (const Tensor& t : plan.tensors) {
      if (t.name != name) continue;
      for (std::uint64_t i = 0; i < tensor::elements(t.type.shape); ++i) {
        state = state * 1664525U + 1013904223U;
        data[name].push_back((static_cast<float>(state >> 8) / 8388608.0F - 1.0F) * 1.5F);
      }
    }
  }
  return run_exact(plan, [&](const std::string& name) -> const std::vector<float>& { return data.at(name); })
      .front();
}

std::size_t products(const Plan& plan) {
  std::size_t count = 0;
  for (const Step& step : plan.steps) count += std::holds_alternative<Product>(step.action) ? 1 : 0;
  return count;
}

// Ascending steps of whole groups start from the rounded partial of the step before: the same bits as one
// product over all of K.
RC_GTEST_PROP(GemmSteps, EqualOneProductBitForBit, ()) {
  Problem p;
  p.batch = *rc::gen::inRange(1U, 3U);
  p.rows = *rc::gen::inRange(1U, 30U);
  p.inner = 4 * *rc::gen::inRange(17U, 150U);
  p.cols = 2 * *rc::gen::inRange(1U, 60U);
  p.tiles = *rc::gen::element(1U, 8U, 12U, 46U);
  p.precision = *rc::gen::element(Precision::F8, Precision::F16);
  const GemmProblem problem{p.batch, p.rows, p.inner, p.cols, p.precision};
  const GemmCandidate whole_k{.rows = std::min(p.rows, p.tiles)};
  const Values want = computed(emitted_gemm(p, whole_k));
  std::size_t tried = 0;
  for (const GemmCandidate& c : step_candidates(c600(), problem, p.tiles, Policy::Capacity)) {
    RC_ASSERT(c.inner == 1U && p.tiles % c.cols == 0U && c.rows * c.cols <= p.tiles && c.k_step < p.inner);
    if (tried++ % 5 != 0) continue;
    const Plan plan = emitted_gemm(p, c);
    RC_ASSERT(verify(plan).empty());
    RC_ASSERT(products(plan) == (p.inner + c.k_step - 1) / c.k_step);
    RC_ASSERT(computed(plan) == want);
  }
  RC_ASSERT(tried > 0U);
}

// Steps of 64 need no more at any time than casting the input does: 17,216 B of it, 8,608 B in F8, 3,584 B of
// the weight's home. Of 512 they need 46 + 32 bytes of operands for each k beside the result.
TEST(GemmSteps, HoldOneSliceOfEitherOperand) {
  const Problem p{.batch = 2, .rows = 729, .inner = 4304, .cols = 1152, .tiles = 1472};
  GemmCandidate c{.rows = 32, .cols = 46, .early_cast = true, .k_step = 64};
  EXPECT_LE(estimate_quickly(emitted_gemm(p, c)).total_bytes, 17216U + 8608U + 3584U + 64U);
  c.k_step = 512;
  const std::uint64_t slices = 512 * (46 + 32);
  EXPECT_GE(estimate_quickly(emitted_gemm(p, c)).total_bytes, slices + 2U * 46 * 32 + 8608U + 3584U);
}

// Left alone, a model that fits takes family A only. At batch five the operands of SigLIP's MLP leave no room
// beside 27 layers of weights; in steps they do.
TEST(GemmSteps, AreTakenWhereTheModelWouldNotFit) {
  plan_test::VitShape siglip;
  siglip.layers = 27;
  const auto accumulates = [](const Plan& plan) {
    std::size_t count = 0;
    const auto walk = [&](const auto& self, const std::vector<Step>& steps) -> void {
      for (const Step& step : steps) {
        if (const auto* product = std::get_if<Product>(&step.action)) count += product->accumulate ? 1 : 0;
        if (const auto* repeat = std::get_if<Repeat>(&step.action)) self(self, repeat->body);
      }
    };
    walk(walk, plan.steps);
    return count;
  };
  const auto planned = [&](std::uint32_t batch) {
    siglip.batch = batch;
    Progress quiet;
    return build(c600(), plan_test::Vit(siglip).build(), {.policy = Policy::Capacity}, quiet);
  };
  EXPECT_EQ(accumulates(planned(2)), 0U);
  const Plan five = planned(5);
  EXPECT_GT(accumulates(five), 0U);
  EXPECT_THAT(verify(five), IsEmpty());
  EXPECT_LT(five.estimated_tensor_bytes, 586960U - 98304U);
}

}  // namespace
}  // namespace tw::plan
