#include "plan/decide.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/parallel.h"
#include "plan/select.h"

namespace tw::plan {

bool is_given(const Draft& draft) { return draft.options.choices.contains(draft.path); }

std::size_t given(Draft& draft, std::size_t count) {
  const std::uint32_t chosen = draft.options.choices.at(draft.path);
  if (chosen >= count) {
    throw Error(ErrorKind::File,
                fmt::format("{}: candidate {} was chosen, but there are {}", draft.path, chosen, count));
  }
  draft.plan.choices.push_back({.path = draft.path, .chosen = chosen, .alternatives = {}});
  return chosen;
}

void record(Draft& draft, std::size_t chosen, std::span<const Metrics> candidates) {
  Choice choice{.path = draft.path, .chosen = chosen, .alternatives = {}};
  for (const Metrics& m : candidates) choice.alternatives.push_back({m.cycles, m.total_bytes});
  draft.plan.choices.push_back(std::move(choice));
}

std::vector<Metrics> measured(const Draft& draft, std::size_t count,
                              const std::function<Metrics(std::size_t)>& metrics_of) {
  std::vector<Metrics> metrics(count);
  parallel_for(count, 1, draft.options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) metrics[i] = metrics_of(i);
  });
  return metrics;
}

std::size_t decide(Draft& draft, std::size_t count, const std::function<Metrics(std::size_t)>& metrics_of) {
  TW_CHECK(count > 0, "a choice without candidates");
  if (is_given(draft)) return given(draft, count);
  const std::vector<Metrics> metrics = measured(draft, count, metrics_of);
  std::size_t best = 0;
  for (std::size_t i = 1; i < count; ++i) {
    if (better(metrics[i], metrics[best], draft.options.policy)) best = i;
  }
  record(draft, best, metrics);
  return best;
}

}  // namespace tw::plan
