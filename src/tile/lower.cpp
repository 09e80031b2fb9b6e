// The walk over the plan's steps.
#include <type_traits>

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

void lower_steps(Lowering& lowering, const std::vector<plan::Step>& steps, const LowerOptions& options) {
  for (const plan::Step& step : steps) {
    lowering.set_path(step.path);
    std::visit(
        [&](const auto& action) {
          using Action = std::decay_t<decltype(action)>;
          if constexpr (std::is_same_v<Action, plan::Copy>) lower_copy(lowering, action);
          if constexpr (std::is_same_v<Action, plan::Product>) lower_product(lowering, action);
          if constexpr (std::is_same_v<Action, plan::Sum>) lower_sum(lowering, action);
          if constexpr (std::is_same_v<Action, plan::Local>) lower_local(lowering, action);
          if constexpr (std::is_same_v<Action, plan::Repeat>) lower_repeat(lowering, action, options);
        },
        step.action);
    lowering.flush();
    if (options.checkpoints && step.checkpoint.valid()) {
      lowering.set_path(step.path);
      Step checkpoint;
      checkpoint.kind = StepKind::Checkpoint;
      checkpoint.checkpoint = step.checkpoint;
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
