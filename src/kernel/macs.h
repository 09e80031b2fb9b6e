// Multiply-adds of the products, and what the AMP unit could do at most.
#pragma once
#include <cstdint>

#include "kernel/kernel.h"

namespace tw::kernel {

// Of one call on its physical extents, padding in; 0: the kernel is no product.
std::uint64_t macs(Code code, const Call& call);
// Per tile and cycle at the peak (hardware.md 1.1); 0: the kernel is no product.
std::uint32_t peak_macs(Code code);

}  // namespace tw::kernel
