#include "sim/exchange_unit.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "sim/exchange_hazard.h"
#include "target/topology.h"

namespace tw::sim {
namespace {

constexpr std::size_t kGrain = 16;
constexpr std::int64_t kWriteLatency = 52;  // mux arrival to SRAM, plus two events per row (hardware.md 3.1)

// Follows the mux and pointer controls of one receiver and cuts what it takes into copies.
class Receiver {
 public:
  Receiver(Context& context, Tile& tile, const Activity& own, std::vector<Copy>& copies)
      : context_(context), tile_(tile), own_(own), copies_(copies), pointer_(own.first_pointer) {
    write_latency_ = kWriteLatency + 2 * topology::row_of(PhysId{tile.id});
  }

  template <class ActivityOf>
  bool run(const ActivityOf& activity_of) {
    std::uint32_t begin = 0, selected = own_.first_mux;
    for (std::size_t i = 0; i <= own_.mux.size(); ++i) {
      const std::uint32_t end = i < own_.mux.size() ? own_.mux[i].event : own_.end_event;
      if (selected != isa::kMuxNeutral && end > begin && !window(begin, end, selected, activity_of))
        return false;
      if (i == own_.mux.size()) break;
      begin = end;
      selected = own_.mux[i].value;
    }
    tile_.csr.mux = selected;
    return true;
  }

 private:
  bool fault(FaultKind kind, std::int64_t event, std::uint32_t address, const std::string& what) {
    raise(tile_, kind, address, what);
    tile_.fault->cycle = static_cast<std::uint64_t>(std::max<std::int64_t>(event, 0));
    return false;
  }

  // Events [begin, end) with the mux on one sender.
  template <class ActivityOf>
  bool window(std::uint32_t begin, std::uint32_t end, std::uint32_t selected, const ActivityOf& activity_of) {
    if (selected >= context_.device.tiles || selected >= topology::kTiles)
      return context_.options.lenient || fault(FaultKind::EmptyMuxWindow, begin, own_.row_begin,
                                               fmt::format("mux selects {:#x}, which is no tile", selected));
    const PhysId sender{selected}, self{tile_.id};
    const std::int64_t shift = topology::tau(sender, self) + 1;  // send event to mux event
    // A message back to its own tile is a multicast, which travels in both directions (hardware.md 1.4).
    const std::uint32_t direction = sender == self ? 3 : topology::direction(sender, self);
    std::int64_t at = begin - shift;
    const std::int64_t stop = end - shift;
    const Activity& other = activity_of(selected);
    const std::vector<SendRun>& sends = other.sends;
    auto run = sends.begin() + static_cast<std::ptrdiff_t>(other.first_run(at));
    for (; at < stop; ++run) {
      while (run != sends.end() && std::int64_t{run->event} + run->words <= at) ++run;
      const std::int64_t data = run == sends.end() ? stop : std::min<std::int64_t>(run->event, stop);
      if (data > at) {
        if (!context_.options.lenient) return empty(at + shift, selected, "sends nothing");
        at = data;
      }
      if (at >= stop) break;
      const auto skip = static_cast<std::uint32_t>(at - run->event);
      const auto words = static_cast<std::uint32_t>(std::min<std::int64_t>(run->words - skip, stop - at));
      if ((run->control & direction) != direction) {
        if (!context_.options.lenient) return empty(at + shift, selected, "sends in the other direction");
      } else if (!store(at + shift + write_latency_, selected, *run, skip, words)) {
        return false;
      }
      at += words;
    }
    return true;
  }
  bool empty(std::int64_t event, std::uint32_t sender, const char* why) {
    return fault(FaultKind::EmptyMuxWindow, event, own_.row_begin,
                 fmt::format("mux event {}: selected tile {} {}", event, sender, why));
  }

