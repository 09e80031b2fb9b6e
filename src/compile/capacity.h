// The messages of a model that does not fit (cli.md): blame by liveness, exact amounts, computed suggestions.
#pragma once
#include <span>
#include <string>

#include "base/capacity.h"
#include "exchange/exchange.h"
#include "place/place.h"
#include "plan/plan.h"
#include "target/device.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::compile {

// Operation of a step number of the report (0: upload, otherwise step index + 1).
std::string step_path(const tile::Program& program, std::uint32_t step);

struct TileFailure {
  std::uint32_t tile = 0;  // logical
  place::NoFit why;
};
struct Reserves {  // bytes that no tensor may use, on every tile
  std::uint32_t code = 0, rows = 0;
};
// `failures` ascending by tile, not empty. The worst one (largest missing) is described.
Error capacity_error(const plan::Plan& plan, const tile::Program& program,
                     const std::vector<tile::TilePlacement>& problems,
                     const std::vector<TileFailure>& failures, Reserves reserves);

// Fragments per logical tile (tile::fragments_per_tile); the busiest exceeds `limit`.
Error fragments_error(const tile::Program& program, std::span<const std::uint32_t> fragments,
                      std::uint32_t limit);

// Exchange table bytes per physical tile; the largest exceeds `budget`. `rows`: of each phase.
Error table_error(const tile::Program& program, const std::vector<exchange::Rows>& rows,
                  std::span<const std::uint32_t> bytes, std::uint32_t budget);

// `code` bytes of code leave less than one element of executable memory for exchange rows.
Error code_error(const Device& device, std::uint32_t code, std::uint32_t first_row);

}  // namespace tw::compile
