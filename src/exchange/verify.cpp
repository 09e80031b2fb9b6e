#include <algorithm>

#include <fmt/core.h>

#include "base/math.h"
#include "exchange/exchange.h"
#include "exchange/pieces.h"

namespace tw::exchange {
namespace {

constexpr std::size_t kMaxFaults = 50;

}  // namespace

std::string fault_of(const Device& d, const Transfer& t, const std::vector<Receiver>& receivers,
                     std::uint32_t iterations) {
  if (t.source.value >= d.tiles) return fmt::format("source tile {} does not exist", t.source.value);
  if (t.words == 0) return "no words";
  if (t.source_address % 4 || t.source_stride % 4) return "source address or stride is no multiple of 4";
  const std::uint64_t bytes = 4ull * t.words;
  const std::uint64_t last =
      t.source_address + static_cast<std::uint64_t>(t.source_stride) * (iterations - 1) + bytes;
  if (t.source_address < d.memory_base || last > d.memory_end) {
    return fmt::format("source [{:#x}, {:#x}) is outside memory", t.source_address, last);
  }
  if (t.receiver_count == 0) return "no receiver";
  if (static_cast<std::uint64_t>(t.first_receiver) + t.receiver_count > receivers.size()) {
    return "receivers outside the list";
  }
  std::vector<std::uint32_t> tiles;
  for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
    const Receiver& r = receivers[t.first_receiver + k];
    if (r.tile.value >= d.tiles) return fmt::format("receiver tile {} does not exist", r.tile.value);
    if (r.address % 4) return "destination address is no multiple of 4";
    if (r.address < d.memory_base || r.address + bytes > d.memory_end) {
      return fmt::format("destination [{:#x}, {:#x}) is outside memory", r.address, r.address + bytes);
    }
    if (r.tile == t.source) {
      if (t.receiver_count == 1) return "the only receiver is the source";
      if (overlaps(t.source_address, bytes, t.source_stride, iterations, r.address, bytes)) {
        return "the source receives over the words it sends";
      }
    }
    tiles.push_back(r.tile.value);
  }
  std::ranges::sort(tiles);
  if (std::ranges::adjacent_find(tiles) != tiles.end()) return "a tile receives the transfer twice";
  return {};
}

std::vector<std::string> verify(const Device& device, const Problem& problem) {
  std::vector<std::string> faults;
  if (problem.iterations == 0) return {"no iterations"};
  for (std::size_t i = 0; i < problem.transfers.size() && faults.size() < kMaxFaults; ++i) {
    const std::string fault = fault_of(device, problem.transfers[i], problem.receivers, problem.iterations);
    if (!fault.empty()) faults.push_back(fmt::format("transfer {}: {}", i, fault));
  }
  return faults;
}

std::vector<std::uint32_t> estimate_row_bytes(const Problem& problem, std::uint32_t tiles) {
  const Pieces p = coalesce(problem);
  std::vector<std::uint32_t> bytes(tiles, 0), next(tiles, UINT32_MAX);
  auto row = [&](PhysId tile) -> std::uint32_t& {
    std::uint32_t& b = bytes[tile.value];
    if (b == 0) b = 8;
    return b;
  };
  for (const Transfer& t : p.list) {
    row(t.source) += t.words > 64 ? 12 : 8;
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const Receiver& r = p.receivers[k];
      row(r.tile) += next[r.tile.value] == r.address ? 8 : 12;
      next[r.tile.value] = r.address + 4 * t.words;
    }
  }
  for (std::uint32_t& b : bytes) b = up(b, 8u);
  return bytes;
}

std::string print(const Problem& problem) {
  std::string text =
      fmt::format("phase: {} transfers, {} iterations\n", problem.transfers.size(), problem.iterations);
  for (const Transfer& t : problem.transfers) {
    text += fmt::format("  {}:{:#x}", t.source.value, t.source_address);
    if (t.source_stride) text += fmt::format("+{:#x}i", t.source_stride);
    text += fmt::format(" {} words ->", t.words);
    for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
      const Receiver& r = problem.receivers[t.first_receiver + k];
      text += fmt::format(" {}:{:#x}", r.tile.value, r.address);
    }
    text += '\n';
  }
  return text;
}

std::string print(const Schedule& schedule) {
  std::string text = fmt::format("schedule: {} messages, horizon {}, bound {}\n", schedule.messages.size(),
                                 schedule.horizon, schedule.bound_words);
  for (const Message& m : schedule.messages) {
    const Transfer& t = m.transfer;
    text += fmt::format("  @{} {}:{:#x} {} words ->", m.start, t.source.value, t.source_address, t.words);
    for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
      const Receiver& r = schedule.receivers[t.first_receiver + k];
      text += fmt::format(" {}:{:#x}", r.tile.value, r.address);
    }
    text += '\n';
  }
  return text;
}

}  // namespace tw::exchange
