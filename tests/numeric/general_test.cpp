#include <gtest/gtest.h>

#include <cmath>

#include "numeric/functions.h"

namespace tw::numeric {
namespace {

// models.md A.4: tanh and erf forms of the GELU.
TEST(Functions, GeluFormsStayDistinct) {
  const double rows[][3] = {{-3, -0.00363739, -0.00404969},
                            {-1, -0.15880801, -0.15865525},
                            {0.5, 0.34571401, 0.34573123},
                            {1, 0.84119199, 0.84134475},
                            {3, 2.99636261, 2.99595031}};
  for (const auto& [x, tanh_form, erf_form] : rows) {
    EXPECT_NEAR(evaluate(Unary::GeluTanh, x), tanh_form, 5e-9);
    EXPECT_NEAR(evaluate(Unary::GeluErf, x), erf_form, 5e-9);
  }
  EXPECT_NEAR(evaluate(Unary::QuickGelu, 1.0), 0.845795765, 1e-8);
  EXPECT_NEAR(evaluate(Unary::Silu, 1.0), 0.731058579, 1e-8);
}

TEST(Functions, GatesAreZeroFarOut) {
  for (const Unary f : {Unary::GeluTanh, Unary::GeluErf, Unary::QuickGelu, Unary::Silu, Unary::HardSwish}) {
    EXPECT_EQ(evaluate(f, -INFINITY), 0.0) << name_of(f);
    EXPECT_EQ(evaluate(f, 1e4), 1e4) << name_of(f);
    EXPECT_TRUE(std::isnan(evaluate(f, NAN))) << name_of(f);
  }
}

TEST(Functions, MaximumAndMinimumKeepNaN) {
  EXPECT_TRUE(std::isnan(evaluate(Binary::Maximum, NAN, 1.0)));
  EXPECT_TRUE(std::isnan(evaluate(Binary::Minimum, 1.0, NAN)));
  EXPECT_EQ(evaluate(Binary::Power, 2.0, 3.0), 8.0);
  EXPECT_STREQ(name_of(Unary::Absolute), "abs");
  EXPECT_STREQ(name_of(Binary::Minimum), "min");
}

}  // namespace
}  // namespace tw::numeric
