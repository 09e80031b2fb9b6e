#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "place/place.h"

namespace tw::place {

std::string print(const Problem& problem, const Placement& placement) {
  std::vector<std::uint32_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(placement.address[i], i); });

  std::string text;
  for (const Range& r : problem.free) text += fmt::format("free     [0x{:05x}, 0x{:05x})\n", r.begin, r.end);
  for (const Range& r : problem.aperture)
    text += fmt::format("aperture [0x{:05x}, 0x{:05x})\n", r.begin, r.end);
  for (std::uint32_t i : order) {
    const Request& r = problem.requests[i];
    const std::uint32_t begin = placement.address[i];
    text += fmt::format("[0x{:05x}, 0x{:05x}) {} steps {}..{} align {} request {}\n", begin, begin + r.bytes,
                        r.cls == Class::Interleaved ? "interleaved" : "standard", r.first,
                        r.last == kForever ? "end" : fmt::format("{}", r.last), r.alignment, i);
  }
  for (const auto& [a, b] : problem.separate) text += fmt::format("separate {} {}\n", a, b);
  text += fmt::format("peak {} bytes at step {}\n", placement.peak_live_bytes, placement.peak_step);
  return text;
}

}  // namespace tw::place
