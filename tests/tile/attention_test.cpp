// Attention in every form, lowered and run on byte arrays, against the exact interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../plan/attention_cases.h"
#include "machine.h"

namespace tw::tile {
namespace {

using plan_test::attention_data;
using plan_test::AttentionCase;
using plan_test::AttentionPlan;

void check(const AttentionCase& c, const plan::AttentionForm& form) {
  const plan::Plan plan = AttentionPlan(c).build(form);
  ASSERT_THAT(plan::verify(plan), ::testing::IsEmpty());
  const Program program = lower(plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  std::map<std::string, std::vector<float>> data;
  testing::Machine machine(program);
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const plan::Tensor& t = plan.at(plan.inputs[i]);
    data[t.name] = attention_data(t.name, tensor::elements(t.type.shape));
    const tensor::TensorType host{.shape = t.type.shape, .encoding = t.type.encoding, .layout = {}};
    machine.upload(program.inputs[i], testing::images(host, data[t.name]));
  }
  machine.run();
  const plan::Tensor& out = plan.at(plan.outputs[0]);
  EXPECT_EQ(testing::values_of(machine, program, plan.outputs[0], out.type, out.owners),
            plan::run_exact(plan, [&](const std::string& name) -> const std::vector<float>& {
              return data.at(name);
            }).front());
}

TEST(Attention, every_form_equals_the_exact_interpreter) {
  for (const AttentionCase& c :
       {AttentionCase{}, AttentionCase{.streams = 3, .queries = 37, .keys = 150, .width = 72, .values = 72},
        AttentionCase{.streams = 2, .queries = 1, .keys = 90, .width = 32, .values = 32},
        AttentionCase{.streams = 1, .queries = 7, .keys = 33, .width = 10, .values = 6, .tiles = 9}}) {
    for (const plan::AttentionForm& form : AttentionPlan(c).forms()) check(c, form);
  }
}

}  // namespace
}  // namespace tw::tile
