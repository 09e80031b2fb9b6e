// Order in which the units of a phase are placed: balanced streams (hardware.md 6.5). Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/pieces.h"

namespace tw::exchange {

// Which of its pending units a source sends next. Units that make it wait longer than `slack` events come
// last; among the others the busiest receiver wins, less `gap_weight` words per event that its mux would
// rest. Phases with contended elements (1.4) gain from one of two more devices: starts that are estimated
// behind what already stands on these elements, or rounds (rounds.h).
struct OrderPolicy {
  std::uint32_t slack = 0;
  std::uint32_t gap_weight = 4;
  bool see_contention = false;
  bool in_rounds = false;
};

struct Placement {
  std::vector<std::uint32_t> starts;  // of every piece
  bool contended = false;             // some element is read and written
};
Placement place_all(const Device& device, const Pieces& pieces, const OrderPolicy& policy,
                    const std::vector<char>& no_pairs);

}  // namespace tw::exchange
