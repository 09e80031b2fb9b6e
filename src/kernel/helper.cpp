#include "kernel/helper.h"

#include "base/math.h"

namespace tw::kernel {

std::uint64_t helper_cycles(Helper helper, std::uint64_t words) {
  switch (helper) {
    case Helper::PatchRow:
      return words < 24 ? 102 + 31 * words : 234 + 54 * cd(words, std::uint64_t{6});
    case Helper::RepeatTable:
    case Helper::RepeatStep:
      return 54 * words;
    default:
      return 0;
  }
}

}  // namespace tw::kernel
