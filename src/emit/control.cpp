#include "emit/control.h"

#include <algorithm>

#include "base/capacity.h"
#include "base/error.h"
#include "base/math.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::emit {
namespace {
using isa::kM11Stack;
using isa::kM15Zero;

constexpr std::uint32_t kMaxAdd = 32767;

class Assembler {
 public:
  Assembler(const ControlContext& context, std::uint32_t tile, const TileWork& work)
      : c_(context), tile_(tile), work_(work) {}

  std::vector<std::uint32_t> run() {
    host(c_.host.initialize, c_.slots_initialize);
    word(isa::add(kM11Stack, kM11Stack, -8));
    word(isa::setzi(0, kCallCount));
    word(isa::ld32(0, 0, kM15Zero, 0));
    word(isa::st32(0, kM11Stack, kM15Zero, 0));
    const std::uint32_t loop = here();
    host(c_.host.inputs, c_.slots_inputs);
    for (std::size_t s = 0; s < c_.program.steps.size(); ++s) step(s);
    host(c_.host.outputs, c_.slots_outputs);
    loop_tail(loop, 8);
    word(isa::setzi(0, c_.runtime.complete));
    word(isa::br(0));
    descriptors();
    return std::move(words_);
  }

 private:
  std::uint32_t here() const {
    const std::uint64_t bytes = 4 * words_.size() + descriptor_sites_.size() * kDescriptorBytes;
    if (c_.runtime.program + bytes >= (1U << 20)) throw too_long(bytes);  // addresses have 20 bits
    return c_.runtime.program + 4 * static_cast<std::uint32_t>(words_.size());
  }
  Error too_long(std::uint64_t bytes) const {
    CapacityDetail d;
    d.tile = topology::logical(PhysId(tile_)).value;
    d.physical_tile = tile_;
    d.failing_tiles = 1;
    d.needed_bytes = bytes;
    d.available_bytes = c_.device.interleaved_base - c_.runtime.program;
    d.missing_bytes = d.needed_bytes - d.available_bytes;
    d.parts = {{"code, as far as it was counted", bytes}};
    return does_not_fit(ErrorKind::Code, std::move(d));
  }
  void word(std::uint32_t w) { words_.push_back(w); }

  // One host batch: the helper call with a descriptor behind the program, or the inactive form.
  void host(const std::vector<package::HostBatch>& batches,
            const std::vector<std::vector<std::uint32_t>>& slots) {
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const std::uint32_t slot = slots[b][tile_];
      if (slot == UINT32_MAX) {
        word(isa::sans(1));
        word(isa::sync(1));
        continue;
      }
      const package::HostPiece& piece = batches[b].pieces[slot];
      descriptor_sites_.push_back(words_.size());
      descriptor_words_.insert(descriptor_words_.end(), {batches[b].to_device ? 0U : 1U, piece.address,
                                                         piece.bytes, arena_offset(c_.arena_slots[tile_])});
      word(isa::setzi(2, 0));
      word(isa::call(isa::kM10Return, c_.runtime.host_run));
    }
  }

  void descriptors() {
    for (std::size_t i = 0; i < descriptor_sites_.size(); ++i) {
      words_[descriptor_sites_[i]] = isa::setzi(2, here() + static_cast<std::uint32_t>(i) * kDescriptorBytes);
    }
    words_.insert(words_.end(), descriptor_words_.begin(), descriptor_words_.end());
  }

  // Decrement slot 0 of the frame on m11, leave when zero, else jump back; then drop the frame.
  void loop_tail(std::uint32_t loop, std::uint32_t frame) {
    word(isa::ld32(0, kM11Stack, kM15Zero, 0));
    word(isa::add(0, 0, -1));
    word(isa::st32(0, kM11Stack, kM15Zero, 0));
    word(isa::brz(0, here() + 12));
    word(isa::setzi(0, loop));
    word(isa::br(0));
    word(isa::add(kM11Stack, kM11Stack, static_cast<std::int32_t>(frame)));
  }

  void step(std::size_t index) {
    const tile::Step& s = c_.program.steps[index];
    switch (s.kind) {
      case tile::StepKind::Compute:
        for (std::uint32_t i = work_.call_begin[index]; i < work_.call_begin[index + 1]; ++i) {
          call(c_.program.calls[work_.calls[i]]);
        }
        return;
      case tile::StepKind::Exchange:
        exchange(s.phase);
        return;
      case tile::StepKind::RepeatBegin:
        repeat_begin(s.count);
        return;
      case tile::StepKind::RepeatEnd:
        repeat_end();
        return;
      case tile::StepKind::Checkpoint:
        word(isa::trap(0));
        return;
    }
  }

  std::uint32_t address(BufferId buffer) const {
    return c_.addresses == nullptr ? 0 : c_.addresses->of[buffer.value];
  }

  std::uint32_t pointer_slot(BufferId buffer) const {
    const auto it = std::find(work_.pointers.begin(), work_.pointers.end(), buffer);
    TW_CHECK(it != work_.pointers.end(), "iterated buffer without a pointer slot");
    return 1 + static_cast<std::uint32_t>(it - work_.pointers.begin());
  }

