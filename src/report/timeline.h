// When one call of a package does what: all tiles meet at every barrier (decisions.md 11-13, as the
// simulator).
#pragma once
#include <vector>

#include "package/package.h"
#include "report/report.h"
#include "report/walk.h"

namespace tw::report {

// Indexes of the steps that a call executes, in order: a Repeat's body as often as it runs, its end each
// time. Error{File} when a Repeat is too long to follow.
std::vector<std::uint32_t> steps_of_call(const std::vector<package::Step>& steps, const std::string& file);

// A walk at the start of the cycles of a call: behind the host batches that upload weights and inputs.
// Error{File} when the program does not come there.
TileWalk walk_of_call(const package::DeviceImage& image, std::uint32_t tile, std::uint32_t program,
                      const std::string& file);
// To the next barrier, which must be `expected`; else Error{File}. `work`: as in TileWalk::next.
Stretch next_meeting(TileWalk& walk, const Meeting& expected, std::uint32_t tile, const std::string& file,
                     std::vector<Work>* work = nullptr);

struct TileCall {                            // of one tile
  std::vector<Row> rows;                     // of each static phase, when it runs first
  std::vector<std::uint64_t> kernel_cycles;  // before each phase, all its runs; then behind the last
  std::vector<KernelUse> kernels;            // by phase, then by code
};
// Follows every tile through one call. Fills `meetings` but their phases' own cycles.
std::vector<TileCall> follow_call(const package::DeviceImage& image, std::uint32_t program, unsigned threads,
                                  Report& report);

}  // namespace tw::report
