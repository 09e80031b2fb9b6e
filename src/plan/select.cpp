#include "plan/select.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/capacity.h"
#include "plan/canonical.h"
#include "plan/decide.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

// Grids that compare equal keep a fixed order, whatever the sort.
auto identity(const GemmCandidate& c) {
  return std::tuple(c.inner, c.cols, c.rows, c.right, c.result_rows, c.result_cols, c.rows_fast, c.early_cast,
                    c.k_step);
}
auto by_bytes(const GemmCandidate& c) { return std::tuple(c.bytes, c.row_bytes, c.cycles); }
auto by_rows(const GemmCandidate& c) { return std::tuple(c.row_bytes, c.cycles, c.bytes); }
auto by_cycles(const GemmCandidate& c) { return std::tuple(c.cycles, c.bytes, c.row_bytes); }

std::vector<GemmCandidate> undominated(std::vector<GemmCandidate> candidates) {
  std::ranges::sort(candidates, {}, [](const GemmCandidate& c) {
    return std::pair(by_cycles(c), identity(c));
  });  // a later one can only win on bytes or rows
  std::vector<GemmCandidate> kept;
  for (const GemmCandidate& c : candidates) {
    const bool beaten = std::ranges::any_of(
        kept, [&](const GemmCandidate& k) { return k.bytes <= c.bytes && k.row_bytes <= c.row_bytes; });
    if (!beaten) kept.push_back(c);
  }
  return kept;
}

Metrics fragment_metrics(const Draft& draft, const Held& x, TensorId home, const GemmCandidate& candidate) {
  Draft fragment(draft.device, draft.options);
  fragment.path = draft.path;
  Held local = x;
  local.tensor = fragment.import(draft.at(x.tensor));
  const TensorId weight = fragment.import(draft.at(home));
  emit_gemm(fragment, local, weight, candidate);
  return estimate_quickly(fragment.plan);
}

std::vector<Metrics> measure(const Draft& draft, const Held& x, TensorId home,
                             const std::vector<GemmCandidate>& list) {
  return measured(draft, list.size(),
                  [&](std::size_t i) { return fragment_metrics(draft, x, home, list[i]); });
}

GemmProblem problem_of(const Draft& draft, const Held& x, TensorId home) {
  const tensor::TensorType& weight = draft.at(home).type;
  GemmProblem problem;
  for (std::size_t axis = 0; axis + 2 < x.shape.size(); ++axis) problem.outer *= x.shape[axis];
  problem.rows = x.shape[x.shape.size() - 2];
  problem.inner = x.shape.back();
  problem.cols = weight.shape.back();
  problem.precision = weight.encoding.precision;
  return problem;
}

}  // namespace

bool better(const Metrics& a, const Metrics& b, Policy policy) {
  if (policy == Policy::Capacity) {
    return std::tuple(a.total_bytes, a.max_standard_allocation, a.row_bytes, a.cycles) <
           std::tuple(b.total_bytes, b.max_standard_allocation, b.row_bytes, b.cycles);
  }
  return std::tuple(a.total_bytes, a.row_bytes, a.cycles) < std::tuple(b.total_bytes, b.row_bytes, b.cycles);
}

bool better_within(std::uint64_t room, Metrics a, Metrics b, Policy policy) {
  if (room == UINT64_MAX) return better(a, b, policy);
  for (Metrics* m : {&a, &b}) {
    m->total_bytes = std::max(m->total_bytes, room);
    m->max_standard_allocation = std::max(m->max_standard_allocation, room);
  }
  return better(a, b, policy);
}

std::vector<GemmCandidate> shortlist(std::vector<GemmCandidate> candidates, std::size_t limit) {
  candidates = undominated(std::move(candidates));
  if (candidates.size() <= limit) return candidates;
  std::vector<GemmCandidate> chosen;
  std::vector<bool> taken(candidates.size(), false);
  const auto take = [&](std::size_t i) {
    if (taken[i] || chosen.size() >= limit) return;
    taken[i] = true;
    chosen.push_back(candidates[i]);
  };
  const auto minimum = [&](auto key) {
    return static_cast<std::size_t>(std::ranges::min_element(candidates, {}, key) - candidates.begin());
  };
  take(minimum(by_bytes));
  take(minimum(by_rows));
  take(minimum(by_cycles));
  std::map<std::tuple<std::uint32_t, bool, bool, bool, std::uint32_t>, bool> kinds;
  std::vector<std::size_t> order(candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(by_bytes(candidates[i]), i); });
  for (const std::size_t i : order) {
    const GemmCandidate& c = candidates[i];
    bool& seen = kinds[{c.inner, c.result_rows > 1, c.result_cols > 1, c.early_cast, c.k_step}];
    if (!seen && chosen.size() < limit / 2) seen = true, take(i);
  }
  for (const std::size_t i : order) take(i);
  return chosen;
}

