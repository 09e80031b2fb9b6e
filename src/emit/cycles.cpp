#include "emit/cycles.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "kernel/helper.h"
#include "target/supervisor.h"

namespace tw::emit {
namespace {

constexpr std::uint64_t kWord = isa::kCyclesPerWord;
// Words executed at the end of a Repeat's iteration besides those that move its pointers: the last one leaves
// by the branch and drops the frame instead of jumping back.
constexpr std::uint64_t kTailWords = 6, kLastTailWords = 5;

class Timeline {
 public:
  Timeline(const ControlContext& c, const std::vector<TileWork>& work,
           const std::vector<exchange::Rows>& rows)
      : c_(c), work_(work), rows_(rows), now_(c.device.tiles, 0) {
    step_cycles_.resize(work.size());
    parallel_for(work.size(), 16, 0, [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end; ++t) measure(t);
    });
  }

  ScheduledCycles run() {
    region(0, c_.program.steps.size());
    double last = 0;
    for (const std::uint64_t t : now_) last = std::max(last, static_cast<double>(t));
    return {last, std::move(phases_)};
  }

 private:
  // Own cycles of every step on one tile: calls with their argument words, patches before a phase.
  void measure(std::size_t t) {
    const auto& program = c_.program;
    auto& cycles = step_cycles_[t];
    cycles.assign(program.steps.size(), 0);
    bool inside = false;
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const tile::Step& step = program.steps[s];
      switch (step.kind) {
        case tile::StepKind::Compute:
          for (std::uint32_t i = work_[t].call_begin[s]; i < work_[t].call_begin[s + 1]; ++i)
            cycles[s] += call_cycles(program.calls[work_[t].calls[i]], inside);
          break;
        case tile::StepKind::Exchange:
          cycles[s] = setup_cycles((*c_.rows)[t].uses[step.phase]);
          break;
        case tile::StepKind::RepeatBegin:
          inside = true;
          cycles[s] = kWord * (3 + 2 * work_[t].pointers.size() + work_[t].bases.size());
          break;
        case tile::StepKind::RepeatEnd: {
          inside = false;
          std::uint64_t words = kTailWords;
          for (const BufferId p : work_[t].pointers)
            words += 2 + cd(program.buffers[p.value].stride(), 32767U);
          for (const std::uint32_t stride : work_[t].bases) words += 2 + cd(stride, 32767U);
          cycles[s] = kWord * words;
          break;
        }
        case tile::StepKind::Checkpoint:
          cycles[s] = kWord;
          break;
      }
    }
  }

  std::uint64_t call_cycles(const tile::Call& call, bool inside) const {
    const tile::Spec& spec = c_.program.specs[call.spec];
    const kernel::Kernel* k = kernel::find(spec.code);
    kernel::Call bound;
    bound.spec = spec.words;
    std::uint64_t words = 1;
    for (std::uint32_t i = 0; i < k->arguments; ++i) {
      const tile::Arg& arg = call.args[i];
      words += 1;
      bound.m[i] = arg.value;
      if (!arg.buffer.valid()) continue;
      if (inside && c_.program.buffers[arg.buffer.value].members > 1) words += cd(arg.value, 32767U);
      bound.m[i] += c_.addresses->of[arg.buffer.value];
    }
    return kWord * words + k->cycles(bound);
  }

  static std::uint64_t setup_cycles(const RowUse& use) {
    std::uint64_t cycles = use.base_stride > 0 ? kWord : 0;
    if (use.patch_count > 0)
      cycles += kWord * 5 + kernel::helper_cycles(kernel::Helper::PatchRow, use.patch_count);
    const std::uint32_t moving = use.table_count + use.step_count;
    if (moving > 0) {
      const std::uint64_t helpers = (use.table_count > 0 ? 1 : 0) + (use.step_count > 0 ? 1 : 0);
      cycles += kWord * (2 + 3 * helpers) + kernel::helper_cycles(kernel::Helper::RepeatTable, moving);
    }
    return cycles;
  }

  std::uint64_t latest() const { return *std::max_element(now_.begin(), now_.end()); }

  void region(std::size_t begin, std::size_t end) {
    for (std::size_t s = begin; s < end; ++s) {
      const tile::Step& step = c_.program.steps[s];
      if (step.kind == tile::StepKind::RepeatBegin) {
        apply(s);
        std::size_t close = s + 1;
        while (c_.program.steps[close].kind != tile::StepKind::RepeatEnd) ++close;
        for (std::uint32_t i = 0; i < step.count; ++i) {
          region(s + 1, close);
          apply(close);
        }
        for (std::uint64_t& t : now_) t -= kWord * (kTailWords - kLastTailWords);
        s = close;
        continue;
      }
      apply(s);
    }
  }

  void apply(std::size_t s) {
    const tile::Step& step = c_.program.steps[s];
    for (std::size_t t = 0; t < now_.size(); ++t) now_[t] += step_cycles_[t][s];
    if (step.kind == tile::StepKind::Exchange) {
      const std::uint64_t end = latest() + rows_[step.phase].horizon + c_.device.phase_constant;
      std::fill(now_.begin(), now_.end(), end);
      phases_.push_back({step.path, static_cast<double>(end)});
    }
  }

  const ControlContext& c_;
  const std::vector<TileWork>& work_;
  const std::vector<exchange::Rows>& rows_;
  std::vector<std::uint64_t> now_;
  std::vector<std::vector<std::uint64_t>> step_cycles_;
  std::vector<PhaseEnd> phases_;
};

}  // namespace

ScheduledCycles scheduled_cycles(const ControlContext& context, const std::vector<TileWork>& work,
                                 const std::vector<exchange::Rows>& rows) {
  TW_CHECK(context.addresses != nullptr && context.rows != nullptr, "cycles need a placed program");
  return Timeline(context, work, rows).run();
}

}  // namespace tw::emit
