// The supervisor program of one tile as encoded words (hardware.md 3.8, 4.2): host batches, kernel calls,
// exchange phases, Repeat loops, call loop. Every form has a fixed length, so sizes are known before
// addresses.
#pragma once
#include <cstdint>
#include <vector>

#include "emit/host.h"
#include "emit/rows.h"
#include "emit/runtime.h"
#include "target/device.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::emit {

// What each tile does in each step, made once for the whole program.
struct TileWork {
  std::vector<std::uint32_t> call_begin;  // per step: first entry of `calls`; size steps + 1
  std::vector<std::uint32_t> calls;       // into Program::calls
  std::vector<bool> active;               // per phase: the tile sends or receives
  std::vector<bool> moving;               // per phase: the tile has a sender that moves with the iteration
  std::vector<BufferId> pointers;  // iterated buffers used by calls, in order of first use (Repeat slots)
  std::vector<std::uint32_t>
      bases;  // strides of moving senders: one OUTGOING_BASE slot each, behind the pointers
  std::uint32_t slots() const { return static_cast<std::uint32_t>(pointers.size() + bases.size()); }
};
std::vector<TileWork> tile_work(const Device& device, const tile::Program& program);  // per physical tile

// Everything the assembler needs besides the tile's own work.
struct ControlContext {
  const Device& device;
  const tile::Program& program;
  const Runtime& runtime;
  const HostPlan& host;
  const tile::Addresses* addresses = nullptr;   // null: sizing
  const std::vector<TileRows>* rows = nullptr;  // null: sizing, patch calls counted at their maximum
  std::uint32_t row_base = 0;                   // address of the row table
  // Per list of host batches: piece of each tile in each batch, UINT32_MAX when inactive.
  std::vector<std::vector<std::uint32_t>> slots_initialize, slots_inputs, slots_outputs;
  std::vector<std::uint32_t>
      arena_slots;  // per tile: its page of the arena, ascending over tiles with any piece
};
// Fills the slot tables of a context.
void fill_slots(ControlContext& context);

// Words of the program (descriptors behind it) of physical tile `tile`, to stand at runtime.program.
std::vector<std::uint32_t> tile_program(const ControlContext& context, std::uint32_t tile,
                                        const TileWork& work);

}  // namespace tw::emit