  std::uint32_t base_slot(std::uint32_t stride) const {
    const auto it = std::find(work_.bases.begin(), work_.bases.end(), stride);
    TW_CHECK(it != work_.bases.end(), "a moving sender without a base slot");
    return 1 + static_cast<std::uint32_t>(work_.pointers.size() + (it - work_.bases.begin()));
  }

  void add_offset(std::uint32_t m, std::uint32_t offset) {
    for (; offset > 0; offset -= std::min(offset, kMaxAdd)) {
      word(isa::add(m, m, static_cast<std::int32_t>(std::min(offset, kMaxAdd))));
    }
  }

  void call(const tile::Call& call) {
    const tile::Spec& spec = c_.program.specs[call.spec];
    const kernel::Kernel* k = kernel::find(spec.code);
    for (std::uint32_t i = 0; i < k->arguments; ++i) {
      const tile::Arg& arg = call.args[i];
      const std::uint32_t m = 2 + i;
      if (!arg.buffer.valid()) {
        word(isa::setzi(m, arg.value));
      } else if (in_repeat_ && c_.program.buffers[arg.buffer.value].members > 1) {
        word(isa::ld32(m, kM11Stack, kM15Zero, pointer_slot(arg.buffer)));
        add_offset(m, arg.value);
      } else {
        word(isa::setzi(m, address(arg.buffer) + arg.value));
      }
    }
    word(isa::call(isa::kM10Return, c_.runtime.kernel_of_spec[call.spec]));
  }

  std::uint32_t frame_bytes() const {  // decisions.md 32
    return up(4 * (1 + work_.slots() + 1), 8U);
  }

  void repeat_begin(std::uint32_t count) {
    TW_CHECK(!in_repeat_, "nested Repeat");
    TW_CHECK(frame_bytes() + 8 <= 0x100, "the Repeat frame does not fit the supervisor stack");
    in_repeat_ = true;
    repeat_count_ = count;
    word(isa::add(kM11Stack, kM11Stack, -static_cast<std::int32_t>(frame_bytes())));
    word(isa::setzi(0, count));
    word(isa::st32(0, kM11Stack, kM15Zero, 0));
    for (const BufferId p : work_.pointers) {
      word(isa::setzi(0, address(p)));
      word(isa::st32(0, kM11Stack, kM15Zero, pointer_slot(p)));
    }
    for (const std::uint32_t stride : work_.bases)
      word(isa::st32(kM15Zero, kM11Stack, kM15Zero, base_slot(stride)));
    repeat_loop_ = here();
  }

  void repeat_end() {
    for (const BufferId p : work_.pointers) {
      word(isa::ld32(0, kM11Stack, kM15Zero, pointer_slot(p)));
      add_offset(0, c_.program.buffers[p.value].stride());
      word(isa::st32(0, kM11Stack, kM15Zero, pointer_slot(p)));
    }
    for (const std::uint32_t stride : work_.bases) {
      word(isa::ld32(0, kM11Stack, kM15Zero, base_slot(stride)));
      add_offset(0, stride);
      word(isa::st32(0, kM11Stack, kM15Zero, base_slot(stride)));
    }
    loop_tail(repeat_loop_, frame_bytes());
    in_repeat_ = false;
  }

  void helper_call(std::uint32_t list, std::uint32_t count, std::uint32_t helper) {
    word(isa::setzi(2, list));
    word(isa::setzi(3, count));
    word(isa::call(isa::kM9HelperReturn, helper));
  }

  void patches(const RowUse& use, bool sizing, bool moving) {
    if (sizing || use.patch_count > 0) {
      word(isa::setzi(2, c_.row_base + use.row));
      word(isa::setzi(3, c_.row_base + use.patch_offsets));
      word(isa::setzi(4, c_.row_base + use.patch_values));
      word(isa::setzi(5, use.patch_count));
      word(isa::call(isa::kM9HelperReturn, c_.runtime.patch_row));
    }
    if (sizing ? !moving : use.table_count + use.step_count == 0) return;
    TW_CHECK(in_repeat_, "a moving sender outside a Repeat");
    word(isa::ld32(4, kM11Stack, kM15Zero, 0));
    word(isa::setzi(5, repeat_count_));
    if (sizing || use.table_count > 0)
      helper_call(c_.row_base + use.table_list, use.table_count, c_.runtime.repeat_table);
    if (sizing || use.step_count > 0)
      helper_call(c_.row_base + use.step_list, use.step_count, c_.runtime.repeat_step);
  }

