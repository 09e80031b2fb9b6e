// Order in which the units of a phase are placed: balanced streams (hardware.md 6.5). Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/pieces.h"

namespace tw::exchange {

// Weights of the choice among a source's pending units.
struct OrderPolicy {
  std::uint32_t slack = 24;     // events of waiting that do not matter
  bool rotation_first = false;  // nearest destination before the busiest one
};

// Start of every piece.
std::vector<std::uint32_t> place_all(const Device& device, const Pieces& pieces, const OrderPolicy& policy,
                                     const std::vector<char>& no_pairs);

}  // namespace tw::exchange
