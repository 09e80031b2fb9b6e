// Fusions of a finished plan (compiler.md 4.4): F8 results, sums that go into a layer norm; copies of copies
// (4.3) and casts in front of copies (4.1). Tests: tests/plan/fuse_test.cpp.
#pragma once
#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

// The plan with every rewrite that lowers the estimated cycles, does not raise the estimated bytes, and gains
// at least 16 cycles of a call per byte that the row table grows; the same results to the last bit. Rewrites
// stay inside one region: no Repeat boundary is crossed.
Plan fuse(const Device& device, Plan plan);

}  // namespace tw::plan
