#include "compile/optimise.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/parallel.h"

namespace tw::compile {
namespace {

constexpr std::size_t kAlternatives = 4;  // per operation and round

// Candidates of one operation that are estimated faster than candidate `current`, fastest first.
std::vector<std::uint32_t> faster(const plan::Choice& choice, std::uint32_t current) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < choice.alternatives.size(); ++i) {
    if (choice.alternatives[i].cycles < choice.alternatives[current].cycles) found.push_back(i);
  }
  std::ranges::stable_sort(found, {}, [&](std::uint32_t i) { return choice.alternatives[i].cycles; });
  return found;
}

struct Proposal {
  Candidates candidates;
  double estimated = 0;
};

// Estimates every proposal that was not visited; keeps those below the incumbent's estimate, best first.
std::vector<Proposal> promising(const Device& device, const graph::Graph& graph, const Options& options,
                                std::vector<Candidates> fresh, double incumbent) {
  std::vector<std::optional<double>> estimates(fresh.size());
  parallel_for(fresh.size(), 1, options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      plan::Options one = options.plan;
      one.choices = fresh[i];
      one.threads = 1;
      Progress silent(ProgressMode::Never);
      estimates[i] = plan::build(device, graph, one, silent).estimated_cycles;
    }
  });
  std::vector<Proposal> kept;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (*estimates[i] < incumbent) kept.push_back({std::move(fresh[i]), *estimates[i]});
  }
  std::ranges::stable_sort(kept, {}, &Proposal::estimated);
  return kept;
}

// The proposal as a complete build; nothing when it does not fit.
std::optional<Result> attempt(const Device& device, const graph::Graph& graph, const Options& options,
                              const Candidates& candidates, Progress& progress) {
  Options one = options;
  one.plan.choices = candidates;
  one.on_unplaced = {};  // a proposal that does not fit is no refusal of the model
  try {
    return compile(device, graph, one, progress);
  } catch (const Error& error) {
    if (exit_code(error.kind) != 3) throw;  // does not fit, or exceeds a limit
    return std::nullopt;
  }
}

// What the proposal changes, as "path: from -> to" pairs.
std::vector<ChangedChoice> difference(const Candidates& from, const Candidates& to) {
  std::vector<ChangedChoice> changes;
  for (const auto& [path, candidate] : to) {
    if (from.at(path) != candidate) changes.push_back({path, from.at(path), candidate});
  }
  return changes;
}

}  // namespace

Candidates candidates_of(const std::vector<plan::Choice>& choices) {
  Candidates out;
  for (const plan::Choice& choice : choices) out[choice.path] = static_cast<std::uint32_t>(choice.chosen);
  return out;
}

std::vector<Candidates> proposals(const std::vector<plan::Choice>& choices, const Candidates& current) {
  std::vector<Candidates> out;
  Candidates joint = current;
  for (const plan::Choice& choice : choices) {
    const std::vector<std::uint32_t> list = faster(choice, current.at(choice.path));
    if (list.empty()) continue;
    joint[choice.path] = list.front();
    for (std::size_t i = 0; i < std::min(list.size(), kAlternatives); ++i) {
      Candidates one = current;
      one[choice.path] = list[i];
      out.push_back(std::move(one));
    }
  }
  if (joint != current && std::ranges::find(out, joint) == out.end()) out.push_back(std::move(joint));
  return out;
}

Result optimise(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress) {
  Result incumbent = compile(device, graph, options, progress);
  const std::vector<plan::Choice> table = incumbent.plan.choices;
  Candidates current = candidates_of(table);
  std::vector<OptimisationStep> log;
  std::set<Candidates> visited{current};
  for (bool improved = true; improved && log.size() < options.optimization_steps;) {
    improved = false;
    std::vector<Candidates> fresh;
    for (Candidates& c : proposals(table, current)) {
      if (!visited.contains(c)) fresh.push_back(std::move(c));
    }
    progress.stage("proposals");
    for (Proposal& p :
         promising(device, graph, options, std::move(fresh), incumbent.report.cycles_estimated)) {
      if (log.size() == options.optimization_steps) break;
      visited.insert(p.candidates);
      std::optional<Result> built = attempt(device, graph, options, p.candidates, progress);
      const bool faster = built && built->report.cycles_scheduled < incumbent.report.cycles_scheduled;
      log.push_back({.changes = difference(current, p.candidates),
                     .estimated = p.estimated,
                     .scheduled = {},
                     .accepted = faster});
      if (built) log.back().scheduled = built->report.cycles_scheduled;
      if (!faster) continue;
      incumbent = std::move(*built);
      current = std::move(p.candidates);
      improved = true;
      break;
    }
  }
  incumbent.report.optimisation = std::move(log);
  return incumbent;
}

}  // namespace tw::compile
