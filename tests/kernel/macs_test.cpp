#include "kernel/macs.h"

#include <gtest/gtest.h>

namespace tw::kernel {
namespace {

// hardware.md 1.1: R82, K192, C160 took 19,680 AMP cycles in F8, and F16 has half the rate.
TEST(Macs, AreThoseOfThePhysicalExtents) {
  Call call;
  call.m = {0, 0, 0, 82, 192, 160, 0, 0};
  EXPECT_EQ(macs(Code::GemmF8, call), 19'680U * 128);
  EXPECT_EQ(macs(Code::GemmF8, call) / peak_macs(Code::GemmF8), 19'680U);
  EXPECT_EQ(macs(Code::GemmF16, call) / peak_macs(Code::GemmF16), 2 * 19'680U);
  EXPECT_EQ(macs(Code::Sum, call), 0U);
  EXPECT_EQ(peak_macs(Code::Softmax), 0U);
}

}  // namespace
}  // namespace tw::kernel
