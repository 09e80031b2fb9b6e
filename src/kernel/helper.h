// What the runtime helpers of a tile cost (decisions.md 11); their calls and arguments: Helper in kernel.h.
#pragma once
#include <cstdint>

#include "kernel/kernel.h"

namespace tw::kernel {

// Cycles besides the supervisor words around it. `words`: row words that a patch writes; other helpers take
// no time of their own.
std::uint64_t helper_cycles(Helper helper, std::uint64_t words);

}  // namespace tw::kernel
