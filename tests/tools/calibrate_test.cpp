#include "tools/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/tensors.h"

namespace tw::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RoleMagnitudes role(const std::vector<float>& input, const std::vector<float>& weight) {
  RoleMagnitudes m;
  m.input.add(input);
  m.weight.add(weight);
  return m;
}

// Normal deviates, and `outlier` once in every 1152 (users.md L51).
std::vector<float> activations(float outlier) {
  std::vector<float> values = model::random_tensor("x", {100 * 1152}, 1);
  double squares = 0;
  for (const float x : values) squares += double(x) * x;
  const auto one = static_cast<float>(std::sqrt(double(values.size()) / squares));
  for (float& x : values) x *= one;
  for (std::size_t i = 0; i < values.size(); i += 1152) values[i] = outlier;
  return values;
}

std::vector<std::string> warnings(const RoleMagnitudes& m) {
  return scale_warnings({{"mlp.down", m}}, {.fp16 = {}, .scales = {{"mlp.down", shared_scale(m)}}});
}

TEST(SharedScale, IsTheLargerOfBothOperands) {  // models.md A.1.1, C.5
  EXPECT_EQ(shared_scale(role({0}, {0})), 0);
  EXPECT_EQ(shared_scale(role({240, -120}, {1})), 0);
  EXPECT_EQ(shared_scale(role({1}, {241})), 1);
  EXPECT_EQ(shared_scale(role({-15, std::nanf("")}, {0.001F})), -4);
}

TEST(SharedScale, StaysWithinWhatTwoOperandsMayShare) {
  EXPECT_EQ(shared_scale(role({1e-6F}, {1e-7F})), -16);  // 1e-6 > 240 * 2^-28
  EXPECT_EQ(shared_scale(role({1e9F}, {1})), 15);
}

TEST(ScaleWarnings, OutliersThatCostTheBulk) {
  for (const float outlier : {3e2F, 3e3F, 6e4F})
    EXPECT_THAT(warnings(role(activations(outlier), {0.1F})),
                ElementsAre(AllOf(HasSubstr("mlp.down"), HasSubstr("inputs fall under"),
                                  HasSubstr("try --fp16 mlp.down"))))
        << outlier;
  for (const float outlier : {5.0F, 20.0F, 100.0F})
    EXPECT_THAT(warnings(role(activations(outlier), {0.1F})), IsEmpty()) << outlier;
  EXPECT_THAT(warnings(role({1}, activations(6e4F))), ElementsAre(HasSubstr("weights fall under")));
  // F16 needs no scale.
  EXPECT_THAT(
      scale_warnings({{"mlp.down", role(activations(6e4F), {1})}}, {.fp16 = {"mlp.down"}, .scales = {}}),
      IsEmpty());
}

TEST(ScaleWarnings, TheScaleOfTheOtherOperand) {
  std::vector<float> small = activations(1);
  for (float& x : small) x *= 0x1p-6F;
  EXPECT_THAT(warnings(role(activations(5), small)), IsEmpty());  // at -5 what is above 2^-12 is normal
  for (float& x : small) x *= 0x1p-6F;
  EXPECT_THAT(warnings(role(activations(5), small)), ElementsAre(HasSubstr("the other operand needs")));
}

TEST(ScaleWarnings, ValuesBeyondEveryScale) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(warnings(role({1, nan, 1, nan}, {1})), ElementsAre(HasSubstr("2 inputs are NaN or infinite")));
  EXPECT_THAT(warnings(role({1e9F, -1e7F, 65504}, {4e6F})),
              ElementsAre(HasSubstr("beyond F16"),
                          AllOf(HasSubstr("2 inputs (66.67 %) exceed"), Not(HasSubstr("--fp16")),
                                HasSubstr("no format of the device holds 1e+09"))));
  // Of outliers alone: 240 * 2^9 reaches 70000, F16 does not.
  EXPECT_THAT(warnings(role({1}, activations(7e4F))),
              ElementsAre(AllOf(HasSubstr("weights fall under"), Not(HasSubstr("--fp16")),
                                HasSubstr("F16 cannot hold 70000"))));
}

}  // namespace
}  // namespace tw::tools
