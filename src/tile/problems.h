// Adapters from a Program to the solvers' problems, and the addresses that come back.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/exchange.h"
#include "place/place.h"
#include "target/device.h"
#include "tile/program.h"

namespace tw::tile {

// Address of each buffer of a program (index = BufferId); of member 0 for sequences.
struct Addresses {
  std::vector<std::uint32_t> of;
};

// Placement problem of one logical tile, with the buffer of each request.
struct TilePlacement {
  place::Problem problem;
  std::vector<BufferId> buffers;
};
// `row_bytes`: row-table reservation per tile, whole elements, behind the code (decisions.md 36).
std::vector<TilePlacement> placement_problems(const Device& device, const Program& program,
                                              std::uint32_t code_bytes, std::uint32_t row_bytes);

exchange::Problem exchange_problem(const Program& program, const Phase& phase, const Addresses& addresses);

}  // namespace tw::tile
