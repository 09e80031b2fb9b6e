#include "place/legal.h"

#include <algorithm>

namespace tw::place {
namespace {

std::vector<Range> joined(const Device& device, std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> out;
  for (const Range& r : ranges) {
    if (r.begin >= r.end) continue;
    if (!out.empty() && out.back().end == r.begin && r.begin != device.interleaved_base)
      out.back().end = r.end;
    else
      out.push_back(r);
  }
  return out;
}

}  // namespace

Legal::Legal(const Device& device, const Problem& problem) {
  std::vector<Range> all = problem.free;
  all.insert(all.end(), problem.aperture.begin(), problem.aperture.end());
  transient = joined(device, std::move(all));
  resident = joined(device, problem.free);
  for (const Range& r : resident)
    if (r.begin >= device.interleaved_base) interleaved.push_back(r);
}

std::uint64_t total_bytes(const std::vector<Range>& ranges) {
  std::uint64_t sum = 0;
  for (const Range& r : ranges) sum += r.end - r.begin;
  return sum;
}

Range element_span(const Device& device, std::uint32_t begin, std::uint32_t bytes) {
  const std::uint32_t last = begin + std::max(bytes, 1u) - 1;
  const auto unit_start = [&](std::uint32_t a) {
    if (a < device.interleaved_base) return a / device.element_bytes * device.element_bytes;
    const std::uint32_t offset = a - device.interleaved_base;
    return device.interleaved_base + offset / device.pair_bytes * device.pair_bytes;
  };
  const std::uint32_t unit = last < device.interleaved_base ? device.element_bytes : device.pair_bytes;
  return {unit_start(begin), unit_start(last) + unit};
}

Partners partners_of(const Problem& problem) {
  Partners partners(problem.requests.size());
  for (const auto& [a, b] : problem.separate) {
    partners[a].push_back(b);
    partners[b].push_back(a);
  }
  return partners;
}

}  // namespace tw::place
