// Bounded depth-first search over start addresses (compiler.md 8.5), for what the greedy orders cannot place.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "place/greedy.h"

namespace tw::place {

inline constexpr std::uint32_t kSearchNodes = 4096;                  // compiler.md 8.5
inline constexpr std::uint64_t kSearchFilterOperations = 2'000'000;  // one = one domain looked at

// One address per request, or nullopt when the caps are reached or the tried starts are exhausted.
std::optional<std::vector<std::uint32_t>> address_search(const Device& device, const Problem& problem,
                                                         const Legal& legal, const Partners& partners);

}  // namespace tw::place
