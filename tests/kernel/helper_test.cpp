#include "kernel/helper.h"

#include <gtest/gtest.h>

namespace tw::kernel {
namespace {

// decisions.md 11.
TEST(HelperCycles, PatchesTakeTimeByTheirWords) {
  EXPECT_EQ(helper_cycles(Helper::PatchRow, 1), 133U);
  EXPECT_EQ(helper_cycles(Helper::PatchRow, 23), 815U);
  EXPECT_EQ(helper_cycles(Helper::PatchRow, 24), 450U);
  EXPECT_EQ(helper_cycles(Helper::PatchRow, 78), 936U);
  EXPECT_EQ(helper_cycles(Helper::PatchRow, 1024), 9468U);
  EXPECT_EQ(helper_cycles(Helper::RepeatStep, 10), 540U);
  EXPECT_EQ(helper_cycles(Helper::RepeatTable, 10), 540U);
  EXPECT_EQ(helper_cycles(Helper::WorkerBarrier, 10), 0U);
}

}  // namespace
}  // namespace tw::kernel
