// Order in which the units of a phase are placed: balanced streams (hardware.md 6.5). Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/pieces.h"

namespace tw::exchange {

// Which of its pending units a source sends next. Units that make it wait longer than `slack` events come
// last; among the others the busiest receiver wins, less `gap_weight` words per event that its mux would
// rest.
struct OrderPolicy {
  std::uint32_t slack = 0;
  std::uint32_t gap_weight = 4;
};

// Start of every piece.
std::vector<std::uint32_t> place_all(const Device& device, const Pieces& pieces, const OrderPolicy& policy,
                                     const std::vector<char>& no_pairs);

}  // namespace tw::exchange
