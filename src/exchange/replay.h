// The fabric on symbolic words: which source word every store of a tile gets (hardware.md 3.11, pass 2).
// Internal to exchange/.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/reading.h"

namespace tw::exchange {

struct Store {
  std::uint32_t event = 0;
  std::uint32_t address = 0;         // word address
  std::uint32_t source_event = 0;    // event of the read on the source
  std::uint32_t source_address = 0;  // word address
  PhysId source;
};

// Stores of `tile` in order of events; faults of windows, pointers and the row's end go to `faults`.
std::vector<Store> stores_of(const Device& device, PhysId tile, const std::vector<Reading>& by_tile,
                             std::vector<std::string>& faults);

// Send reads against incoming stores on one element (decision 14).
void check_elements(const Device& device, PhysId tile, const Reading& reading,
                    const std::vector<Store>& stores, std::vector<std::string>& faults);

}  // namespace tw::exchange
