#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "inspect/problem.h"

namespace tw::inspect {
namespace {

// Elements of one request are a run of numbers.
bool share_element(const Device& d, const place::Problem& p, const std::vector<std::uint32_t>& address,
                   std::uint32_t a, std::uint32_t b) {
  const auto first = [&](std::uint32_t i) { return element_of(d, address[i]); };
  const auto last = [&](std::uint32_t i) {
    return element_of(d, address[i] + std::max(p.requests[i].bytes, 1U) - 1);
  };
  return first(a) <= last(b) && first(b) <= last(a);
}

Verdict check_placement(const Device& d, const PlacementProblem& p) {
  Verdict v;
  v.kind = "placement";
  v.subject = fmt::format("tile {}, {} requests", p.tile, p.problem.requests.size());
  place::Placement placement;
  placement.address = *p.addresses;
  v.broken = place::check(d, p.problem, placement);
  for (const place::Preference& w : p.problem.apart) {
    v.total_weight += w.weight;
    if (v.broken.empty() && share_element(d, p.problem, *p.addresses, w.a, w.b)) v.shared_weight += w.weight;
  }
  return v;
}

std::uint64_t bound_words(const Device& d, const exchange::Problem& p) {
  std::vector<std::uint64_t> sent(d.tiles, 0), received(d.tiles, 0);
  for (const exchange::Transfer& t : p.transfers) {
    sent[t.source.value] += t.words;
    for (std::uint32_t k = 0; k < t.receiver_count; ++k)
      received[p.receivers[t.first_receiver + k].tile.value] += t.words;
  }
  return std::max(*std::ranges::max_element(sent), *std::ranges::max_element(received));
}

Verdict check_exchange(const Device& d, const ExchangeProblem& p) {
  Verdict v;
  v.kind = "exchange";
  v.subject = fmt::format("phase {}, {} transfers", p.phase, p.problem.transfers.size());
  v.messages = p.schedule->messages.size();
  v.bound_words = bound_words(d, p.problem);
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
