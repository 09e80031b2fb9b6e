#include "report/row.h"

#include <algorithm>
#include <functional>

#include "exchange/reading.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::report {
namespace {

std::uint64_t sum(const auto& entries, auto value) {
  std::uint64_t total = 0;
  for (const auto& e : entries) total += std::invoke(value, e);
  return total;
}

// Turns of the mux to a sender, each up to the next turn or the row's end.
std::vector<Window> windows_of(const exchange::Reading& reading) {
  std::vector<Window> out;
  for (std::size_t i = 0; i < reading.selects.size(); ++i) {
    const exchange::TimedValue& s = reading.selects[i];
    const std::uint32_t end =
        i + 1 < reading.selects.size() ? reading.selects[i + 1].cycle : std::max(reading.events, s.cycle);
    if (s.value != isa::kMuxNeutral) out.push_back({s.cycle, end - s.cycle, s.value});
  }
  return out;
}

// A word is written 52 + 2 rho events behind its arrival, where the pointer stands then (hardware.md 3.1).
void find_addresses(std::vector<Window>& windows, const std::vector<exchange::TimedValue>& pointers,
                    std::uint32_t tile) {
  const std::uint32_t latency = 52 + 2 * topology::row_of(PhysId(tile));
  auto next = pointers.begin();
  std::uint32_t word = 0;  // where the next word goes
  for (Window& w : windows) {
    std::uint32_t at = w.begin + latency;
    const std::uint32_t end = at + w.words;
    for (; next != pointers.end() && next->cycle <= at; ++next) word = next->value;
    w.address = 4 * word;
    for (; next != pointers.end() && next->cycle < end; ++next) word = next->value, at = next->cycle;
    word += end - at;
  }
}

}  // namespace

Row read_row(const TileMemory& memory, std::uint32_t address, std::uint32_t tile) {
  const exchange::Reading reading = exchange::read_row(memory.from(address));
  Row row;
  row.bytes = 4 * reading.words;
  row.events = reading.events;
  row.messages = static_cast<std::uint32_t>(reading.sends.size());
  row.windows = windows_of(reading);
  row.sent = sum(reading.sends, &exchange::SendRun::words);
  row.received = sum(row.windows, &Window::words);
  find_addresses(row.windows, reading.pointers, tile);
  if (!reading.faults.empty()) row.fault = reading.faults.front();
  return row;
}

void name_tensors(Row& row, const std::vector<Buffer>& buffers, std::uint32_t step) {
  std::vector<const Buffer*> live;
  for (const Buffer& b : buffers)
    if (b.first <= step && step <= b.last) live.push_back(&b);
  for (Window& w : row.windows) {
    const auto after =
        std::ranges::upper_bound(live, w.address, {}, [](const Buffer* b) { return b->address; });
    if (after == live.begin()) continue;
    const Buffer& b = **std::prev(after);
    if (w.address - b.address < b.taken) w.tensor = b.tensor;
  }
}

}  // namespace tw::report
