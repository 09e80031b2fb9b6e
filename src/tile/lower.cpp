// The walk over the plan's steps.
#include <algorithm>

#include "base/error.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

void lower_steps(Lowering& lowering, const std::vector<plan::Step>& steps, const LowerOptions& options);

void lower_repeat(Lowering& lowering, const plan::Repeat& repeat, const LowerOptions& options) {
  if (lowering.inside_repeat)
    throw Error(ErrorKind::UnsupportedOp, "a Repeat inside a Repeat cannot be lowered");
  Step begin, end;
  begin.kind = StepKind::RepeatBegin;
  end.kind = StepKind::RepeatEnd;
  begin.count = end.count = repeat.count;
  lowering.add_step(begin);
  lowering.iterations = repeat.count;
  lowering.inside_repeat = true;
  lower_steps(lowering, repeat.body, options);
  lowering.iterations = 1;
  lowering.inside_repeat = false;
  lowering.add_step(end);
}

// Copies from `first` on that can share a phase: neighbours of one operation, independent of each other, no
// checkpoint between them.
std::vector<const plan::Copy*> copies_together(const plan::Plan& plan, const std::vector<plan::Step>& steps,
                                               std::size_t first, bool checkpoints) {
  std::vector<const plan::Copy*> group;
  for (std::size_t i = first; i < steps.size() && steps[i].path == steps[first].path; ++i) {
    const auto* copy = std::get_if<plan::Copy>(&steps[i].action);
    if (copy == nullptr) break;
    if (!std::ranges::all_of(group, [&](const plan::Copy* g) { return independent(plan, *g, *copy); })) break;
    group.push_back(copy);
    if (checkpoints && steps[i].checkpoint.valid()) break;
  }
  return group;
}

void lower_action(Lowering& lowering, const plan::Step& step, const LowerOptions& options) {
  if (const auto* product = std::get_if<plan::Product>(&step.action)) lower_product(lowering, *product);
  if (const auto* sum = std::get_if<plan::Sum>(&step.action)) lower_sum(lowering, *sum);
  if (const auto* local = std::get_if<plan::Local>(&step.action)) lower_local(lowering, *local);
  if (const auto* repeat = std::get_if<plan::Repeat>(&step.action)) lower_repeat(lowering, *repeat, options);
}

void lower_steps(Lowering& lowering, const std::vector<plan::Step>& steps, const LowerOptions& options) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    lowering.set_path(steps[i].path);
    const auto copies = copies_together(lowering.plan, steps, i, options.checkpoints);
    if (copies.empty()) {
      lower_action(lowering, steps[i], options);
      lowering.flush();
    } else {
      lower_copies(lowering, copies);
      i += copies.size() - 1;
    }
    if (options.checkpoints && steps[i].checkpoint.valid()) {
      lowering.set_path(steps[i].path);
      Step checkpoint;
      checkpoint.kind = StepKind::Checkpoint;
      checkpoint.checkpoint = steps[i].checkpoint;
      lowering.add_step(checkpoint);
    }
  }
}

}  // namespace

Program lower(const plan::Plan& plan, const LowerOptions& options, unsigned threads) {
  Lowering lowering(plan, threads);
  lower_steps(lowering, plan.steps, options);
  add_bindings(lowering);
  lowering.finish();
  return std::move(lowering.program);
}

}  // namespace tw::tile
