// The supervisor's words outside rows: what they do to registers and what they cost (hardware.md 1.3, 4.1;
// decisions.md 11). One rule for whoever follows a program word by word; memory, calls and barriers are
// theirs.
#pragma once
#include <array>
#include <cstdint>

#include "target/isa.h"

namespace tw::isa {

inline constexpr std::uint64_t kCyclesPerWord = 6;

struct SupervisorClock {
  std::uint64_t time = 0;        // cycles
  std::uint64_t setup = 0;       // of `time`, of the fixed setup words executed last
  bool descriptor_word = false;  // the last word was setzi $m2; describes_batch: the one before it was
  bool describes_batch = false;

  void word(const Instr& instr);  // before its effect
  // The tile stands before a row or an inactive host batch: fixed setup words are part of the phase.
  void arrive() { time -= setup; }
  // The tile stands in host_run: host phases are outside the cycles, this call and its descriptor's word,
  // too.
  void arrive_at_host_run() { time -= describes_batch ? 2 * kCyclesPerWord : kCyclesPerWord; }
};

using Registers = std::array<std::uint32_t, 16>;
inline std::uint32_t value_of(const Registers& m, std::uint32_t index) {
  return index == kM15Zero ? 0 : m[index];
}
inline void set(Registers& m, std::uint32_t index, std::uint32_t value) {
  if (index != kM15Zero) m[index] = value;
}

enum class Effect : std::uint8_t {
  Done,    // whatever the word does is done: the next one follows
  Branch,  // the same, but `target` follows
  Other    // not a word of registers and branches alone: nothing is done
};
Effect apply(const Instr& instr, Registers& m, std::uint32_t& target);

}  // namespace tw::isa
