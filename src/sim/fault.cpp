#include <array>
#include <utility>

#include "sim/machine.h"

namespace tw::sim {

const char* name_of(FaultKind kind) {
  static constexpr std::array kNames = {
      "unknown-instruction", "misplaced-instruction", "bad-call-target",      "kernel-contract",
      "f16-overflow",        "undefined-read",        "element-clash",        "row-fetch-clash",
      "empty-mux-window",    "width-mismatch",        "pointer-out-of-range", "send-out-of-range",
      "unaligned",           "store-after-row-end",   "bad-dcount",           "workers-busy",
      "barrier-mismatch",    "stack-overflow",        "host-limit",           "step-limit",
      "address-conflict"};
  static_assert(kNames.size() == static_cast<std::size_t>(FaultKind::AddressConflict) + 1);
  return kNames[std::to_underlying(kind)];
}

}  // namespace tw::sim
