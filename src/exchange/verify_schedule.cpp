// Whether messages can be written as rows at all, by the rules of hardware.md 3.5.
#include <algorithm>

#include <fmt/core.h>

#include "exchange/exchange.h"
#include "exchange/row.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::size_t kMaxFaults = 50;
constexpr std::uint32_t kLastCycle = 1U << 24;  // far beyond any phase; keeps sums in range

std::string message_fault(const Device& d, const Schedule& s, const Message& m) {
  const std::string fault = fault_of(d, m.transfer, s.receivers, s.iterations);
  if (!fault.empty()) return fault;
  if (m.transfer.words > d.max_message_words)
    return fmt::format("{} words, a message has at most {}", m.transfer.words, d.max_message_words);
  if (m.start > kLastCycle)
    return fmt::format("starts at cycle {}, the last possible is {}", m.start, kLastCycle);
  for (std::uint32_t k = 0; k < m.transfer.receiver_count; ++k) {
    const PhysId to = s.receivers[m.transfer.first_receiver + k].tile;
    const int select = static_cast<int>(m.start) + topology::tau(m.transfer.source, to) + 1;
    if (select < 1)
      return fmt::format(
          "starts at cycle {}: tile {} would have to select it at cycle {}, before its row (R4)", m.start,
          to.value, select);
  }
  return {};
}

std::string interval(std::uint32_t begin, std::uint32_t words) {
  return fmt::format("[{}, {})", begin, begin + words);
}

void tile_faults(const TileWork& w, std::vector<std::string>& faults) {
  const std::size_t before = faults.size();
  for (std::size_t i = 1; i < w.sends.size(); ++i) {
    const SendSpan &a = w.sends[i - 1], &b = w.sends[i];
    if (a.start + a.words > b.start)
      faults.push_back(fmt::format("tile {}: sends at {} and {} overlap (S1)", w.tile.value,
                                   interval(a.start, a.words), interval(b.start, b.words)));
  }
  for (std::size_t i = 1; i < w.receives.size(); ++i) {
    const ReceiveSpan &a = w.receives[i - 1], &b = w.receives[i];
    if (a.select + a.words > b.select)
      faults.push_back(fmt::format("tile {}: mux windows {} of tile {} and {} of tile {} overlap (R1)",
                                   w.tile.value, interval(a.select, a.words), a.source.value,
                                   interval(b.select, b.words), b.source.value));
  }
  if (faults.size() > before) return;
  const std::vector<RowControl> controls = controls_of(w);
  for (const SendSpan& s : w.sends) {
    const auto at = std::ranges::lower_bound(controls, s.start + 1, {}, &RowControl::cycle);
    if (at != controls.end() && at->cycle == s.start + 1)
      faults.push_back(
          fmt::format("tile {}: a receive control at cycle {}, the second of the send at {} (S2)",
                      w.tile.value, at->cycle, interval(s.start, s.words)));
  }
  if (faults.size() == before && !alignable(w))
    faults.push_back(
        fmt::format("tile {}: two receive controls on one cycle cannot be aligned (C2)", w.tile.value));
}

}  // namespace

std::vector<std::string> verify(const Device& device, const Schedule& schedule) {
  std::vector<std::string> faults;
  if (schedule.iterations == 0) return {"no iterations"};
  for (std::size_t i = 0; i < schedule.messages.size() && faults.size() < kMaxFaults; ++i) {
    const std::string fault = message_fault(device, schedule, schedule.messages[i]);
    if (!fault.empty()) faults.push_back(fmt::format("message {}: {}", i, fault));
  }
  if (!faults.empty()) return faults;  // the rules between messages need sound ones
  for (const TileWork& w : work_by_tile(device, schedule)) {
    if (faults.size() < kMaxFaults) tile_faults(w, faults);
  }
  return faults;
}

}  // namespace tw::exchange
