// The per-tile program: buffers, kernel calls, exchange transfers, structured Repeat (compiler.md 5.2). No
// addresses yet, no timing. One list of steps for the whole device; a tile's program is its calls in step
// order plus every exchange step.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kernel/kernel.h"
#include "plan/plan.h"
#include "tensor/layout.h"

namespace tw::tile {

inline constexpr std::uint32_t kForever = UINT32_MAX;

// One allocation on one tile. Event numbers: 0 = upload, step index + 1 otherwise, both inclusive.
struct Buffer {
  TileId tile;
  std::uint32_t bytes = 0;  // of one member, padding included, tail excluded; multiple of 4
  std::uint32_t tail = 0;   // readable bytes wanted behind it
  std::uint32_t alignment = 8;
  tensor::MemoryClass memory = tensor::MemoryClass::Standard;
  std::uint32_t members = 1;  // > 1: a Repeat sequence, member i at address + i * stride()
  std::uint32_t first = 0, last = 0;
  bool pinned = false;  // input, output or parameter: never in the host aperture
  TensorId tensor;      // plan tensor (scratch of a step: the tensor it serves)
  std::uint32_t stride() const { return (bytes + alignment - 1) / alignment * alignment; }
};

// One argument word of a call: an address inside a buffer (of the current iteration's member), or a scalar.
struct Arg {
  BufferId buffer;          // invalid: scalar
  std::uint32_t value = 0;  // byte offset, or the scalar (20 bit)
  bool operator==(const Arg&) const = default;
};
struct Spec {  // kernel specialisation: one code image per distinct spec
  kernel::Code code{};
  std::vector<std::uint32_t> words;
  auto operator<=>(const Spec&) const = default;
};
struct Call {
  TileId tile;
  std::uint32_t spec = 0;  // into Program::specs
  std::array<Arg, 8> args{};
};

struct Receiver {
  BufferId buffer;
  std::uint32_t offset = 0;
};
struct Transfer {
  BufferId source;
  std::uint32_t source_offset = 0, words = 0;
  std::uint32_t first_receiver = 0, receiver_count = 0;  // into Phase::receivers
};
struct Phase {
  std::vector<Transfer> transfers;
  std::vector<Receiver> receivers;
  std::uint32_t iterations = 1;  // of the enclosing Repeat
};

enum class StepKind : std::uint8_t { Compute, Exchange, RepeatBegin, RepeatEnd, Checkpoint };
struct Step {
  StepKind kind = StepKind::Compute;
  std::uint32_t first_call = 0, call_count = 0;  // Compute: into Program::calls, grouped by ascending tile
  std::uint32_t phase = 0;                       // Exchange: into Program::phases
  std::uint32_t count = 1;                       // RepeatBegin: iterations
  std::uint32_t path = 0;                        // into Program::paths
  TensorId checkpoint;                           // Checkpoint: tensor to look at
};

// Host data of one plan tensor: where its shards stand. offset = byte offset in the binding's data.
struct BindingSlice {
  BufferId buffer;
  std::uint32_t buffer_offset = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};
struct Binding {
  TensorId tensor;
  std::uint32_t member = 0;  // which member of a sequence parameter
  std::string name;          // host tensor name
  std::uint64_t bytes = 0;   // of the data; parameters: shard images one after the other (owner order);
                             // inputs, outputs: row-major logical bytes
  std::vector<BindingSlice> slices;
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<Spec> specs;  // ascending, distinct
  std::vector<Call> calls;
  std::vector<Phase> phases;
  std::vector<Step> steps;
  std::vector<std::string> paths;
  std::vector<Binding> weights, inputs, outputs;
  // Buffer pairs on one tile that must not share a contention element (products, loopbacks).
  std::vector<std::pair<BufferId, BufferId>> separate;
};

struct LowerOptions {
  bool checkpoints = false;  // a Checkpoint step after every plan step that completes an operation
};
// Realises the plan's steps; chooses nothing that the cost model tells apart. Throws Error{SubWord} naming
// the tensor when a copy has a run that is not whole aligned words.
Program lower(const plan::Plan& plan, const LowerOptions& options, unsigned threads);

// Every view inside its buffer, every call accepted by its kernel's validate() up to addresses, no two writes
// to one byte in a phase, lifetimes cover uses, sequences uniform. Empty = good.
std::vector<std::string> verify(const Program& program);
std::string print(const Program& program);

// Sends + receives per logical tile over all static phases (compiler.md 12), a Repeat body once.
std::vector<std::uint32_t> fragments_per_tile(const Program& program, std::uint32_t tiles);
std::uint32_t fragments_of(const Program& program, const Phase& phase, TileId tile);  // of one phase

}  // namespace tw::tile
