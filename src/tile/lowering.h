// State of one lower() call, shared by the files that realise the kinds of plan steps. Internal to tile/.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/traverse.h"
#include "tile/program.h"

namespace tw::tile {

// Owner `owner` of a tensor's shard as a rectangle; extents in elements, physical unless they say logical.
// Linear ownership: one row.
struct View {
  BufferId buffer;  // invalid: empty shard
  std::uint32_t outer = 1, rows = 1, cols = 1, logical_rows = 1, logical_cols = 1,
                first = 1;  // first: axis 0
  std::uint32_t elements() const { return outer * rows * cols; }
  std::uint32_t flat_rows() const { return outer * rows; }
  bool empty() const { return elements() == 0; }
};

// Where the tensors' shards stand, by owner and by tile.
struct Placed {
  std::unique_ptr<tensor::ResolvedLayout> layout;
  std::vector<std::uint32_t> canonical;          // per owner: its replica 0
  std::vector<std::uint32_t> first_on, next_on;  // owners of a tile as a list; kNone ends it
};
inline constexpr std::uint32_t kNone = UINT32_MAX;

class Lowering {
 public:
  Lowering(const plan::Plan& plan, unsigned threads);

  const plan::Plan& plan;
  unsigned threads;
  Program program;
  std::uint32_t iterations = 1;  // of the enclosing Repeat
  bool inside_repeat = false;

  const plan::Tensor& tensor(TensorId id) const { return plan.at(id); }
  const Placed& placed(TensorId id) const { return placed_[id.value]; }
  const tensor::ResolvedLayout& layout(TensorId id) const { return *placed_[id.value].layout; }
  TileId tile_of(TensorId id, std::uint32_t owner) const { return TileId(tensor(id).owners.tile_of(owner)); }
  BufferId buffer(TensorId id, std::uint32_t owner) const {
    return buffers_[plan.storage_of(id).value][owner];
  }
  // Owner of `id` on `tile`, `hint` preferred; InternalError when there is none.
  std::uint32_t owner_on(TensorId id, TileId tile, std::uint32_t hint) const;
  View view(TensorId id, std::uint32_t owner) const;
  bool clean_padding(TensorId id) const { return clean_[plan.storage_of(id).value]; }

  BufferId add_scratch(TensorId serves, TileId tile, std::uint32_t bytes);
  void call(TileId tile, kernel::Code code, std::vector<std::uint32_t> spec, std::span<const Arg> args);
  void fill(TileId tile, BufferId buffer, std::uint32_t begin, std::uint32_t end);
  void separate(BufferId a, BufferId b);
  // Ends a Compute step with the calls made since the last one; nothing when there are none.
  void flush();
  void add_step(Step step);
  void set_path(const std::string& path);
  void finish();  // specs in order, lifetimes, unused buffers dropped

 private:
  void add_buffers();
  BufferId add_buffer(Buffer buffer);
  void order_specs();
  std::vector<std::vector<BufferId>> buffers_;  // per storage root, per owner
  std::vector<Placed> placed_;
  std::vector<bool> clean_;
  std::vector<Call> pending_;
  std::map<Spec, std::uint32_t> specs_;  // to provisional index
  std::map<std::string, std::uint32_t> paths_;
  std::uint32_t path_ = 0;
};

Arg scalar(std::uint32_t value);
Arg at(BufferId buffer, std::uint64_t offset = 0);

// One destination of a run: the run's dst_offset is taken relative to `base` in `buffer`.
struct Target {
  TileId tile;
  BufferId buffer;
  std::uint32_t base = 0;
};
struct LocalRun {
  TileId tile;
  BufferId dst, src;
  std::uint32_t dst_offset = 0, src_offset = 0, bytes = 0;
};

// What copies that happen together move: finish() makes the Compute step of the calls so far (clears), one
// exchange phase and then the local copies.
struct Movement {
  Phase phase;
  std::vector<LocalRun> local;
  void finish(Lowering& lowering);
};

// Adds runs out of one source tensor to a movement.
class Mover {
 public:
  Mover(Lowering& lowering, TensorId src, Movement& movement);
  // Owner of the source on `tile` that holds what owner `canonical` holds; kNone: none.
  std::uint32_t holder_on(TileId tile, std::uint32_t canonical) const;
  void move(const tensor::Run& run, std::span<const Target> targets);

 private:
  BufferId choose_source(const tensor::Run& run, std::uint32_t words);
  Lowering& lowering_;
  TensorId src_;
  Movement& movement_;
  std::vector<std::uint64_t> sent_;  // words, per source owner
};

// Ranges rounded outward to 8 bytes and joined across gaps that the same movement overwrites
// (compiler.md 4.2).
std::vector<tensor::ByteRange> clear_ranges(std::span<const tensor::ByteRange> padding);
// Per tensor (at its storage root): the padding of its shards is zero.
std::vector<bool> clean_storages(const Lowering& lowering);
// Runs of a distinct owner of `dst`; `with_padding`: the source's padding is zero and comes along.
// Error{SubWord} as check_words.
std::vector<tensor::Run> movable_runs(const Lowering& lowering, TensorId dst, std::uint32_t owner,
                                      const tensor::CoordMap& map, TensorId src, bool with_padding);
// Parts of ascending ranges that no run writes.
std::vector<tensor::ByteRange> uncovered(std::span<const tensor::ByteRange> ranges,
                                         std::span<const tensor::Run> runs);
// Error{SubWord} unless every run is whole aligned words.
void check_words(const Lowering& lowering, std::span<const tensor::Run> runs, TensorId dst, TensorId src);
// Kernel calls for runs of one destination buffer in order (compiler.md 5.3).
void copy_calls(Lowering& lowering, std::span<const LocalRun> runs);

// Independent copies in one phase (compiler.md 5.2): no one reads or overwrites what another one writes or
// reads.
void lower_copies(Lowering& lowering, std::span<const plan::Copy* const> copies);
bool independent(const plan::Plan& plan, const plan::Copy& first, const plan::Copy& second);
void lower_product(Lowering& lowering, const plan::Product& product);
void lower_sum(Lowering& lowering, const plan::Sum& sum);
void lower_local(Lowering& lowering, const plan::Local& local);

void add_bindings(Lowering& lowering);
// Lifetimes from uses; drops buffers that nothing uses and renumbers the rest.
void set_lifetimes(Program& program);

// Calls fn(buffer) for every buffer that a step touches; the same buffer may come more than once.
template <class Fn>
void for_each_use(const Program& program, const Step& step, Fn&& fn) {
  if (step.kind == StepKind::Compute) {
    for (std::uint32_t c = step.first_call; c < step.first_call + step.call_count; ++c)
      for (const Arg& arg : program.calls[c].args)
        if (arg.buffer.valid()) fn(arg.buffer);
  } else if (step.kind == StepKind::Exchange) {
    const Phase& phase = program.phases[step.phase];
    for (const Transfer& t : phase.transfers) fn(t.source);
    for (const Receiver& r : phase.receivers) fn(r.buffer);
  }
}

}  // namespace tw::tile