// Even the product grid that needs least does not fit: its operands and partials are alive together.
Error no_grid(const Draft& draft, const GemmProblem& p) {
  const GridNeed need = least_need(p, draft.tiles());
  CapacityDetail d;
  d.step_path = draft.path;
  d.needed_bytes = need.total();
  d.available_bytes = data_budget(draft.device);
  const std::uint64_t wide = need.right + need.partials, region = interleaved_budget(draft.device);
  if (d.needed_bytes <= d.available_bytes && wide > region) {
    d.memory_class = "interleaved";
    d.needed_bytes = wide, d.available_bytes = region;
  }
  d.missing_bytes = d.needed_bytes - std::min(d.needed_bytes, d.available_bytes);
  d.failing_tiles = need.grid_tiles;
  d.cause =
      "even the grid of tiles that needs least holds both operands and the partials of this product at once";
  const char* precision = tensor::name_of(p.precision);
  d.live = {{draft.path + "/left", "operand", tensor::to_string({p.outer, p.rows, p.inner}), precision,
             need.left, 0, 0, 0},
            {draft.path + "/right", "operand", tensor::to_string({p.inner, p.cols}), precision, need.right, 0,
             0, 0},
            {draft.path + "/partials", "partials", tensor::to_string({p.outer, p.rows, p.cols}), "f16",
             need.partials, 0, 0, 0}};
  std::ranges::sort(d.live, std::ranges::greater{}, &LiveTensor::bytes);
  if (p.outer > 1) d.suggestions.push_back({"half the batch (--batch)", (need.left + need.partials) / 2});
  if (draft.tiles() < draft.device.tiles) {
    const std::uint64_t all = least_need(p, draft.device.tiles).total();
    d.suggestions.push_back({fmt::format("all {} tiles (--tiles)", draft.device.tiles),
                             need.total() - std::min(need.total(), all)});
  }
  return does_not_fit(ErrorKind::Capacity, std::move(d));
}

GemmCandidate choose_gemm(Draft& draft, const Held& x, TensorId home) {
  const Policy policy = draft.options.policy;
  const GemmProblem problem = problem_of(draft, x, home);
  std::vector<GemmCandidate> list =
      shortlist(gemm_candidates(draft.device, problem, draft.tiles(), policy), kShortlist);
  const auto append_steps = [&] {
    const std::vector<GemmCandidate> steps =
        shortlist(step_candidates(draft.device, problem, draft.tiles(), policy), kStepShortlist);
    list.insert(list.end(), steps.begin(), steps.end());
    return steps;
  };
  if (is_given(draft)) {
    if (draft.options.choices.at(draft.path) >= list.size()) append_steps();
    return list[given(draft, list.size())];
  }
  std::vector<Metrics> metrics = measure(draft, x, home, list);
  // What the operator may use beside the weight itself, which every candidate reads from its home.
  std::uint64_t room = draft.operator_room;
  if (room != UINT64_MAX)
    room += tensor::ResolvedLayout(draft.at(home).type).max_shard_bytes() * draft.at(home).members.size();
  const auto best = [&] {
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (better_within(room, metrics[i], metrics[chosen], policy)) chosen = i;
    }
    return chosen;
  };
  if (list.empty() || (room != UINT64_MAX && metrics[best()].total_bytes > room)) {
    const std::vector<Metrics> more = measure(draft, x, home, append_steps());
    metrics.insert(metrics.end(), more.begin(), more.end());
  }
  if (list.empty()) throw no_grid(draft, problem);
  record(draft, best(), metrics);
  return list[best()];
}

}  // namespace tw::plan
