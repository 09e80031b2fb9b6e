// Among legal placements, one that keeps many of the preferred separations. Internal to place/.
#pragma once
#include <cstdint>
#include <vector>

#include "place/greedy.h"

namespace tw::place {

struct Preferred {
  std::vector<std::uint32_t> address;
  std::uint64_t broken = 0;  // weight of the preferences that share an element
};

// Never breaks more than the legal placement `found` does. Tries the greedy orders with the wishes in mind,
// only the heaviest half of them as long as all three orders fail, and then moves single requests, if need be
// with all short-lived ones of their time.
Preferred keep_apart(const Device& device, const Problem& problem, const Legal& legal,
                     const Partners& partners, std::vector<std::uint32_t> found);

}  // namespace tw::place
