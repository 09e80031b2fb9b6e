// A program for which no addresses were found.
#pragma once
#include <functional>
#include <vector>

#include "base/error.h"
#include "package/package.h"
#include "place/place.h"
#include "plan/plan.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::compile {

struct TileFailure {
  std::uint32_t tile = 0;  // logical
  place::NoFit why;
};

// What is known at a refusal; references live during the call that gets it.
struct Unplaced {
  const plan::Plan& plan;
  const tile::Program& program;
  const std::vector<tile::TilePlacement>& problems;  // by logical tile
  const std::vector<TileFailure>& failures;          // ascending by tile, not empty
  const Error& error;                                // that will be thrown
  TileId tile;                                       // that it names
  // Steps, tensors, and the symbols "program" (all code) and "rows" as reserved. On tiles that failed the
  // tensors stand as far as they found a place one after the other; address 0: no place.
  package::Side side;
  std::vector<package::Binding> weights;  // slices by the addresses of `side`
};
using OnUnplaced = std::function<void(const Unplaced&)>;

}  // namespace tw::compile
