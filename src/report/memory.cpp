#include "report/memory.h"

#include <algorithm>

namespace tw::report {

Ranges tensor_ranges(const Device& device, const std::vector<Area>& areas) {
  Ranges taken;
  for (const Area& a : areas) taken.emplace_back(a.begin, a.end);
  std::ranges::sort(taken);
  Ranges free;
  std::uint32_t at = device.memory_base;
  auto add = [&](std::uint32_t begin, std::uint32_t end) {  // nothing stands across the start of region 1
    const std::uint32_t split = std::clamp(device.interleaved_base, begin, std::max(begin, end));
    if (begin < split) free.emplace_back(begin, split);
    if (split < end) free.emplace_back(split, end);
  };
  for (const auto& [begin, end] : taken) {
    add(at, begin);
    at = std::max(at, end);
  }
  add(at, device.memory_end);
  return free;
}

std::vector<Live> live_bytes(const std::vector<Buffer>& buffers, std::size_t steps) {
  std::vector<Live> change(steps + 2), live(steps + 1);
  for (const Buffer& b : buffers) {  // wraps where bytes end, and is whole again after the sum
    (b.interleaved ? change[b.first].interleaved : change[b.first].standard) += b.taken;
    (b.interleaved ? change[b.last + 1].interleaved : change[b.last + 1].standard) -= b.taken;
  }
  Live now;
  for (std::size_t s = 0; s <= steps; ++s) {
    now.standard += change[s].standard;
    now.interleaved += change[s].interleaved;
    live[s] = now;
  }
  return live;
}

Holes holes_at(const std::vector<Buffer>& buffers, std::uint32_t step, const Ranges& ranges) {
  Holes holes;
  auto b = buffers.begin();
  for (const auto& [begin, end] : ranges) {
    std::uint32_t at = begin;
    auto hole = [&](std::uint32_t until) {
      if (until <= at) return;
      holes.bytes += until - at;
      holes.largest = std::max<std::uint64_t>(holes.largest, until - at);
      ++holes.count;
    };
    for (; b != buffers.end() && b->address < end; ++b) {
      if (b->address == 0 || b->first > step || b->last < step) continue;
      hole(std::min(b->address, end));
      at = static_cast<std::uint32_t>(std::max<std::uint64_t>(at, std::uint64_t{b->address} + b->taken));
    }
    hole(end);
  }
  return holes;
}

}  // namespace tw::report
