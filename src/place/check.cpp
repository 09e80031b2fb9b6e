// Legality of a placement by the rules alone: deliberately shares nothing with the solver.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "place/place.h"

namespace tw::place {
namespace {

struct Span {
  std::uint64_t begin, end;
};

Span span_of(const Problem& problem, const std::vector<std::uint32_t>& addresses, std::size_t i) {
  return {addresses[i], std::uint64_t{addresses[i]} + problem.requests[i].bytes};
}

bool covered(const Span& span, const std::vector<Range>& ranges) {
  std::uint64_t at = span.begin;
  for (bool moved = true; at < span.end && moved;) {
    moved = false;
    for (const Range& r : ranges) {
      if (r.begin > at || at >= r.end) continue;
      at = r.end;
      moved = true;
    }
  }
  return at >= span.end;
}

void check_request(const Device& device, const Problem& problem, const Placement& placement, std::size_t i,
                   std::vector<std::string>& broken) {
  const Request& r = problem.requests[i];
  const Span s = span_of(problem, placement.address, i);
  if (s.begin % r.alignment != 0)
    broken.push_back(fmt::format("request {}: address 0x{:x} is no multiple of {}", i, s.begin, r.alignment));
  if (r.bytes == 0) return;
  if (s.begin < device.interleaved_base && s.end > device.interleaved_base)
    broken.push_back(
        fmt::format("request {}: crosses the region boundary 0x{:x}", i, device.interleaved_base));
  if (r.cls == Class::Interleaved && s.begin < device.interleaved_base)
    broken.push_back(
        fmt::format("request {}: interleaved data at 0x{:x} outside interleaved memory", i, s.begin));
  std::vector<Range> usable = problem.free;
  const bool short_lived = r.first != 0 && r.last != kForever;
  if (r.cls == Class::Standard && short_lived)
    usable.insert(usable.end(), problem.aperture.begin(), problem.aperture.end());
  if (!covered(s, usable))
    broken.push_back(
        fmt::format("request {}: [0x{:x}, 0x{:x}) is outside what it may use", i, s.begin, s.end));
}

void check_overlaps(const Problem& problem, const Placement& placement, std::vector<std::string>& broken) {
  std::vector<std::size_t> by_address(problem.requests.size());
  for (std::size_t i = 0; i < by_address.size(); ++i) by_address[i] = i;
  std::ranges::sort(by_address, {}, [&](std::size_t i) { return placement.address[i]; });
  for (std::size_t i = 0; i < by_address.size(); ++i) {
    const std::size_t a = by_address[i];
    const Span sa = span_of(problem, placement.address, a);
    for (std::size_t j = i + 1; j < by_address.size(); ++j) {
      const std::size_t b = by_address[j];
      const Span sb = span_of(problem, placement.address, b);
      if (sb.begin >= sa.end) break;
      const Request &ra = problem.requests[a], &rb = problem.requests[b];
      if (ra.bytes == 0 || rb.bytes == 0 || ra.last < rb.first || rb.last < ra.first) continue;
      broken.push_back(fmt::format("requests {} and {} overlap at 0x{:x} at step {}", a, b, sb.begin,
                                   std::max(ra.first, rb.first)));
    }
  }
}

std::set<std::uint32_t> elements_of(const Device& device, const Span& s) {
  std::set<std::uint32_t> elements;
  const std::uint32_t grain = std::min(device.element_bytes, device.pair_bytes);
  for (std::uint64_t a = s.begin; a < s.end; a += grain)
    elements.insert(element_of(device, static_cast<std::uint32_t>(a)));
  if (s.end > s.begin) elements.insert(element_of(device, static_cast<std::uint32_t>(s.end - 1)));
  return elements;
}

// The lowest element that both touch.
std::optional<std::uint32_t> shared_element(const Device& device, const Span& a, const Span& b) {
  const std::set<std::uint32_t> of_b = elements_of(device, b);
  for (const std::uint32_t e : elements_of(device, a))
    if (of_b.contains(e)) return e;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> check(const Device& device, const Problem& problem, const Placement& placement) {
  std::vector<std::string> broken;
  if (placement.address.size() != problem.requests.size()) {
    broken.push_back(
        fmt::format("{} addresses for {} requests", placement.address.size(), problem.requests.size()));
    return broken;
  }
  for (std::size_t i = 0; i < problem.requests.size(); ++i)
    check_request(device, problem, placement, i, broken);
  check_overlaps(problem, placement, broken);
  for (const auto& [a, b] : problem.separate) {
    const Span of_a = span_of(problem, placement.address, a), of_b = span_of(problem, placement.address, b);
    if (const auto e = shared_element(device, of_a, of_b))
      broken.push_back(fmt::format("requests {} and {} share memory element {}", a, b, *e));
  }
  return broken;
}

std::uint64_t shared_weight(const Device& device, const Problem& problem,
                            const std::vector<std::uint32_t>& addresses) {
  std::uint64_t sum = 0;
  for (const Preference& p : problem.apart) {
    if (shared_element(device, span_of(problem, addresses, p.a), span_of(problem, addresses, p.b)))
      sum += p.weight;
  }
  return sum;
}

}  // namespace tw::place
