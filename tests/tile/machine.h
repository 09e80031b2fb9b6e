// Runs a tile program on byte arrays: kernels by their host functions, transfers as plain copies, no timing.
// Memory that nothing has written is 0xFF (an F16 NaN), so that a consumed undefined value shows.
#pragma once
#include <cstring>
#include <map>
#include <vector>

#include "kernel/kernel.h"
#include "plan/plan.h"
#include "tensor/traverse.h"
#include "tile/program.h"

namespace tw::tile::testing {

class Machine {
 public:
  explicit Machine(const Program& program) : p_(program) {
    std::map<std::uint32_t, std::uint32_t> next;
    for (const Buffer& b : p_.buffers) {
      std::uint32_t& at = next.try_emplace(b.tile.value, kBase).first->second;
      at = (at + b.alignment - 1) / b.alignment * b.alignment;
      address_.push_back(at);
      at += b.stride() * (b.members - 1) + b.bytes + b.tail + 8;
    }
    for (const auto& [tile, end] : next) sram_[tile].assign(end - kBase + 64, 0xFF);
  }

  std::uint8_t* memory(BufferId id, std::uint32_t offset = 0, std::uint32_t member = 0) {
    const Buffer& b = p_.buffers[id.value];
    return sram_[b.tile.value].data() + address_[id.value] - kBase + member * b.stride() + offset;
  }

  void upload(const Binding& b, const std::vector<std::uint8_t>& data) {
    for (const BindingSlice& s : b.slices)
      std::memcpy(memory(s.buffer, s.buffer_offset, b.member), data.data() + s.offset, s.bytes);
  }
  std::vector<std::uint8_t> download(const Binding& b) {
    std::vector<std::uint8_t> data(b.bytes, 0xEE);
    for (const BindingSlice& s : b.slices)
      std::memcpy(data.data() + s.offset, memory(s.buffer, s.buffer_offset), s.bytes);
    return data;
  }

  void run() { run(0, static_cast<std::uint32_t>(p_.steps.size())); }

 private:
  static constexpr std::uint32_t kBase = 0x80000;

  void run(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const Step& s = p_.steps[i];
      if (s.kind == StepKind::RepeatBegin) {
        std::uint32_t close = i;
        while (p_.steps[close].kind != StepKind::RepeatEnd) ++close;
        for (iteration_ = 0; iteration_ < s.count; ++iteration_) run(i + 1, close);
        iteration_ = 0;
        i = close;
      } else if (s.kind == StepKind::Compute) {
        for (std::uint32_t c = s.first_call; c < s.first_call + s.call_count; ++c) call(p_.calls[c]);
      } else if (s.kind == StepKind::Exchange) {
        exchange(p_.phases[s.phase]);
      }
    }
  }

  std::uint32_t member(BufferId id) const { return p_.buffers[id.value].members > 1 ? iteration_ : 0; }

  void call(const Call& c) {
    const Spec& spec = p_.specs[c.spec];
    kernel::Call words;
    words.spec = spec.words;
    for (std::size_t i = 0; i < c.args.size(); ++i) {
      const Arg& a = c.args[i];
      words.m[i] = a.value;
      if (a.buffer.valid())
        words.m[i] += address_[a.buffer.value] + member(a.buffer) * p_.buffers[a.buffer.value].stride();
    }
    kernel::Effects effects;
    kernel::find(spec.code)->run(sram_[c.tile.value].data(), kBase, words, effects);
  }

  // All sources are read before anything is written: no transfer of a copy depends on another.
  void exchange(const Phase& phase) {
    std::vector<std::vector<std::uint8_t>> data;
    for (const Transfer& t : phase.transfers) {
      const std::uint8_t* from = memory(t.source, t.source_offset, member(t.source));
      data.emplace_back(from, from + 4 * t.words);
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Transfer& t = phase.transfers[i];
      for (std::uint32_t r = t.first_receiver; r < t.first_receiver + t.receiver_count; ++r)
        std::memcpy(memory(phase.receivers[r].buffer, phase.receivers[r].offset), data[i].data(),
                    data[i].size());
    }
  }

  const Program& p_;
  std::vector<std::uint32_t> address_;
  std::map<std::uint32_t, std::vector<std::uint8_t>> sram_;
  std::uint32_t iteration_ = 0;
};

// Builds plans by hand.
struct Sketch {
  plan::Plan plan;
  Sketch() { plan.tiles = 64; }
  TensorId add(const std::string& name, const tensor::TensorType& type, plan::Role role,
               std::uint32_t rotation = 0) {
    plan::Tensor t;
    t.name = name;
    t.type = type;
    t.role = role;
    t.owners.domain = 64;
    t.owners.rotation = rotation;
    plan.tensors.push_back(t);
    return TensorId(static_cast<std::uint32_t>(plan.tensors.size() - 1));
  }
  template <class Action>
  void step(Action action, const std::string& path = "op") {
    plan::Step s;
    s.action = std::move(action);
    s.path = path;
    plan.steps.push_back(std::move(s));
  }
};

// The data of a parameter's binding: its shard images, each on whole words.
inline std::vector<std::uint8_t> images(const tensor::TensorType& type, const std::vector<float>& values) {
  const tensor::ResolvedLayout layout(type);
  std::vector<std::uint8_t> data;
  for (std::uint32_t t = 0; t < layout.owners(); ++t) {
    const std::vector<std::uint8_t> shard = tensor::pack_shard(layout, t, values);
    data.insert(data.end(), shard.begin(), shard.end());
    while (data.size() % 4 != 0) data.push_back(0);
  }
  return data;
}

// Whole tensor as its owners hold it; every replica must agree.
inline std::vector<float> values_of(Machine& machine, const Program& program, TensorId id,
                                    const tensor::TensorType& type, const tensor::OwnerMap& owners) {
  const tensor::ResolvedLayout layout(type);
  std::vector<float> values(tensor::elements(type.shape), -12345.0F);
  for (std::uint32_t t = 0; t < layout.owners(); ++t)
    for (std::uint32_t i = 0; i < program.buffers.size(); ++i)
      if (program.buffers[i].tensor == id && program.buffers[i].tile.value == owners.tile_of(t)) {
        const std::uint8_t* from = machine.memory(BufferId(i));
        tensor::unpack_shard(layout, t, std::span(from, layout.shard_bytes(t)), values);
        break;
      }
  return values;
}

}  // namespace tw::tile::testing
