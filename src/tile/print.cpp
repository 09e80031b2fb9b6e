// Text form of a tile program (deterministic, for goldens) and the fragment count.
#include <fmt/core.h>

#include <iterator>

#include "base/math.h"
#include "target/device.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string event(std::uint32_t e) { return e == kForever ? "end" : fmt::format("{}", e); }

void print_buffers(const Program& p, Out out) {
  for (std::uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    fmt::format_to(out, "buffer {} tile {} tensor {} bytes {}", i, b.tile.value, b.tensor.value, b.bytes);
    if (b.tail != 0) fmt::format_to(out, " tail {}", b.tail);
    fmt::format_to(out, " align {} {}", b.alignment,
                   b.memory == tensor::MemoryClass::Interleaved ? "Int" : "Std");
    if (b.members != 1) fmt::format_to(out, " members {}", b.members);
    fmt::format_to(out, " live {}..{}{}\n", b.first, event(b.last), b.pinned ? " pinned" : "");
  }
}

void print_call(const Program& p, const Call& c, Out out) {
  const Spec& spec = p.specs[c.spec];
  const kernel::Kernel* k = kernel::find(spec.code);
  fmt::format_to(out, "    tile {} {}", c.tile.value, k != nullptr ? k->name : "?");
  for (std::size_t i = 0; i < spec.words.size(); ++i)
    fmt::format_to(out, "{}{:#x}", i == 0 ? "<" : ",", spec.words[i]);
  if (!spec.words.empty()) fmt::format_to(out, ">");
  const std::size_t arguments = k != nullptr ? k->arguments : c.args.size();
  for (std::size_t i = 0; i < arguments; ++i) {
    const Arg& a = c.args[i];
    if (!a.buffer.valid()) {
      fmt::format_to(out, " {}", a.value);
    } else if (a.value == 0) {
      fmt::format_to(out, " b{}", a.buffer.value);
    } else {
      fmt::format_to(out, " b{}+{}", a.buffer.value, a.value);
    }
  }
  fmt::format_to(out, "\n");
}

void print_phase(const Phase& phase, Out out) {
  for (const Transfer& t : phase.transfers) {
    fmt::format_to(out, "    b{}+{} words {} ->", t.source.value, t.source_offset, t.words);
    for (std::uint32_t r = t.first_receiver; r < t.first_receiver + t.receiver_count; ++r)
      fmt::format_to(out, " b{}+{}", phase.receivers[r].buffer.value, phase.receivers[r].offset);
    fmt::format_to(out, "\n");
  }
}

void print_bindings(const char* kind, const std::vector<Binding>& bindings, Out out) {
  for (const Binding& b : bindings) {
    fmt::format_to(out, "{} {} tensor {} member {} bytes {}\n", kind, b.name, b.tensor.value, b.member,
                   b.bytes);
    for (const BindingSlice& s : b.slices)
      fmt::format_to(out, "    b{}+{} <-> {} bytes {}\n", s.buffer.value, s.buffer_offset, s.offset, s.bytes);
  }
}

}  // namespace

std::string print(const Program& p) {
  std::string text;
  const Out out(text);
  print_buffers(p, out);
  for (std::uint32_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    const std::string& path = p.paths[s.path];
    switch (s.kind) {
      case StepKind::Compute:
        fmt::format_to(out, "step {} compute {}\n", i, path);
        for (std::uint32_t c = s.first_call; c < s.first_call + s.call_count; ++c)
          print_call(p, p.calls[c], out);
        break;
      case StepKind::Exchange:
        fmt::format_to(out, "step {} exchange phase {} {}\n", i, s.phase, path);
        print_phase(p.phases[s.phase], out);
        break;
      case StepKind::RepeatBegin:
        fmt::format_to(out, "step {} repeat {} {}\n", i, s.count, path);
        break;
      case StepKind::RepeatEnd:
        fmt::format_to(out, "step {} end {}\n", i, path);
        break;
      case StepKind::Checkpoint:
        fmt::format_to(out, "step {} checkpoint tensor {} {}\n", i, s.checkpoint.value, path);
        break;
    }
  }
  print_bindings("weights", p.weights, out);
  print_bindings("input", p.inputs, out);
  print_bindings("output", p.outputs, out);
  for (const auto& [a, b] : p.separate) fmt::format_to(out, "separate b{} b{}\n", a.value, b.value);
  return text;
}

namespace {
// Calls visit(tile, fragments) for every sender and receiver of a phase.
template <class Visit>
void visit_fragments(const Program& program, const Phase& phase, Visit visit) {
  const std::uint32_t longest = Device{}.max_message_words;
  for (const Transfer& t : phase.transfers) {
    const std::uint32_t pieces = cd(t.words, longest);
    visit(program.buffers[t.source.value].tile, pieces);
    for (std::uint32_t r = t.first_receiver; r < t.first_receiver + t.receiver_count; ++r)
      visit(program.buffers[phase.receivers[r].buffer.value].tile, pieces);
  }
}
}  // namespace

std::vector<std::uint32_t> fragments_per_tile(const Program& program, std::uint32_t tiles) {
  std::vector<std::uint32_t> count(tiles, 0);
  for (const Phase& phase : program.phases)
    visit_fragments(program, phase, [&](TileId tile, std::uint32_t n) { count[tile.value] += n; });
  return count;
}

std::uint32_t fragments_of(const Program& program, const Phase& phase, TileId tile) {
  std::uint32_t count = 0;
  visit_fragments(program, phase, [&](TileId at, std::uint32_t n) { count += at == tile ? n : 0; });
  return count;
}

}  // namespace tw::tile
