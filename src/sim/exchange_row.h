// A row decoded into what it does and when (hardware.md 3.1, 3.2, 3.11 pass 1). Events are local tile cycles.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/tile.h"

namespace tw::sim {

struct SendRun {  // contiguous items; item k is read at address + 4k and leaves at event + k
  std::uint32_t event = 0, words = 0, address = 0;
  std::uint32_t control = 0;  // direction bits
};
struct Control {
  std::uint32_t event = 0;
  std::uint32_t value = 0;  // mux: sender id or neutral; pointer: byte address
};
struct Activity {
  std::vector<SendRun> sends;                      // ascending, disjoint
  std::vector<Control> mux, pointers;              // ascending
  std::uint32_t row_begin = 0, row_end = 0;        // byte addresses of the executing row
  std::uint32_t end_event = 0;                     // events of the whole row = the tile's horizon
  std::uint32_t first_mux = 0, first_pointer = 0;  // registers when the row began
  std::uint32_t messages = 0;                      // streams opened
  // Send runs by time: run_at[event >> bucket_shift] is the first that ends behind the bucket's first event.
  std::vector<std::uint32_t> run_at;
  std::uint32_t bucket_shift = 0;

  bool empty() const { return sends.empty() && mux.empty() && pointers.empty(); }
  // Index of the first send run that ends behind `event`; sends.size(): none.
  std::size_t first_run(std::int64_t event) const {
    if (event < 0) return 0;
    const auto bucket = static_cast<std::uint64_t>(event) >> bucket_shift;
    std::size_t i = bucket < run_at.size() ? run_at[bucket] : sends.size();
    while (i < sends.size() && std::int64_t{sends[i].event} + sends[i].words <= event) ++i;
    return i;
  }
};

// Decodes the row at tile.row; base registers written inside it stay written. False: the tile faulted, its
// fault's cycle counts events since the row's start.
bool decode_row(Context& context, Tile& tile, Activity& activity);

}  // namespace tw::sim
