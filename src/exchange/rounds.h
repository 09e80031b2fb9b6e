// Rounds in which the units of a phase with contended elements are placed. Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/pieces.h"
#include "exchange/placer.h"

namespace tw::exchange {

// Round of every unit. A tile that receives into the element it sends from is half duplex there (1.4): if its
// incoming stream comes first, its own sends wait for the end of it, and so do the sends of the tiles behind
// it. So the sends of the tiles at the end of such chains, and of those on cycles, come first, then those of
// the tiles that feed them, and so on; the last round has the units whose source is never in the way, which
// fill the gaps.
std::vector<std::uint32_t> unit_rounds(const Pieces& pieces, const Placer& placer);

}  // namespace tw::exchange
