#include "plan/liveness.h"

#include <algorithm>

namespace tw::plan {
namespace {

constexpr std::uint32_t kTopLevel = UINT32_MAX;

struct Span {
  std::uint32_t first = UINT32_MAX, last = 0;
  void add(std::uint32_t at) { first = std::min(first, at), last = std::max(last, at); }
};

}  // namespace

std::vector<FlatStep> flatten(const Plan& plan) {
  std::vector<FlatStep> flat;
  std::uint32_t repeats = 0;
  for (const Step& step : plan.steps) {
    const auto* repeat = std::get_if<Repeat>(&step.action);
    if (repeat == nullptr) {
      flat.push_back({.step = &step, .repeat = kTopLevel});
      continue;
    }
    for (const Step& inner : repeat->body) flat.push_back({.step = &inner, .repeat = repeats});
    ++repeats;
  }
  return flat;
}

Operands operands(const Step& step) {
  if (const auto* copy = std::get_if<Copy>(&step.action)) return {{copy->src}, {copy->dst}};
  if (const auto* sum = std::get_if<Sum>(&step.action)) return {{sum->partials}, {sum->out}};
  if (const auto* local = std::get_if<Local>(&step.action)) return {local->inputs, local->outputs};
  if (const auto* product = std::get_if<Product>(&step.action)) {
    Operands ops{{product->left, product->right}, {product->out}};
    if (product->accumulate) ops.reads.push_back(product->out);
    return ops;
  }
  return {};
}

std::vector<Interval> intervals(const Plan& plan, const std::vector<FlatStep>& steps) {
  std::vector<Interval> live(plan.tensors.size());
  const auto end = static_cast<std::uint32_t>(steps.empty() ? 0 : steps.size() - 1);
  std::vector<Span> bodies;
  std::vector<std::vector<std::uint32_t>> regions(plan.tensors.size());  // regions that mention a root
  for (std::uint32_t at = 0; at < steps.size(); ++at) {
    const std::uint32_t region = steps[at].repeat;
    if (region != kTopLevel) {
      if (bodies.size() <= region) bodies.resize(region + 1);
      bodies[region].add(at);
    }
    const Operands ops = operands(*steps[at].step);
    for (const std::vector<TensorId>* list : {&ops.reads, &ops.writes}) {
      for (const TensorId id : *list) {
        const std::uint32_t root = plan.storage_of(id).value;
        live[root].first = std::min(live[root].first, at);
        live[root].last = std::max(live[root].last, at);
        if (std::ranges::find(regions[root], region) == regions[root].end()) regions[root].push_back(region);
      }
    }
  }
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    const std::uint32_t root = plan.storage_of(TensorId(i)).value;
    if (regions[root].size() > 1) {
      for (const std::uint32_t region : regions[root]) {
        if (region == kTopLevel) continue;
        live[root].first = std::min(live[root].first, bodies[region].first);
        live[root].last = std::max(live[root].last, bodies[region].last);
      }
    }
    const Role role = plan.tensors[i].role;
    if (role == Role::Input || role == Role::Parameter) live[root].first = 0;
    if (role == Role::Output || role == Role::Parameter) live[root].last = end;
  }
  return live;
}

std::vector<std::uint32_t> access_tails(const Plan& plan, const std::vector<FlatStep>& steps) {
  constexpr std::uint32_t kLeftTailElements = 8;
  std::vector<std::uint32_t> tails(plan.tensors.size(), 0);
  for (const FlatStep& flat : steps) {
    const auto* product = std::get_if<Product>(&flat.step->action);
    if (product == nullptr) continue;
    const std::uint32_t root = plan.storage_of(product->left).value;
    tails[root] = kLeftTailElements * tensor::bytes_of(plan.at(product->left).type.encoding.precision);
  }
  return tails;
}

}  // namespace tw::plan
