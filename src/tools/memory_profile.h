// Where a package's tensors stand, tile by tile: memory.json of `--memory-profile-directory`.
#pragma once
#include <string>

#include "package/package.h"

namespace tw::tools {

// The summary of the package and, for every tile, its fullest step with the tensors alive then. Bytes are
// those of the tensors, without alignment and tails.
std::string memory_json(const package::Package& package);

}  // namespace tw::tools
