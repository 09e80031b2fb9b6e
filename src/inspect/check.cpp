#include <fmt/core.h>

#include "base/error.h"
#include "inspect/problem.h"

namespace tw::inspect {
namespace {

Verdict check_placement(const Device& d, const PlacementProblem& p) {
  Verdict v;
  v.kind = "placement";
  v.subject = fmt::format("tile {}, {} requests", p.tile, p.problem.requests.size());
  place::Placement placement;
  placement.address = *p.addresses;
  v.broken = place::check(d, p.problem, placement);
  for (const place::Preference& w : p.problem.apart) v.total_weight += w.weight;
  if (v.broken.empty()) v.shared_weight = place::shared_weight(d, p.problem, placement.address);
  return v;
}

Verdict check_exchange(const Device& d, const ExchangeProblem& p) {
  Verdict v;
  v.kind = "exchange";
  v.subject = fmt::format("phase {}, {} transfers", p.phase, p.problem.transfers.size());
  v.messages = p.schedule->messages.size();
  v.bound_words = exchange::bound_words(p.problem);
  v.broken = exchange::verify(d, *p.schedule);
  if (!v.broken.empty()) return v;  // no rows to judge
  const exchange::Rows rows = exchange::encode(d, *p.schedule);
  v.horizon = rows.horizon;
  v.broken = exchange::check(d, p.problem, rows);
  return v;
}

}  // namespace

Verdict check(const Device& device, const Problem& problem, const std::string& name) {
  const auto* placement = std::get_if<PlacementProblem>(&problem);
  const auto* phase = std::get_if<ExchangeProblem>(&problem);
  if (placement != nullptr ? !placement->addresses : !phase->schedule)
    throw Error(ErrorKind::File, name + ": $.solution: is null, there is nothing to check");
  return placement != nullptr ? check_placement(device, *placement) : check_exchange(device, *phase);
}

}  // namespace tw::inspect
