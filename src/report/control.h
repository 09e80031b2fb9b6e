// What the program of one tile does, read from the words in a package: kernel calls with their cycles, and
// the exchange row of every phase. A static reading in program order, no run: a Repeat's body is read once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "package/package.h"
#include "report/report.h"
#include "target/device.h"

namespace tw::report {

struct Row {  // of one phase, as stored; Repeat and setup patches change addresses and senders, not counts
  std::uint32_t address = 0, bytes = 0;
  std::uint32_t events = 0;    // cycles from the first instruction to the return
  std::uint32_t messages = 0;  // streams opened
  std::uint32_t words = 0;     // sent
  std::uint32_t windows = 0;   // times that the mux turns to a sender
  bool operator==(const Row&) const = default;
};
struct TileControl {
  std::vector<Row> rows;              // per static phase
  std::vector<KernelCycles> kernels;  // by the phase that follows them, then behind the last: size rows + 1
};

// `program`: address of the program; `repeats`: iterations of each Repeat in program order. Stops at the
// first word that is no instruction.
TileControl read_control(const package::DeviceImage& image, std::uint32_t tile, std::uint32_t program,
                         std::span<const std::uint32_t> repeats);

}  // namespace tw::report
