// Live bytes and holes of one tile.
#pragma once
#include <utility>
#include <vector>

#include "report/report.h"

namespace tw::report {

// Bytes of memory that tensors may use: [begin, end), ascending, disjoint.
using Ranges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
Ranges tensor_ranges(const Device& device, const std::vector<Area>& areas);

struct Live {
  std::uint64_t standard = 0, interleaved = 0;
  std::uint64_t bytes() const { return standard + interleaved; }
  bool operator==(const Live&) const = default;
};
// One entry per point: upload, then the steps.
std::vector<Live> live_bytes(const std::vector<Buffer>& buffers, std::size_t steps);

struct Holes {
  std::uint64_t bytes = 0, largest = 0;
  std::uint32_t count = 0;
};
Holes holes_at(const std::vector<Buffer>& buffers, std::uint32_t step, const Ranges& ranges);

}  // namespace tw::report
