// The program of one tile followed word by word from its start: what runs between two barriers, and how long.
// Kernels are not computed and nothing is exchanged; what they cost is known from their arguments. Words cost
// what they cost the simulator (target/supervisor.h, kernel/helper.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "package/package.h"
#include "report/tile_memory.h"
#include "target/supervisor.h"

namespace tw::report {

enum class Barrier : std::uint8_t {
  Exchange,
  Host,   // one host batch
  Other,  // a barrier of all tiles without a row, or a trap
  End     // no more words to follow
};

struct Work {
  enum Kind : std::uint8_t { Supervisor, Kernel, RowSetup } kind = Supervisor;
  std::uint16_t code = 0;  // kernel::Code or kernel::Helper
  std::uint64_t cycles = 0;
  std::uint64_t macs = 0;  // of a product, on physical extents
};

struct Stretch {  // from one barrier to the next
  Barrier barrier = Barrier::End;
  std::uint32_t row = 0;  // Exchange: its address
  std::uint64_t cycles = 0;
};

class TileWalk {
 public:
  // `program`: address of the program.
  TileWalk(const package::DeviceImage& image, std::uint32_t tile, std::uint32_t program);

  // To the next barrier. `work`: what was done is added to it, in order; its cycles are those of the stretch.
  // A program that does not come to a barrier within four million words ends there.
  Stretch next(std::vector<Work>* work = nullptr);
  // As it is at the barrier: the row with its patches.
  const TileMemory& memory() const { return memory_; }

 private:
  std::optional<Barrier> execute(const isa::Instr& instr);
  std::optional<Barrier> call(const isa::Instr& instr);
  std::optional<Barrier> helper(std::uint16_t code);
  std::optional<Barrier> sync(std::uint32_t zone);
  Barrier internal();
  void run_kernel(std::uint32_t header);
  void patch_row();
  void patch_repeat(bool table);
  void spend(Work::Kind kind, std::uint16_t code, std::uint64_t cycles);
  std::uint32_t address_of(const isa::Instr& instr) const;

  TileMemory memory_;
  isa::Registers m_{};
  isa::SupervisorClock clock_;
  std::uint32_t tile_ = 0, pc_ = 0, next_ = 0;
  std::optional<std::uint32_t> sans_;
  Stretch stretch_;
  std::vector<Work>* work_ = nullptr;
  std::uint64_t noted_ = 0;  // cycles of the stretch that stand in `work_`
};

}  // namespace tw::report