  bool store(std::int64_t event, std::uint32_t sender, const SendRun& run, std::uint32_t skip,
             std::uint32_t words) {
    while (words > 0) {
      while (next_pointer_ < own_.pointers.size() && own_.pointers[next_pointer_].event <= event)
        pointer_ = own_.pointers[next_pointer_++].value;
      std::uint32_t part = words;
      if (next_pointer_ < own_.pointers.size())
        part = static_cast<std::uint32_t>(
            std::min<std::int64_t>(words, own_.pointers[next_pointer_].event - event));
      if (event + part > own_.end_event)
        return fault(FaultKind::StoreAfterRowEnd, std::max<std::int64_t>(event, own_.end_event), pointer_,
                     fmt::format("word of tile {} is stored at event {}, the row ends at {}", sender,
                                 event + part - 1, own_.end_event));
      if (!context_.memory.contains(pointer_, 4 * std::uint64_t{part}))
        return fault(FaultKind::PointerOutOfRange, event, pointer_,
                     fmt::format("{} words of tile {} go to {:#x}", part, sender, pointer_));
      copies_.push_back({sender, run.address + 4 * skip, tile_.id, pointer_, part, run.event + skip,
                         static_cast<std::uint32_t>(event)});
      pointer_ += 4 * part;
      skip += part;
      words -= part;
      event += part;
    }
    return true;
  }

  Context& context_;
  Tile& tile_;
  const Activity& own_;
  std::vector<Copy>& copies_;
  std::int64_t write_latency_ = 0;
  std::uint32_t pointer_;
  std::size_t next_pointer_ = 0;
};

std::optional<Fault> lowest_fault(const std::vector<Tile>& tiles) {
  const Fault* best = nullptr;
  for (const Tile& t : tiles)
    if (t.stop == Stop::Faulted && (best == nullptr || t.fault->cycle < best->cycle)) best = &*t.fault;
  return best == nullptr ? std::nullopt : std::optional(*best);
}

// Ascending, disjoint, touching ranges joined.
std::vector<Range> merged(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> result;
  for (const Range& r : ranges)
    if (!result.empty() && r.begin <= result.back().end)
      result.back().end = std::max(result.back().end, r.end);
    else
      result.push_back(r);
  return result;
}
bool covered(const std::vector<Range>& by, const Range& r) {
  const auto it = std::upper_bound(by.begin(), by.end(), r.begin,
                                   [](std::uint32_t v, const Range& other) { return v < other.begin; });
  return it != by.begin() && std::prev(it)->end >= r.end;
}

// Pieces that stay inside one contention element at both ends: their reads and stores are ordered as a whole
// against every other piece, because the clash rule keeps mixed access to an element apart.
std::vector<Copy> split_at_elements(const Device& device, const Copy& copy) {
  std::vector<Copy> pieces;
  Copy rest = copy;
  while (rest.words > 0) {
    const std::uint32_t room = std::min(element_end(device, rest.source) - rest.source,
                                        element_end(device, rest.destination) - rest.destination);
    Copy piece = rest;
    piece.words = std::min(rest.words, std::max(room / 4, 1U));
    pieces.push_back(piece);
    rest.source += 4 * piece.words;
    rest.destination += 4 * piece.words;
    rest.read_event += piece.words;
    rest.store_event += piece.words;
    rest.words -= piece.words;
  }
  return pieces;
}

}  // namespace

ExchangeUnit::ExchangeUnit(Context& context, std::vector<Tile>& tiles)
    : context_(context), tiles_(tiles), local_(tiles.size()) {}

ExchangeUnit::Result ExchangeUnit::run() {
  Result result;
  const unsigned threads = context_.options.threads;
  parallel_for(tiles_.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) decode_row(context_, tiles_[t], local_[t].activity);
  });
  if ((result.fault = lowest_fault(tiles_))) return result;

  parallel_for(tiles_.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) receive(static_cast<std::uint32_t>(t));
  });
  if (!context_.options.lenient) check_loopbacks();
  if ((result.fault = lowest_fault(tiles_))) return result;

  parallel_for(tiles_.size(), kGrain, threads, [&](std::size_t begin, std::size_t end) {
    constexpr std::size_t kAhead = 6;  // copies are short and scattered: hide the misses
    for (std::size_t t = begin; t < end; ++t) {
      const std::vector<Copy>& copies = local_[t].copies;
      for (std::size_t i = 0; i < copies.size(); ++i) {
        if (i + kAhead < copies.size()) {
          context_.memory.prefetch(copies[i + kAhead].source_tile, copies[i + kAhead].source);
          context_.memory.prefetch(copies[i + kAhead].tile, copies[i + kAhead].destination);
        }
        const Copy& c = copies[i];
        if (!local_[t].ordered && !local_[c.source_tile].ordered)
          context_.memory.copy(c.source_tile, c.source, c.tile, c.destination, 4 * c.words);
      }
    }
  });
  run_ordered();
  for (const Local& l : local_) {
    result.horizon = std::max(result.horizon, l.activity.end_event);
    result.messages += l.activity.messages;
    for (const Copy& c : l.copies) result.words += c.words;
  }
  return result;
}

