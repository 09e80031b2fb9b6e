// Two kinds of failure: Error (the user's input or model cannot be served; exit codes of cli.md) and
// InternalError (a broken invariant, a bug of ours; exit code 1). Nothing else is thrown on purpose.
#pragma once
#include <cstdint>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace tw {

enum class ErrorKind {
  Usage,
  Capacity,
  Fragmentation,
  Contiguity,
  ExchangeTable,
  Fragments,
  Code,
  HostBuffer,
  SubWord,
  UnsupportedOp,
  File,
  Io,
  Shape,
  Numeric,
  DeviceFault
};

int exit_code(ErrorKind kind);          // 2 usage, 3 does not fit, 4 bad file or io, 5 check failed
const char* kind_name(ErrorKind kind);  // the JSON spelling of cli.md, e.g. "exchange-table"

// One tensor alive on the limiting tile at the limiting step. Sizes in bytes.
struct LiveTensor {
  std::string tensor, role, shape, precision;
  std::uint64_t bytes = 0, padding_bytes = 0;
  std::int64_t first_step = 0, last_step = 0;
};

struct Suggestion {
  std::string change;
  std::uint64_t saves_bytes = 0;
};

// A part of what is needed or reserved: bytes, or fragments where these are counted.
struct Share {
  std::string what;
  std::uint64_t amount = 0;
};
struct MemoryRange {
  std::uint32_t begin = 0, end = 0;  // byte addresses
};

// The fields of cli.md "The message of a model that does not fit". Bytes; tiles are logical.
struct CapacityDetail {
  std::uint32_t tile = 0, physical_tile = 0;
  std::int64_t step = 0, steps = 0;  // steps: of the program, 0 when there is none yet
  std::string step_path, memory_class;
  std::vector<MemoryRange> ranges;  // capacity: the memory that the live tensors may use
  std::uint64_t needed_bytes = 0, available_bytes = 0, missing_bytes = 0, largest_hole_bytes = 0;
  std::uint64_t estimated_bytes = 0;  // of the plan on its fullest tile, by the planner; 0: no plan
  std::uint32_t holes = 0;            // fragmentation: pieces that the available bytes are in
  std::string cause;                  // one sentence, from what is alive and not from the request that failed
  std::vector<Share> parts;           // largest shares of the needed amount, or what reserves memory
  std::uint32_t failing_tiles = 0;
  std::vector<std::uint32_t> first_tiles;  // up to five of them, ascending
  std::vector<LiveTensor> live;
  std::vector<Suggestion> suggestions;
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind k, const std::string& message) : std::runtime_error(message), kind(k) {}
  Error(ErrorKind k, const std::string& message, CapacityDetail d)
      : std::runtime_error(message), kind(k), capacity(std::move(d)) {}
  ErrorKind kind;
  std::optional<CapacityDetail> capacity;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const std::string& what,
                             std::source_location where = std::source_location::current());

}  // namespace tw

// Invariant: throws InternalError with the place in every build type.
#define TW_CHECK(condition, what)                         \
  do {                                                    \
    if (!(condition)) ::tw::fail_check(#condition, what); \
  } while (false)
