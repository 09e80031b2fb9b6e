// A program for which no addresses were found.
#pragma once
#include <functional>
#include <vector>

#include "base/error.h"
#include "package/package.h"
#include "plan/plan.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::compile {

// What is known at a refusal; references live during the call that gets it.
struct Unplaced {
  const plan::Plan& plan;
  const tile::Program& program;
  const std::vector<tile::TilePlacement>& problems;  // by logical tile
  const Error& error;                                // that will be thrown; has `capacity`
  // Steps, tensors, and the symbols "program" (all code) and "rows" as reserved. On tiles that failed the
  // tensors stand as far as they found a place one after the other; address 0: no place.
  package::Side side;
  std::vector<package::Binding> weights;  // slices by the addresses of `side`
};
using OnUnplaced = std::function<void(const Unplaced&)>;

}  // namespace tw::compile
