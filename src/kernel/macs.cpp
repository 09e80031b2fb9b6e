#include "kernel/macs.h"

namespace tw::kernel {

std::uint64_t macs(Code code, const Call& call) {
  return peak_macs(code) == 0 ? 0 : std::uint64_t{call.m[3]} * call.m[4] * call.m[5];
}

std::uint32_t peak_macs(Code code) {
  if (code == Code::GemmF8) return 128;
  return code == Code::GemmF16 ? 64 : 0;
}

}  // namespace tw::kernel
