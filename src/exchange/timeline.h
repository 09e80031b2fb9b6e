// Busy structures of one tile while a phase is scheduled (hardware.md 3.5). All times are the tile's own
// events. Internal to exchange/.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace tw::exchange {

// Sorted, disjoint busy intervals; holes shorter than `fill` are closed, as nothing fits into them.
class Lane {
 public:
  // First t >= from with [t, t + length) free.
  std::uint32_t next_free(std::uint32_t from, std::uint32_t length) const;
  void insert(std::uint32_t begin, std::uint32_t end, std::uint32_t fill);
  std::uint32_t end() const { return spans_.empty() ? 0 : spans_.back().end; }

 private:
  struct Span {
    std::uint32_t begin, end;
  };
  std::size_t first_ending_after(std::uint32_t t) const;
  std::vector<Span> spans_;
};

class EventSet {
 public:
  bool test(std::uint32_t event) const {
    const std::size_t word = event / 64;
    return word < bits_.size() && (bits_[word] >> (event % 64) & 1);
  }
  void set(std::uint32_t event);
  bool intersects(const EventSet& other) const;

 private:
  std::vector<std::uint64_t> bits_;
};

// One contended SRAM element: read by sends and written by receives of the phase (1.4).
struct ElementLanes {
  Lane reads, writes;
};

struct TileTimeline {
  Lane send, mux;
  EventSet starts;    // starts of sends
  EventSet selects;   // mux controls: source and neutral of every stream, also those that get omitted
  EventSet pointers;  // pointer controls, also those that get omitted
  std::uint64_t contended = 0;                          // element bits both read and written
  std::vector<std::unique_ptr<ElementLanes>> elements;  // by element bit; only contended ones

  bool control_at(std::uint32_t event) const { return selects.test(event) || pointers.test(event); }
};

}  // namespace tw::exchange
