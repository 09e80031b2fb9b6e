// Placement and exchange problems as files for other solvers, and the judgement of what these answer
// (docs/problems.md describes every field). The checker is that of the compiler: place::check,
// exchange::check.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exchange/exchange.h"
#include "place/place.h"
#include "target/device.h"

namespace tw::inspect {

// Placement of one tile.
struct PlacementProblem {
  std::uint32_t tile = 0;  // physical
  place::Problem problem;
  std::vector<std::string> tensors;                     // one per request
  std::string solver;                                   // of the solution
  std::optional<std::vector<std::uint32_t>> addresses;  // the solution: one per request
};

// One exchange phase.
struct ExchangeProblem {
  std::uint32_t phase = 0;
  std::string operation;
  exchange::Problem problem;
  std::vector<std::string> tensors;  // sent by each transfer
  std::string solver;
  std::optional<exchange::Schedule> schedule;  // the solution; only messages, receivers and iterations count
};

using Problem = std::variant<PlacementProblem, ExchangeProblem>;

std::string to_json(const Device& device, const Problem& problem);
// Error{File} lists everything that is wrong as NAME: $.path: what, at most 50. What is read is a sound
// problem of `device`; its solution may break rules.
Problem problem_from_json(const Device& device, std::string_view text, const std::string& name);

struct Verdict {
  std::string kind;                 // "placement", "exchange"
  std::string subject;              // "tile 17, 34 requests"
  std::vector<std::string> broken;  // every broken rule; at most some 50 of one kind
  // Placement: weight of the preferences that are not kept, of all.
  std::uint64_t shared_weight = 0, total_weight = 0;
  // Exchange: messages, cycles to the last event of a row, and its bound: most words that one tile sends or
  // receives.
  std::uint64_t messages = 0, horizon = 0, bound_words = 0;
};
// Error{File} when the file holds no solution.
Verdict check(const Device& device, const Problem& problem, const std::string& name);

}  // namespace tw::inspect