  void exchange(std::uint32_t phase) {
    const bool sizing = c_.rows == nullptr;
    const RowUse use = sizing ? RowUse{} : (*c_.rows)[tile_].uses[phase];
    const bool active = sizing ? work_.active[phase] : use.active;
    if (active) patches(use, sizing, work_.moving[phase]);
    const bool based = use.base_stride > 0;
    if (based) word(isa::ld32(isa::kM6MovingBase, kM11Stack, kM15Zero, base_slot(use.base_stride)));
    word(isa::setzi(8, 0));
    word(isa::put(isa::kIncomingBase, 8));
    word(isa::put(isa::kOutgoingBase, based ? isa::kM6MovingBase : kM15Zero));
    if (active) {
      word(isa::call(isa::kM7BarrierReturn, c_.runtime.worker_barrier));
      word(isa::setzi(8, 1));
      word(isa::put(isa::kIncomingDcount, 8));
      word(isa::sync(3));
    } else {
      word(isa::sans(0));
      word(isa::sync(1));
    }
    word(isa::call(isa::kM10Return, c_.row_base + use.row));
  }

  const ControlContext& c_;
  std::uint32_t tile_;
  const TileWork& work_;
  std::vector<std::uint32_t> words_, descriptor_words_;
  std::vector<std::size_t> descriptor_sites_;
  bool in_repeat_ = false;
  std::uint32_t repeat_count_ = 1, repeat_loop_ = 0;
};

void mark_phases(const Device& device, const tile::Program& program, std::vector<TileWork>& work) {
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    const tile::Phase& phase = program.phases[p];
    for (const tile::Transfer& t : phase.transfers) {
      const tile::Buffer& source = program.buffers[t.source.value];
      TileWork& sender = work[topology::physical(source.tile).value];
      sender.active[p] = true;
      if (source.members > 1 && phase.iterations > 1) {
        sender.moving[p] = true;
        auto& bases = sender.bases;
        if (std::find(bases.begin(), bases.end(), source.stride()) == bases.end())
          bases.push_back(source.stride());
      }
      for (std::uint32_t r = 0; r < t.receiver_count; ++r) {
        const tile::Receiver& receiver = phase.receivers[t.first_receiver + r];
        work[topology::physical(program.buffers[receiver.buffer.value].tile).value].active[p] = true;
      }
    }
  }
  TW_CHECK(work.size() == device.tiles, "one work list per tile");
}

void collect_pointers(const tile::Program& program, TileWork& work) {
  bool inside = false;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    if (program.steps[s].kind == tile::StepKind::RepeatBegin) inside = true;
    if (program.steps[s].kind == tile::StepKind::RepeatEnd) inside = false;
    if (!inside) continue;
    for (std::uint32_t i = work.call_begin[s]; i < work.call_begin[s + 1]; ++i) {
      for (const tile::Arg& arg : program.calls[work.calls[i]].args) {
        if (!arg.buffer.valid() || program.buffers[arg.buffer.value].members <= 1) continue;
        if (std::find(work.pointers.begin(), work.pointers.end(), arg.buffer) == work.pointers.end())
          work.pointers.push_back(arg.buffer);
      }
    }
  }
}

std::vector<std::vector<std::uint32_t>> slots_of(const std::vector<package::HostBatch>& batches,
                                                 std::uint32_t tiles) {
  std::vector<std::vector<std::uint32_t>> slots(batches.size(),
                                                std::vector<std::uint32_t>(tiles, UINT32_MAX));
  for (std::size_t b = 0; b < batches.size(); ++b) {
    for (std::uint32_t i = 0; i < batches[b].pieces.size(); ++i) slots[b][batches[b].pieces[i].tile] = i;
  }
  return slots;
}

}  // namespace

std::vector<TileWork> tile_work(const Device& device, const tile::Program& program) {
  const std::size_t steps = program.steps.size();
  std::vector<TileWork> work(device.tiles);
  for (TileWork& w : work) {
    w.call_begin.assign(steps + 1, 0);
    w.active.assign(program.phases.size(), false);
    w.moving.assign(program.phases.size(), false);
  }
  for (std::size_t s = 0; s < steps; ++s) {
    for (TileWork& w : work) w.call_begin[s] = static_cast<std::uint32_t>(w.calls.size());
    const tile::Step& step = program.steps[s];
    if (step.kind != tile::StepKind::Compute) continue;
    for (std::uint32_t i = step.first_call; i < step.first_call + step.call_count; ++i) {
      work[topology::physical(program.calls[i].tile).value].calls.push_back(i);
    }
  }
  for (TileWork& w : work) w.call_begin[steps] = static_cast<std::uint32_t>(w.calls.size());
  mark_phases(device, program, work);
  for (TileWork& w : work) collect_pointers(program, w);
  return work;
}

void fill_slots(ControlContext& context) {
  context.slots_initialize = slots_of(context.host.initialize, context.device.tiles);
  context.slots_inputs = slots_of(context.host.inputs, context.device.tiles);
  context.slots_outputs = slots_of(context.host.outputs, context.device.tiles);
  const auto pieces = pieces_per_tile(context.host, context.device.tiles);
  context.arena_slots.assign(context.device.tiles, UINT32_MAX);
  std::uint32_t next = 0;
  for (std::size_t t = 0; t < pieces.size(); ++t) {
    if (pieces[t] > 0) context.arena_slots[t] = next++;
  }
}

std::vector<std::uint32_t> tile_program(const ControlContext& context, std::uint32_t tile,
                                        const TileWork& work) {
  return Assembler(context, tile, work).run();
}

}  // namespace tw::emit
