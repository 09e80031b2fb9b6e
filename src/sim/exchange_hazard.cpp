#include "sim/exchange_hazard.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace tw::sim {
namespace {

constexpr std::uint32_t kStoreGuard = 5;  // a store at w blocks reads in [w, w + 6)

struct Window {  // accesses at event + k to address + 4k
  std::uint32_t event = 0, address = 0, words = 0;
  std::uint32_t end_event() const { return event + words; }
  std::uint32_t last_byte() const { return address + 4 * words - 1; }
};

bool share_element(const Device& device, std::uint32_t first, std::uint32_t last, std::uint32_t other_first,
                   std::uint32_t other_last) {
  return element_of(device, first) <= element_of(device, other_last) &&
         element_of(device, other_first) <= element_of(device, last);
}

// The parts of a window inside single elements.
std::vector<Window> by_element(const Device& device, Window w) {
  std::vector<Window> parts;
  while (w.words > 0) {
    const std::uint32_t n = std::min(w.words, (element_end(device, w.address) - w.address + 3) / 4);
    parts.push_back({w.event, w.address, n});
    w = {w.event + n, w.address + 4 * n, w.words - n};
  }
  return parts;
}

void keep_earliest(std::optional<Hazard>& best, const Hazard& h) {
  if (!best || h.event < best->event) best = h;
}

void fetch_clash(const Device& device, const Activity& row, const Window& w, const char* what,
                 std::optional<Hazard>& best) {
  if (!share_element(device, w.address, w.last_byte(), row.row_begin, row.row_end - 1)) return;
  for (const Window& part : by_element(device, w))
    if (share_element(device, part.address, part.last_byte(), row.row_begin, row.row_end - 1)) {
      keep_earliest(best, {FaultKind::RowFetchClash, part.event, part.address,
                           fmt::format("{} at {:#x} in the element of the row at {:#x}", what, part.address,
                                       row.row_begin)});
      return;
    }
}

void access_clash(const Device& device, const Window& send, const Window& store,
                  std::optional<Hazard>& best) {
  if (!share_element(device, send.address, send.last_byte(), store.address, store.last_byte())) return;
  for (const Window& r : by_element(device, send))
    for (const Window& w : by_element(device, store)) {
      if (element_of(device, r.address) != element_of(device, w.address)) continue;
      if (r.event >= w.end_event() + kStoreGuard || w.event >= r.end_event()) continue;
      const std::uint32_t event = std::max(r.event, w.event);
      keep_earliest(
          best, {FaultKind::ElementClash, event, r.address,
                 fmt::format("send from {:#x} at events [{}, {}) and stores to {:#x} at [{}, {})", r.address,
                             r.event, r.end_event(), w.address, w.event, w.end_event())});
    }
}

Window window_of(const SendRun& s) { return {s.event, s.address, s.words}; }
Window window_of(const Copy& c) { return {c.store_event, c.destination, c.words}; }

// One bit per word of a tile's memory, cleared by undoing.
class WordSet {
 public:
  explicit WordSet(std::size_t words) : bits_(words / 64 + 2, 0) {}
  // Calls fn(chunk, mask) for the words [first, first + count).
  template <class Fn>
  static void chunks(std::uint32_t first, std::uint32_t count, const Fn& fn) {
    while (count > 0) {
      const std::uint32_t shift = first % 64, n = std::min(64 - shift, count);
      const std::uint64_t ones = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
      fn(first / 64, ones << shift);
      first += n;
      count -= n;
    }
  }
  bool add(std::uint32_t first, std::uint32_t count) {  // true: some word was in the set
    std::uint64_t seen = 0;
    chunks(first, count, [&](std::uint32_t i, std::uint64_t mask) {
      seen |= bits_[i] & mask;
      bits_[i] |= mask;
    });
    return seen != 0;
  }
  bool touches(std::uint32_t first, std::uint32_t count) const {
    std::uint64_t seen = 0;
    chunks(first, count, [&](std::uint32_t i, std::uint64_t mask) { seen |= bits_[i] & mask; });
    return seen != 0;
  }
  void remove(std::uint32_t first, std::uint32_t count) {
    chunks(first, count, [&](std::uint32_t i, std::uint64_t mask) { bits_[i] &= ~mask; });
  }
  std::size_t capacity() const { return bits_.size() * 64; }

 private:
  std::vector<std::uint64_t> bits_;
};

}  // namespace

std::uint32_t element_end(const Device& device, std::uint32_t address) {
  if (address < device.interleaved_base)
    return std::min((address / device.element_bytes + 1) * device.element_bytes, device.interleaved_base);
  return device.interleaved_base +
         ((address - device.interleaved_base) / device.pair_bytes + 1) * device.pair_bytes;
}

std::optional<Hazard> find_hazard(const Device& device, const Activity& row, std::span<const Copy> stores) {
  std::optional<Hazard> best;
  for (const SendRun& s : row.sends) fetch_clash(device, row, window_of(s), "send", best);
  for (const Copy& c : stores) fetch_clash(device, row, window_of(c), "store", best);
  std::size_t first = 0;  // first store whose guard may still reach the send
  for (const SendRun& s : row.sends) {
    const Window send = window_of(s);
    while (first < stores.size() &&
           stores[first].store_event + stores[first].words + kStoreGuard <= send.event)
      ++first;
    for (std::size_t i = first; i < stores.size() && stores[i].store_event < send.end_event(); ++i)
      access_clash(device, send, window_of(stores[i]), best);
  }
  return best;
}

bool needs_order(std::uint32_t memory_base, std::uint32_t memory_end, std::span<const SendRun> sends,
                 std::span<const Copy> stores) {
  const std::size_t words = (memory_end - memory_base) / 4 + 1;
  thread_local WordSet set(words);
  if (set.capacity() < words) set = WordSet(words);
  bool found = false;
  for (const Copy& c : stores) found |= set.add((c.destination - memory_base) / 4, c.words);
  for (const SendRun& s : sends) found |= set.touches((s.address - memory_base) / 4, s.words);
  for (const Copy& c : stores) set.remove((c.destination - memory_base) / 4, c.words);
  return found;
}

}  // namespace tw::sim
