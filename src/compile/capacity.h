// The message of a model that does not fit (cli.md): blame by liveness, exact bytes, computed suggestions.
#pragma once
#include "base/capacity.h"
#include "place/place.h"
#include "plan/plan.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::compile {

struct TileFailure {
  std::uint32_t tile = 0;  // logical
  place::NoFit why;
};
// `failures` ascending by tile, not empty. The worst one (largest missing) is described.
Error capacity_error(const plan::Plan& plan, const tile::Program& program,
                     const std::vector<tile::TilePlacement>& problems,
                     const std::vector<TileFailure>& failures);

}  // namespace tw::compile
