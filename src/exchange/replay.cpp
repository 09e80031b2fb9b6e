#include "exchange/replay.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "target/isa.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::uint32_t kClashEvents = 6;  // a store at w disturbs reads of [w, w + 6)

// Run of `sends` that holds `event`; nullptr: nothing is sent then.
const SendRun* run_at(const std::vector<SendRun>& sends, std::int64_t event) {
  auto it =
      std::ranges::upper_bound(sends, event, {}, [](const SendRun& r) { return std::int64_t{r.event}; });
  if (it == sends.begin()) return nullptr;
  --it;
  return event < std::int64_t{it->event} + it->words ? &*it : nullptr;
}

}  // namespace

std::vector<Store> stores_of(const Device& d, PhysId tile, const std::vector<Reading>& by_tile,
                             std::vector<std::string>& faults) {
  const Reading& me = by_tile[tile.value];
  const std::uint32_t latency = 52 + 2 * topology::row_of(tile);
  std::vector<Store> stores;
  std::size_t pointer = 0;  // next pointer control
  std::int64_t address = -1;
  for (std::size_t i = 0; i < me.selects.size(); ++i) {
    const TimedValue& window = me.selects[i];
    if (window.value == isa::kMuxNeutral) continue;
    const PhysId source(window.value);
    if (source.value >= by_tile.size()) {
      faults.push_back(fmt::format("tile {}: mux selects {}", tile.value, source.value));
      continue;
    }
    if (i + 1 == me.selects.size()) faults.push_back(fmt::format("tile {}: mux stays open", tile.value));
    const std::uint32_t end = i + 1 < me.selects.size() ? me.selects[i + 1].cycle : me.events;
    const int tau = topology::tau(source, tile);
    const std::uint32_t direction = source == tile ? 3 : topology::direction(source, tile);
    const SendRun* run = nullptr;
    for (std::uint32_t e = window.cycle; e < end; ++e) {
      const std::int64_t sent = std::int64_t{e} - 1 - tau;
      if (!run || sent >= std::int64_t{run->event} + run->words)
        run = run_at(by_tile[source.value].sends, sent);
      if (!run || (source == tile ? run->control != 3 : !(run->control & direction))) {
        faults.push_back(
            fmt::format("tile {}: mux selects {} at event {} without data", tile.value, source.value, e));
        break;
      }
      const std::uint32_t w = e + latency;
      while (pointer < me.pointers.size() && me.pointers[pointer].cycle <= w) {
        address = me.pointers[pointer++].value;
      }
      if (address < 0) {
        faults.push_back(fmt::format("tile {}: store at event {} without a pointer", tile.value, w));
        break;
      }
      if (w >= me.events) {
        faults.push_back(fmt::format("tile {}: store at event {} after the row's end", tile.value, w));
      }
      const auto at = static_cast<std::uint32_t>(address++);
      if (4ull * at < d.memory_base || 4ull * at + 4 > d.memory_end) {
        faults.push_back(fmt::format("tile {}: store to {:#x} outside memory", tile.value, 4ull * at));
        break;
      }
      const auto s = static_cast<std::uint32_t>(sent);
      stores.push_back({w, at, s, run->address + (s - run->event), source});
    }
  }
  return stores;
}

void check_elements(const Device& d, PhysId tile, const Reading& reading, const std::vector<Store>& stores,
                    std::vector<std::string>& faults) {
  std::map<std::uint32_t, std::uint32_t> last_store;  // element -> event
  std::size_t next = 0;
  std::uint32_t written_element = UINT32_MAX;
  std::uint32_t* written = nullptr;
  for (const SendRun& run : reading.sends) {
    std::uint32_t read_element = UINT32_MAX;
    for (std::uint32_t k = 0; k < run.words; ++k) {
      const std::uint32_t e = run.event + k;
      for (; next < stores.size() && stores[next].event <= e; ++next) {
        const std::uint32_t element = element_of(d, 4 * stores[next].address);
        if (element != written_element) written = &last_store[element];
        written_element = element;
        *written = stores[next].event;
      }
      read_element = element_of(d, 4 * (run.address + k));
      const auto it = last_store.find(read_element);
      if (it != last_store.end() && e < it->second + kClashEvents) {
        faults.push_back(fmt::format("tile {}: send at event {} reads element {} written at event {}",
                                     tile.value, e, read_element, it->second));
        break;
      }
    }
  }
}

}  // namespace tw::exchange
