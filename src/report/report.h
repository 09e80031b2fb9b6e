// The figures of a package as one value, made from the package alone: what every tile holds at every step,
// what it exchanges, and what each phase takes. docs/report.md has the written form and what each figure
// means.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "package/package.h"
#include "target/device.h"

namespace tw::report {

// Buffers of a tile, ascending by address, then by first step. Equal lists of several tiles are stored once.
struct Buffer {
  std::uint32_t tensor = 0;              // into Report::tensors
  std::uint32_t address = 0, bytes = 0;  // address 0: found no place (build_unplaced)
  std::uint32_t taken = 0;               // access tail and padding in: what counts as live
  std::uint32_t first = 0, last = 0;     // inclusive; 0 = upload, otherwise step index + 1; last <= steps
  bool interleaved = false;              // asks for interleaved memory
  bool parameter = false;                // holds weights, from upload to the end
  bool operator==(const Buffer&) const = default;
  auto operator<=>(const Buffer&) const = default;
};

struct Tile {                                                             // index = physical tile
  std::uint32_t logical = 0, list = 0;                                    // list: into Report::lists
  std::uint64_t peak_bytes = 0, peak_standard = 0, peak_interleaved = 0;  // live at the fullest step
  std::uint32_t peak_step = 0;
  std::uint64_t resident_bytes = 0;                // live from upload to the end
  std::uint64_t free_bytes = 0, largest_hole = 0;  // at the fullest step, host aperture in
  std::uint32_t holes = 0;
  std::uint32_t table_bytes = 0, program_bytes = 0;
  std::uint64_t messages = 0, windows = 0, words = 0;  // static phases, a Repeat's body once
  std::uint64_t kernel_cycles = 0, row_cycles = 0;     // of one call, a Repeat's body all iterations
};

// The fullest tile at each point (index 0 = upload, otherwise step index + 1).
struct Fullest {
  std::uint64_t bytes = 0, standard = 0, interleaved = 0;  // each class on its own fullest tile
  std::uint32_t tile = 0;                                  // physical, of `bytes`
};

struct Phase {                             // static exchange phase
  std::uint32_t step = 0, iterations = 1;  // step: index + 1
  std::uint32_t horizon = 0;               // the longest row
  std::uint32_t horizon_tile = 0, tiles = 0, row_bytes_max = 0;
  std::uint64_t messages = 0, windows = 0, words = 0;  // of one iteration, over all tiles
  std::uint64_t bound = 0;  // most words that one tile sends or receives: no row set is shorter
  std::uint32_t bound_tile = 0;
  std::uint64_t exchange_cycles = 0;  // (horizon + phase constant) * iterations
  std::uint64_t kernel_cycles_max =
      0;                          // of the busiest tile between the phase before and this one, all iterations
  double kernel_cycles_mean = 0;  // over all tiles
  std::uint32_t kernel_tile = 0;
  std::uint64_t before_cycles = 0;  // from the phase before until the last tile is there, all iterations
};

// Calls of one kernel before one phase, all iterations.
struct KernelUse {
  std::uint32_t phase = 0;              // index; the number of phases: behind the last
  std::uint16_t code = 0;               // kernel::Code
  std::uint64_t calls = 0, cycles = 0;  // over all tiles
  std::uint64_t cycles_max = 0;         // of the tile that spends most on it
  std::uint64_t macs = 0;               // multiply-adds over all tiles, padding in; 0: no product
};

// A turn of a tile's mux to a sender: `words` words arrive there at the tile's own events from `begin` on,
// one an event (a package whose sender is silent meanwhile does not run).
struct Window {
  std::uint32_t begin = 0, words = 0, source = 0;  // source: physical tile
  std::uint32_t address = 0;                       // byte address that the first word goes to; 0: none set
  std::uint32_t tensor = kNoTensor;                // that stands there; into Report::tensors
  static constexpr std::uint32_t kNoTensor = UINT32_MAX;
};

// Exchange row of one tile in one phase; in a Repeat as in its first iteration, later ones read other
// addresses.
struct Row {
  std::uint32_t bytes = 0, events = 0;   // events: cycles from the first instruction to the return
  std::uint32_t messages = 0;            // streams sent
  std::uint64_t sent = 0, received = 0;  // words
  std::vector<Window> windows;           // ascending
  std::string fault;                     // of the words; empty: none
  bool active() const { return messages > 0 || !windows.empty(); }
};

// One barrier of a call as it runs, Repeats in all iterations.
struct Meeting {
  std::uint32_t phase = 0;   // static exchange phase, or one of:
  std::uint64_t cycles = 0;  // from the release before until the last tile arrives
  std::uint32_t latest_tile = UINT32_MAX;
  static constexpr std::uint32_t kCheckpoint = UINT32_MAX - 1, kEnd = UINT32_MAX;
};

struct Area {              // memory that is not for tensors, the same on every tile but for the bytes used
  std::string name, kind;  // kind: system, code, program, table
  std::uint32_t begin = 0, end = 0;
};

struct Report {
  Device device;
  std::string file;
  std::uint64_t file_bytes = 0;
  std::string summary_json;
  std::string error_json;  // of a model that does not fit: cli.md's `error`; empty: a package
  std::vector<package::Step> steps;
  std::vector<std::string> tensors;
  std::vector<std::vector<Buffer>> lists;
  std::vector<Tile> tiles;
  std::vector<Fullest> fullest;
  std::vector<Phase> phases;
  std::vector<Area> areas;
  std::vector<Meeting> meetings;  // of one call, in order; the last is its end
  std::uint64_t cycles = 0;  // of one call: all meetings, each phase with its horizon and the phase constant
  std::uint64_t kernel_cycles_after = 0, cycles_after = 0;  // behind the last phase: kernels, busiest; all
  std::vector<KernelUse> kernels;                           // by phase, then by code
  std::vector<std::vector<Row>> rows;                       // per tile and phase
};

// Error{File} when the side section lacks what the report shows.
Report build(const Device& device, const package::Package& package, const std::string& file,
             std::uint64_t file_bytes, unsigned threads);

// The report of a model that does not fit: memory without phases and cycles. Tensors at address 0 found no
// place. `package`: steps, tensors, symbols and weight bindings; as many tiles as the device has, without
// segments.
Report build_unplaced(const Device& device, const package::Package& package, const std::string& error_json);

inline constexpr int kSchemaVersion = 1;
std::string to_json(const Report& report);  // one line
// Chrome trace events (Perfetto): one call, the device on one track, then what each of the named tiles does,
// and its live bytes. `package` is the one that the report was built from.
std::string to_trace(const Report& report, const package::Package& package,
                     const std::vector<std::uint32_t>& tiles);
// The page with the JSON in it: opens offline, needs no server. `other`: a second report to compare with, as
// report/compare.h gives it; empty: none.
std::string to_html(const std::string& json, const std::string& other = "");

}  // namespace tw::report
