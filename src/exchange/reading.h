// A row as the tile executes it: send items and control events decoded from the words (hardware.md 3.11, pass
// 1). Knows nothing of how rows are made. Times are local events of the tile (= cycles) from the row's start.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tw::exchange {

struct SendRun {                       // one message, or a part of it that no other instruction interrupts
  std::uint32_t event = 0, words = 0;  // item k at event + k
  std::uint32_t address = 0;           // word address of item 0
  std::uint32_t control = 0;
};

struct TimedValue {
  std::uint32_t cycle = 0;
  std::uint32_t value = 0;
};

struct Reading {
  std::vector<SendRun> sends;        // ascending
  std::vector<TimedValue> selects;   // mux, ascending
  std::vector<TimedValue> pointers;  // word addresses, ascending
  std::uint32_t events = 0;
  std::uint32_t words = 0;  // of the row, the return in
  std::vector<std::string> faults;
};

// Reads up to the return or the first fault that hides what follows; what stands behind is left alone.
Reading read_row(std::span<const std::uint32_t> words);

}  // namespace tw::exchange
