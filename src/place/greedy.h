// First-fit placement in a given order; the three orders of compiler.md 8.2.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "place/arena.h"

namespace tw::place {

enum class Order { Lifetime, Size, LongLived };

struct Greedy {
  std::vector<std::uint32_t> address;   // complete unless `failed` is set
  std::optional<std::uint32_t> failed;  // first request without a legal start
  Holes holes;                          // for `failed`: what is free over its lifetime
};

std::vector<std::uint32_t> sorted_requests(const Problem& problem, Order order);
// Each request takes the lowest of the starts where it breaks least of `wishes`.
// `by_first`: the order ascends in `first`, so that what is over can be forgotten (faster, same result).
Greedy first_fit(const Device& device, const Problem& problem, const Legal& legal, const Partners& partners,
                 const Wishes& wishes, const std::vector<std::uint32_t>& order, bool by_first);

}  // namespace tw::place
