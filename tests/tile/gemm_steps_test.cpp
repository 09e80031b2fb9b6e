// Products that accumulate in steps of K, lowered and run on byte arrays, against the exact interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../plan/attention_cases.h"
#include "../plan/gemm_cases.h"
#include "machine.h"

namespace tw::tile {
namespace {

using plan_test::GemmCase;
using tensor::Precision;

void check(const GemmCase& c, const plan::GemmCandidate& candidate) {
  const plan::Plan plan = plan_test::emitted_gemm(c, candidate);
  ASSERT_THAT(plan::verify(plan), ::testing::IsEmpty());
  const Program program = lower(plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  const std::map<std::string, std::vector<float>> data{
      {"x", plan_test::attention_data("x", std::size_t{c.batch} * c.rows * c.inner)},
      {"w", plan_test::attention_data("w", std::size_t{c.inner} * c.cols)}};
  testing::Machine machine(program);
  const plan::Tensor& x = plan.at(plan.inputs[0]);
  machine.upload(program.inputs.at(0), testing::images({x.type.shape, x.type.encoding, {}}, data.at("x")));
  for (const plan::Tensor& t : plan.tensors)
    if (t.name == "w") machine.upload(program.weights.at(0), testing::images(t.type, data.at("w")));
  machine.run();
  const plan::Tensor& out = plan.at(plan.outputs[0]);
  EXPECT_EQ(testing::values_of(machine, program, plan.outputs[0], out.type, out.owners),
            plan::run_exact(plan, [&](const std::string& name) -> const std::vector<float>& {
              return data.at(name);
            }).front());
}

TEST(GemmSteps, equal_the_exact_interpreter) {
  for (const GemmCase& c : {GemmCase{}, GemmCase{.batch = 2, .rows = 7, .inner = 588, .cols = 40},
                            GemmCase{.rows = 9, .inner = 300, .cols = 72, .precision = Precision::F16}}) {
    const plan::GemmProblem problem{c.batch, c.rows, c.inner, c.cols, c.precision};
    for (const plan::GemmCandidate& candidate :
         plan::step_candidates(c600(), problem, c.tiles, plan::Policy::Capacity))
      check(c, candidate);
  }
}

}  // namespace
}  // namespace tw::tile