void ExchangeUnit::receive(std::uint32_t tile) {
  Local& local = local_[tile];
  local.copies.clear();
  local.ordered = false;
  Tile& state = tiles_[tile];
  if (local.activity.empty() && local.activity.first_mux == isa::kMuxNeutral) return;
  Receiver receiver(context_, state, local.activity, local.copies);
  receiver.run([this](std::uint32_t s) -> const Activity& { return local_[s].activity; });
  if (auto hazard = find_hazard(context_.device, local.activity, local.copies);
      hazard && (state.stop != Stop::Faulted || hazard->event < state.fault->cycle)) {
    raise(state, hazard->kind, hazard->address, hazard->what);
    state.fault->cycle = hazard->event;
  }
  local.ordered =
      needs_order(context_.memory.base(), context_.memory.end(), local.activity.sends, local.copies);
}

// Words that only their own tile takes are never delivered (hardware.md 1.4).
void ExchangeUnit::check_loopbacks() {
  std::vector<char> loops(tiles_.size(), 0);
  bool any = false;
  for (std::uint32_t t = 0; t < tiles_.size(); ++t)
    for (const Copy& c : local_[t].copies)
      if (c.source_tile == t) loops[t] = any = true;
  if (!any) return;
  std::vector<std::vector<Range>> elsewhere(tiles_.size());  // send events that another tile takes
  for (const Local& l : local_)
    for (const Copy& c : l.copies)
      if (c.source_tile != c.tile && loops[c.source_tile] != 0)
        elsewhere[c.source_tile].push_back({c.read_event, c.read_event + c.words});
  for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
    if (loops[t] == 0 || tiles_[t].stop == Stop::Faulted) continue;
    const std::vector<Range> taken = merged(std::move(elsewhere[t]));
    for (const Copy& c : local_[t].copies) {
      if (c.source_tile != t || covered(taken, {c.read_event, c.read_event + c.words})) continue;
      raise(tiles_[t], FaultKind::EmptyMuxWindow, c.destination,
            fmt::format("words sent from {:#x} have no destination but their own tile", c.source));
      tiles_[t].fault->cycle = c.store_event;
      break;
    }
  }
}

// Copies that touch a tile whose bytes are both read and stored, or stored twice: every read and store at its
// event, reads before stores at equal numbers (hardware.md 3.11).
void ExchangeUnit::run_ordered() {
  std::vector<Copy> copies;
  for (const Local& l : local_)
    for (const Copy& c : l.copies)
      if (l.ordered || local_[c.source_tile].ordered) {
        const auto pieces = split_at_elements(context_.device, c);
        copies.insert(copies.end(), pieces.begin(), pieces.end());
      }
  if (copies.empty()) return;
  struct Action {
    std::uint64_t key;  // 2 * event + (1 for a store)
    std::uint32_t copy;
  };
  std::vector<Action> actions;
  std::vector<std::size_t> data(copies.size() + 1, 0);  // first word of each copy in the buffer
  for (std::uint32_t i = 0; i < copies.size(); ++i) {
    data[i + 1] = data[i] + copies[i].words;
    actions.push_back({2 * std::uint64_t{copies[i].read_event}, i});
    actions.push_back({2 * std::uint64_t{copies[i].store_event} + 1, i});
  }
  std::sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    return std::pair(a.key, a.copy) < std::pair(b.key, b.copy);
  });
  std::vector<std::uint8_t> bytes(4 * data.back());
  std::vector<std::uint64_t> marks(4 * data.back() / 64 + 1);
  Memory& memory = context_.memory;
  for (const Action& a : actions) {
    const Copy& c = copies[a.copy];
    const std::size_t at = 4 * data[a.copy];
    if (a.key % 2 == 0) {
      std::copy_n(memory.at(c.source_tile, c.source), 4 * c.words,
                  bytes.begin() + static_cast<std::ptrdiff_t>(at));
      memory.save_marks(c.source_tile, c.source, 4 * c.words, marks.data(), at);
    } else {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 4 * c.words,
                  memory.at(c.tile, c.destination));
      memory.restore_marks(c.tile, c.destination, 4 * c.words, marks.data(), at);
    }
  }
}

}  // namespace tw::sim
