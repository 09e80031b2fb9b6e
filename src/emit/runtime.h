// The code every tile shares: boot, completion, helper and kernel images, at device.code_base
// (hardware.md 4.2, decisions.md 17). Kernels and helpers are headers plus reserved bytes; boot and
// completion are real words.
#pragma once
#include <cstdint>
#include <vector>

#include "package/package.h"
#include "target/device.h"
#include "tile/program.h"

namespace tw::emit {

struct Runtime {
  std::vector<std::uint8_t> bytes;        // from device.code_base
  std::uint32_t entry = 0, complete = 0;  // addresses
  std::uint32_t worker_barrier = 0, patch_row = 0, repeat_table = 0, repeat_step = 0, host_run = 0;
  std::vector<std::uint32_t> kernel_of_spec;  // entry address per Program::specs
  std::vector<package::Symbol> symbols;
  std::uint32_t program = 0;  // first address of the tile program (8-byte aligned)
};
Runtime make_runtime(const Device& device, const tile::Program& program);

// Top of the supervisor stack (decisions.md 32); frames grow down from it.
inline constexpr std::uint32_t kStackTop = 0x586E0;
inline constexpr std::uint32_t kCallCount = 0x5800C;  // written by the loader (decisions.md 16)

}  // namespace tw::emit
