// The simulated device: loads a package's device image, decodes supervisor words and exchange rows, runs the
// fabric (hardware.md 3.11), kernels natively on tile bytes, host batches; refuses what the hardware would
// refuse (1.4, decisions.md 11-17). Cycles are modelled. It never sees the compiler's intent.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "package/package.h"
#include "target/device.h"

namespace tw::sim {

enum class FaultKind : std::uint8_t {
  UnknownInstruction,
  MisplacedInstruction,
  BadCallTarget,
  KernelContract,
  F16Overflow,
  UndefinedRead,
  ElementClash,
  RowFetchClash,
  EmptyMuxWindow,
  WidthMismatch,
  PointerOutOfRange,
  SendOutOfRange,
  Unaligned,
  StoreAfterRowEnd,
  BadDcount,
  WorkersBusy,
  BarrierMismatch,
  StackOverflow,
  HostLimit,
  StepLimit,
  AddressConflict
};
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind{};
  std::uint32_t tile = 0;     // physical
  std::uint32_t address = 0;  // instruction or data address
  std::uint64_t cycle = 0;
  std::uint32_t phase = 0;  // exchange phases completed in this call
  std::string what;         // one line: kernel, operand, event, ...
};

struct Options {
  bool lenient = false;       // experiments: empty mux windows write nothing
  bool saturate_f16 = false;  // overflow saturates instead of faulting
  unsigned threads = 0;
};

// Cycles of one call, host phases excluded (decisions.md 12, 13).
struct CallStats {
  std::uint64_t cycles = 0, compute_cycles = 0, exchange_cycles = 0, sync_cycles = 0, host_cycles = 0;
  std::uint32_t exchange_phases = 0;
  std::vector<std::uint64_t> phase_ends;  // cycle of the call at which each exchange phase was over
  std::uint64_t fp8_clips = 0, messages = 0, words_moved = 0, macs = 0;
};
struct CallResult {
  std::optional<Fault> fault;
  CallStats stats;
  std::vector<std::vector<std::uint8_t>> outputs;  // one per Output binding, row-major
};

class Machine {
 public:
  // Throws Error{File} when the image breaks a loader rule. The image must outlive the machine.
  Machine(const Device& device, const package::DeviceImage& image, const Options& options);
  ~Machine();

  // Boots every tile, sets the number of `run` calls, performs call "initialize" (uploads the weights).
  CallResult initialize(const std::vector<std::vector<std::uint8_t>>& weights, std::uint32_t calls);
  // One call "run": inputs in Input-binding order.
  CallResult run(const std::vector<std::vector<std::uint8_t>>& inputs, Progress* progress = nullptr);

  // Called when every tile stands at trap `index` (0, 1, ... per call); may read memory.
  void on_trap(std::function<void(std::uint32_t index)> callback);
  std::vector<std::uint8_t> read(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes) const;
  // XXH3 over the never-written maps of all tiles.
  std::uint64_t written_map_digest() const;
  bool halted() const;  // every supervisor has reached completion

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tw::sim
