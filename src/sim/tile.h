// State of one simulated tile between two rendezvous, shared by the parts of the simulator.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine.h"
#include "sim/memory.h"
#include "target/device.h"
#include "target/isa.h"
#include "target/supervisor.h"

namespace tw::sim {

// Why a supervisor stands still. All tiles must stand for the same reason (hardware.md 4.1, sync zones).
enum class Stop : std::uint8_t {
  Running,
  Internal,  // sync 3 without a row
  Exchange,  // sync 3 or sans 0 + sync 1, then the call of a row
  External,  // sync 7
  Host,      // one host batch: host_run, or sans 1 + sync 1
  Trap,
  Halted,
  Faulted
};

struct Csr {
  std::uint32_t mux = isa::kMuxNeutral, incoming_base = 0, dcount = 0, outgoing_base = 0;
};
struct HostDescriptor {  // as host_run finds it in memory (decisions.md 16)
  std::uint32_t direction = 0, address = 0, bytes = 0, arena_offset = 0;
};
struct Range {
  std::uint32_t begin = 0, end = 0;
};

struct Tile : isa::SupervisorClock {  // time: cycles since the call began
  std::uint32_t id = 0, pc = 0;
  isa::Registers m{};
  Csr csr;
  std::vector<Range> executable;      // executable segments, ascending
  std::uint64_t instructions = 0;     // executed in this call
  std::optional<std::uint32_t> sans;  // zone of a pending sans
  bool workers_active = false;        // runall without its sync 2
  bool barrier_due = false;           // a kernel ran since the last worker barrier
  bool completed = false;             // stored 1 to the completion word

  Stop stop = Stop::Running;
  bool active = false;          // Exchange: took part by sync 3; Host: called host_run
  std::uint32_t row = 0;        // Exchange
  std::uint32_t trap_code = 0;  // Trap
  HostDescriptor host;          // Host, active
  std::optional<Fault> fault;   // Faulted
  std::uint64_t fp8_clips = 0, macs = 0;
};

struct Context {
  const Device& device;
  Memory& memory;
  const Options& options;
  std::uint64_t step_limit = 0;
};

// Stops the tile with a fault at its present cycle; always false, for use in return statements.
inline bool raise(Tile& tile, FaultKind kind, std::uint32_t address, std::string what) {
  tile.stop = Stop::Faulted;
  tile.fault = Fault{kind, tile.id, address, tile.time, 0, std::move(what)};
  return false;
}

inline bool executable(const Tile& tile, std::uint64_t address, std::uint32_t bytes) {
  for (const Range& r : tile.executable)
    if (address >= r.begin && address + bytes <= r.end) return true;
  return false;
}

}  // namespace tw::sim
