// Lifetimes of buffers from the steps that touch them (compiler.md 8.1).
#include <algorithm>

#include "tile/lowering.h"

namespace tw::tile {
namespace {

struct Span {
  std::uint32_t first = 0, last = 0;  // events of RepeatBegin and RepeatEnd
};

// What lives into or out of a Repeat lives through all of it; what begins and ends inside is written before
// it is read in every iteration.
void widen(Buffer& b, const std::vector<Span>& spans) {
  for (const Span& s : spans) {
    const bool begins = b.first >= s.first && b.first <= s.last, ends = b.last >= s.first && b.last <= s.last;
    if (begins && !ends) b.first = s.first;
    if (ends && !begins) b.last = s.last;
  }
}

void drop_unused(Program& program) {
  std::vector<BufferId> place(program.buffers.size());
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.first > b.last) continue;
    place[i] = BufferId(kept);
    program.buffers[kept++] = b;
  }
  program.buffers.resize(kept);
  const auto move = [&](BufferId& id) {
    if (id.valid()) id = place[id.value];
  };
  for (Call& c : program.calls)
    for (Arg& arg : c.args) move(arg.buffer);
  for (Phase& p : program.phases) {
    for (Transfer& t : p.transfers) move(t.source);
    for (Receiver& r : p.receivers) move(r.buffer);
  }
  for (auto* bindings : {&program.weights, &program.inputs, &program.outputs})
    for (Binding& b : *bindings)
      for (BindingSlice& s : b.slices) move(s.buffer);
  for (auto& [a, b] : program.separate) move(a), move(b);
}

}  // namespace

void set_lifetimes(Program& program) {
  std::vector<Span> spans;
  for (std::uint32_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const std::uint32_t event = i + 1;
    if (step.kind == StepKind::RepeatBegin) spans.push_back({event, event});
    if (step.kind == StepKind::RepeatEnd) spans.back().last = event;
    for_each_use(program, step, [&](BufferId id) {
      Buffer& b = program.buffers[id.value];
      b.first = std::min(b.first, event);
      b.last = std::max(b.last, event);
    });
  }
  for (Buffer& b : program.buffers) {
    if (b.first == kForever && b.last == kForever) b.first = 0;  // an output that nothing writes
    if (b.first <= b.last) widen(b, spans);
  }
  drop_unused(program);
}

}  // namespace tw::tile
