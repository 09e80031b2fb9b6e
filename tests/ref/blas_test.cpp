#include "ref/blas.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tw::ref {
namespace {

// Whoever chooses kernels gets them; otherwise a known name, or nothing to say.
TEST(Blas, KernelsThatAreChosenStay) {
  const char* before = std::getenv("OPENBLAS_CORETYPE");
  const std::string kept = before == nullptr ? "" : before;
  setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  EXPECT_EQ(missed_blas_kernels(), nullptr);
  unsetenv("OPENBLAS_CORETYPE");
  if (const char* kernels = missed_blas_kernels()) {
    EXPECT_TRUE(kernels == std::string("SkylakeX") || kernels == std::string("Haswell")) << kernels;
  }
  if (before != nullptr) setenv("OPENBLAS_CORETYPE", kept.c_str(), 1);
}

}  // namespace
}  // namespace tw::ref
