// Independent reading of a tile program; every broken rule as text.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/math.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : p_(program) {}

  std::vector<std::string> run() {
    buffers();
    if (!references()) return std::move(faults_);
    steps();
    for (std::uint32_t i = 0; i < p_.phases.size(); ++i) phase(i);
    for (const auto* bindings : {&p_.weights, &p_.inputs, &p_.outputs})
      for (const Binding& b : *bindings) binding(b);
    for (const auto& [a, b] : p_.separate)
      if (buffer(a).tile != buffer(b).tile)
        fault("buffers {} and {} to separate are on two tiles", a.value, b.value);
    return std::move(faults_);
  }

 private:
  static constexpr std::size_t kMaxFaults = 100;

  template <class... Args>
  void fault(fmt::format_string<Args...> text, Args&&... args) {
    if (faults_.size() < kMaxFaults) faults_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  const Buffer& buffer(BufferId id) const { return p_.buffers[id.value]; }

  void buffers() {
    std::map<TensorId, std::uint32_t> members;
    for (std::uint32_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (b.bytes == 0 || b.bytes % 4 != 0) fault("buffer {}: {} bytes", i, b.bytes);
      if (b.alignment < 4 || (b.alignment & (b.alignment - 1)) != 0)
        fault("buffer {}: alignment {}", i, b.alignment);
      if (b.first > b.last) fault("buffer {}: lifetime {}..{}", i, b.first, b.last);
      if (b.members == 0) fault("buffer {}: no members", i);
      if (b.members > 1 && members.try_emplace(b.tensor, b.members).first->second != b.members)
        fault("buffer {}: its tensor has sequences of other lengths", i);
    }
  }

  bool references() {
    const std::size_t before = faults_.size();
    const auto known = [&](BufferId id) {
      if (id.value >= p_.buffers.size()) fault("reference to buffer {} of {}", id.value, p_.buffers.size());
    };
    for (const Call& c : p_.calls) {
      if (c.spec >= p_.specs.size()) fault("reference to spec {} of {}", c.spec, p_.specs.size());
      for (const Arg& a : c.args)
        if (a.buffer.valid()) known(a.buffer);
    }
    for (const Phase& phase : p_.phases) {
      for (const Transfer& t : phase.transfers) {
        known(t.source);
        if (t.receiver_count == 0 ||
            std::uint64_t{t.first_receiver} + t.receiver_count > phase.receivers.size())
          fault("transfer with receivers {}+{}", t.first_receiver, t.receiver_count);
      }
      for (const Receiver& r : phase.receivers) known(r.buffer);
    }
    for (const auto* bindings : {&p_.weights, &p_.inputs, &p_.outputs})
      for (const Binding& b : *bindings)
        for (const BindingSlice& s : b.slices) known(s.buffer);
    for (const auto& [a, b] : p_.separate) known(a), known(b);
    for (const Step& s : p_.steps) {
      if (s.path >= p_.paths.size()) fault("reference to path {}", s.path);
      if (s.kind == StepKind::Exchange && s.phase >= p_.phases.size())
        fault("reference to phase {}", s.phase);
      if (std::uint64_t{s.first_call} + s.call_count > p_.calls.size())
        fault("reference to call {}", s.first_call);
    }
    return faults_.size() == before;
  }

  void steps() {
    std::uint32_t next_call = 0, count = 1;
    bool inside = false;
    for (std::uint32_t i = 0; i < p_.steps.size(); ++i) {
      const Step& s = p_.steps[i];
      if (s.kind == StepKind::RepeatBegin) {
        if (inside) fault("step {}: a Repeat inside a Repeat", i);
        inside = true, count = s.count;
      } else if (s.kind == StepKind::RepeatEnd) {
        if (!inside) fault("step {}: a Repeat ends that has not begun", i);
        inside = false, count = 1;
      } else if (s.kind == StepKind::Compute) {
        if (s.first_call != next_call) fault("step {}: calls {} on, expected {}", i, s.first_call, next_call);
        next_call = s.first_call + s.call_count;
        for (std::uint32_t c = s.first_call; c < next_call; ++c) call(i, c);
      } else if (s.kind == StepKind::Exchange && p_.phases[s.phase].iterations != count) {
        fault("step {}: a phase of {} iterations inside {}", i, p_.phases[s.phase].iterations, count);
      }
      for_each_use(p_, s, [&](BufferId id) { use(i, id, inside, count); });
    }
    if (inside) fault("a Repeat does not end");
    if (next_call != p_.calls.size()) fault("{} of {} calls belong to a step", next_call, p_.calls.size());
  }

  void use(std::uint32_t step, BufferId id, bool inside, std::uint32_t count) {
    const Buffer& b = buffer(id);
    if (step + 1 < b.first || step + 1 > b.last)
      fault("step {}: buffer {} lives {}..{} only", step, id.value, b.first, b.last);
    if (b.members > 1 && (!inside || b.members < count))
      fault("step {}: sequence {} of {} used in {} iterations", step, id.value, b.members,
            inside ? count : 0);
  }

  // Stand-in addresses: each buffer exactly as aligned as it asks for, so that a kernel that wants more
  // complains.
  void call(std::uint32_t step, std::uint32_t index) {
    const Call& c = p_.calls[index];
    if (index > p_.steps[step].first_call && p_.calls[index - 1].tile > c.tile)
      fault("call {}: tiles descend", index);
    const Spec& spec = p_.specs[c.spec];
    const kernel::Kernel* k = kernel::find(spec.code);
    if (k == nullptr) return fault("call {}: no kernel with code {}", index, static_cast<int>(spec.code));
    kernel::Call words;
    words.spec = spec.words;
    std::map<BufferId, std::uint32_t> base;
    std::uint32_t next = 0x80000;
    for (std::uint32_t i = 0; i < c.args.size(); ++i) {
      const Arg& a = c.args[i];
      words.m[i] = a.value;
      if (!a.buffer.valid()) continue;
      const Buffer& b = buffer(a.buffer);
      if ((k->address_mask >> i & 1) == 0) fault("call {} {}: argument {} is no address", index, k->name, i);
      if (b.tile != c.tile) fault("call {} {}: argument {} is on tile {}", index, k->name, i, b.tile.value);
      if (a.value >= b.bytes) fault("call {} {}: argument {} behind its buffer", index, k->name, i);
      const auto [it, added] = base.try_emplace(a.buffer, up(next, 2 * b.alignment) + b.alignment);
      if (added) next = it->second + b.bytes + b.tail;
      words.m[i] += it->second;
    }
    const std::string complaint = k->validate(words);
    if (!complaint.empty()) return fault("call {} {}: {}", index, k->name, complaint);
    for (const kernel::Access& access : k->accesses(words)) {
      const Arg& a = c.args[access.argument];
      if (access.row_bytes == 0 || access.rows == 0) continue;
      const std::uint64_t end =
          access.address + std::uint64_t{access.stride} * (access.rows - 1) + access.row_bytes;
      if (!a.buffer.valid() || access.address < base[a.buffer] ||
          end > base[a.buffer] + buffer(a.buffer).bytes)
        fault("call {} {}: argument {} leaves its buffer", index, k->name, access.argument);
    }
  }

  void phase(std::uint32_t index) {
    const Phase& phase = p_.phases[index];
    std::vector<std::uint32_t> end_of(p_.buffers.size(),
                                      0);  // writes mostly ascend: then there is no need to sort
    bool ascending = true;
    for (const Transfer& t : phase.transfers) {
      const std::uint32_t bytes = 4 * t.words;
      if (t.words == 0 || t.source_offset % 4 != 0) fault("phase {}: a transfer is not whole words", index);
      if (std::uint64_t{t.source_offset} + bytes > buffer(t.source).bytes)
        fault("phase {}: a transfer reads behind buffer {}", index, t.source.value);
      for (std::uint32_t r = t.first_receiver; r < t.first_receiver + t.receiver_count; ++r) {
        const Receiver& to = phase.receivers[r];
        if (to.offset % 4 != 0 || std::uint64_t{to.offset} + bytes > buffer(to.buffer).bytes)
          fault("phase {}: a transfer writes behind buffer {}", index, to.buffer.value);
        if (buffer(to.buffer).tile == buffer(t.source).tile)
          fault("phase {}: buffer {} receives from its own tile", index, to.buffer.value);
        ascending = ascending && to.offset >= end_of[to.buffer.value];
        end_of[to.buffer.value] = to.offset + bytes;
      }
    }
    if (!ascending) overlaps(index);
  }

  void overlaps(std::uint32_t index) {
    const Phase& phase = p_.phases[index];
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> writes;  // buffer, begin, end
    writes.reserve(phase.receivers.size());
    for (const Transfer& t : phase.transfers)
      for (std::uint32_t r = t.first_receiver; r < t.first_receiver + t.receiver_count; ++r)
        writes.emplace_back(phase.receivers[r].buffer.value, phase.receivers[r].offset,
                            phase.receivers[r].offset + 4 * t.words);
    std::sort(writes.begin(), writes.end());
    for (std::size_t i = 1; i < writes.size(); ++i)
      if (std::get<0>(writes[i]) == std::get<0>(writes[i - 1]) &&
          std::get<1>(writes[i]) < std::get<2>(writes[i - 1]))
        fault("phase {}: two transfers write offset {} of buffer {}", index, std::get<1>(writes[i]),
              std::get<0>(writes[i]));
  }

  void binding(const Binding& b) {
    for (const BindingSlice& s : b.slices) {
      const Buffer& to = buffer(s.buffer);
      if ((s.buffer_offset | s.bytes) % 4 != 0 || s.bytes == 0)
        fault("binding {}: a slice is not whole words", b.name);
      if (std::uint64_t{s.buffer_offset} + s.bytes > to.bytes)
        fault("binding {}: a slice leaves its buffer", b.name);
      if (s.offset + s.bytes > b.bytes) fault("binding {}: a slice leaves its data", b.name);
      if (b.member >= to.members) fault("binding {}: member {} of {}", b.name, b.member, to.members);
      if (!to.pinned) fault("binding {}: its buffer is not pinned", b.name);
    }
  }

  const Program& p_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> verify(const Program& program) { return Verifier(program).run(); }

}  // namespace tw::tile
