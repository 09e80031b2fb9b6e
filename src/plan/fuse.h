// Fusions of a finished plan (compiler.md 4.4) and casts in front of copies (4.1): F8 results, sums that go
// into a layer norm. Tests: tests/plan/fuse_test.cpp.
#pragma once
#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

// The plan with every rewrite that lowers the estimated cycles and raises neither the estimated bytes nor the
// row bytes; the same results to the last bit. Rewrites stay inside one region: no Repeat boundary is
// crossed.
Plan fuse(const Device& device, Plan plan);

}  // namespace tw::plan
