// Where a request may stand, before any other request is placed; shared by the greedy orders and the search.
#pragma once
#include <cstdint>
#include <vector>

#include "place/place.h"

namespace tw::place {

// Only short-lived standard data may use the host aperture (compiler.md 8.3).
inline bool is_transient(const Request& r) {
  return r.cls == Class::Standard && r.first > 0 && r.last < kForever;
}
inline bool lifetimes_meet(const Request& a, const Request& b) {
  return a.first <= b.last && b.first <= a.last;
}
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// Legal byte ranges per kind of request, ascending, touching ranges joined (never over interleaved_base).
struct Legal {
  std::vector<Range> transient, resident, interleaved;

  Legal(const Device& device, const Problem& problem);
  const std::vector<Range>& of(const Request& r) const {
    return r.cls == Class::Interleaved ? interleaved : is_transient(r) ? transient : resident;
  }
};

std::uint64_t total_bytes(const std::vector<Range>& ranges);

// Whole contention elements touched by [begin, begin + bytes).
Range element_span(const Device& device, std::uint32_t begin, std::uint32_t bytes);

// Separation partners of every request.
using Partners = std::vector<std::vector<std::uint32_t>>;
Partners partners_of(const Problem& problem);

inline bool share_element(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace tw::place
