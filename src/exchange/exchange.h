// One exchange phase: transfers in, timed schedule, encoded rows out (hardware.md 3; decisions.md 14, 27-31).
// Knows physical tiles, byte addresses, words (4 B) and events (tile cycles); no tensors, no SRAM placement.
// Pipeline: Problem -> schedule() -> Schedule -> encode() -> Rows; check() decodes and replays independently.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "target/device.h"

namespace tw::exchange {

struct Receiver {
  PhysId tile;
  std::uint32_t address = 0;  // byte address, multiple of 4
  bool operator==(const Receiver&) const = default;
};

// `words` words from source_address (+ iteration * source_stride) of `source` to every receiver.
struct Transfer {
  PhysId source;
  std::uint32_t source_address = 0;  // byte address in iteration 0, multiple of 4
  std::uint32_t source_stride = 0;   // bytes per Repeat iteration, multiple of 4; 0 = fixed
  std::uint32_t words = 0;           // >= 1; longer than max_message_words is split by schedule()
  std::uint32_t first_receiver = 0, receiver_count = 0;  // into Problem::receivers
  bool operator==(const Transfer&) const = default;
};

// Order matters: a later transfer that reads or overwrites bytes of an earlier one depends on it (3.7).
struct Problem {
  std::vector<Transfer> transfers;
  std::vector<Receiver> receivers;
  std::uint32_t iterations = 1;  // of the enclosing Repeat; 1 outside
};
std::vector<std::string> verify(const Device& device, const Problem& problem);
// What is wrong with one transfer whose receivers index `receivers`; empty: nothing.
std::string fault_of(const Device& device, const Transfer& transfer, const std::vector<Receiver>& receivers,
                     std::uint32_t iterations);

// A scheduled message: a coalesced or split piece of the problem's transfers with its start.
struct Message {
  Transfer transfer;        // receivers index Schedule::receivers
  std::uint32_t start = 0;  // S: local event of the first send on the source
};
struct Schedule {
  std::vector<Message> messages;  // dependency-compatible order of the problem
  std::vector<Receiver> receivers;
  std::uint32_t iterations = 1;
  std::uint32_t horizon = 0;      // max over tiles, events
  std::uint32_t bound_words = 0;  // LB: max over tiles of max(words sent, words received)
};
// Rules of the messages alone, hazards of memory elements left out (hardware.md 3.5: S1, S2, R1, R4, C2).
// Empty = good: encode() makes rows of them, and check() says whether these do what a problem asks for.
std::vector<std::string> verify(const Device& device, const Schedule& schedule);

struct Options {
  std::uint32_t stream_words =
      1024;  // B(W): chunking unit of the ordering heuristic (hardware.md 6.5); 0: none
};
// Throws Error{Fragments|...} only for limits; InternalError when verify() would complain.
Schedule schedule(const Device& device, const Problem& problem, const Options& options = {});

// Where an address stands in a row. value(iteration) = words[word] + iteration * step (mod 2^32).
struct Site {
  std::uint32_t word = 0;  // index in Row::words
  std::uint32_t mask = 0;  // address bits of that word (cleared in the normalised row)
  std::uint32_t step = 0;  // instruction-word increment per Repeat iteration; 0 = fixed
  bool operator==(const Site&) const = default;
};
// Row of one tile: instruction words ending in br $m10; must be stored 8-byte aligned. Addresses are absolute
// (INCOMING_BASE = OUTGOING_BASE = 0).
struct Row {
  PhysId tile;
  std::vector<std::uint32_t> words;
  std::vector<Site> sites;                // ascending by word, each word at most once
  std::uint32_t horizon = 0;              // events
  std::uint32_t sends = 0, receives = 0;  // messages (fragments)
  bool operator==(const Row&) const = default;
};
struct Rows {
  std::vector<Row> rows;  // ascending tile; only tiles that send or receive
  std::uint32_t horizon = 0;
};
Rows encode(const Device& device, const Schedule& schedule);

// Independent reading: decodes every row, replays the fabric on symbolic words and compares with what the
// problem asked for, in every iteration; lists timing, hazard (1.4) and delivery faults. Empty = good.
std::vector<std::string> check(const Device& device, const Problem& problem, const Rows& rows);

// The most words that one tile sends or receives in an iteration: no schedule has a shorter horizon.
std::uint64_t bound_words(const Problem& problem);

// Row bytes of a tile before scheduling: 8 + 8 per send (+4 above 64 words) + 8 per receive (+4 when the
// address does not continue), rounded to 8 (compiler.md 6.1). Indexed by physical tile; 0 = inactive.
std::vector<std::uint32_t> estimate_row_bytes(const Problem& problem, std::uint32_t tiles);

std::string print(const Problem& problem);
std::string print(const Schedule& schedule);

}  // namespace tw::exchange
