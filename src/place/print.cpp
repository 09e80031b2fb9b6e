#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "place/place.h"

namespace tw::place {

std::string print(const Problem& problem, const Placement& placement) {
  std::vector<std::uint32_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return placement.address[i]; });

  std::string text;
  const auto out = std::back_inserter(text);
  for (const Range& r : problem.free) fmt::format_to(out, "free     [0x{:05x}, 0x{:05x})\n", r.begin, r.end);
  for (const Range& r : problem.aperture)
    fmt::format_to(out, "aperture [0x{:05x}, 0x{:05x})\n", r.begin, r.end);
  for (std::uint32_t i : order) {
    const Request& r = problem.requests[i];
    const std::uint32_t begin = placement.address[i];
    fmt::format_to(out, "[0x{:05x}, 0x{:05x}) {} steps {}..{} align {} request {}\n", begin, begin + r.bytes,
                   r.cls == Class::Interleaved ? "interleaved" : "standard", r.first,
                   r.last == kForever ? "end" : fmt::format("{}", r.last), r.alignment, i);
  }
  for (const auto& [a, b] : problem.separate) fmt::format_to(out, "separate {} {}\n", a, b);
  fmt::format_to(out, "peak {} bytes at step {}\n", placement.peak_live_bytes, placement.peak_step);
  return text;
}

}  // namespace tw::place
