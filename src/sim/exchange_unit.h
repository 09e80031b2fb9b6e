// Exchange rows and fabric of all tiles for one phase (hardware.md 3.11; faults of 1.4 and decisions.md 14).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/exchange_row.h"
#include "sim/tile.h"

namespace tw::sim {

// Consecutive words from one tile's memory to another's. Reads happen at read_event + k of the source's
// clock, stores at store_event + k of the destination's.
struct Copy {
  std::uint32_t source_tile = 0, source = 0;  // byte address
  std::uint32_t tile = 0, destination = 0;
  std::uint32_t words = 0, read_event = 0, store_event = 0;
};

class ExchangeUnit {
 public:
  ExchangeUnit(Context& context, std::vector<Tile>& tiles);

  struct Result {
    std::uint32_t horizon = 0;  // events of the longest row
    std::uint64_t messages = 0, words = 0;
    std::optional<Fault> fault;  // lowest (event, tile); its cycle counts events. Nothing was stored then.
  };
  // Runs the rows at which all tiles stand.
  Result run();

 private:
  struct Local {  // of one tile
    Activity activity;
    std::vector<Copy> copies;  // into this tile, by store event
    bool ordered = false;      // reads and stores of one byte in this phase: event order matters
  };
  void receive(std::uint32_t tile);
  void check_loopbacks();
  void run_ordered();

  Context& context_;
  std::vector<Tile>& tiles_;
  std::vector<Local> local_;
};

}  // namespace tw::sim
