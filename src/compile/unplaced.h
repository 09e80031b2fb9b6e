// A program for which no addresses were found.
#pragma once
#include <functional>
#include <vector>

#include "place/place.h"
#include "plan/plan.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::compile {

struct TileFailure {
  std::uint32_t tile = 0;  // logical
  place::NoFit why;
};

// What is known at a refusal; lives during the call that gets it.
struct Unplaced {
  const plan::Plan& plan;
  const tile::Program& program;
  const std::vector<tile::TilePlacement>& problems;  // by logical tile
  const std::vector<place::Placement>& placements;   // no addresses where a tile could not be placed
  const std::vector<TileFailure>& failures;          // ascending by tile, not empty
  TileId tile;                                       // that the error names
};
using OnUnplaced = std::function<void(const Unplaced&)>;

}  // namespace tw::compile
