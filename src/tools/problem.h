// Problems of a package for other solvers: `problem` writes one with our solution, `check` judges a file
// (docs/problems.md).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "inspect/problem.h"
#include "tools/pipeline.h"

namespace tw::tools {

// What to write: the placement of a physical tile, or the schedule of a phase.
struct ProblemChoice {
  std::optional<std::uint32_t> tile, phase;
};
// The package's recipe is built again. Error{File} when that gives another image, Error{Usage} for a tile or
// phase that is not there, or when not exactly one is chosen.
inspect::Problem problem_of(const Host& host, const std::string& package_file, const ProblemChoice& choice);

// The problem of the tile that a build which finds no placement names.
inspect::PlacementProblem unplaced_problem(const compile::Unplaced& unplaced);

// Writes FOLDER/placement-tile-T.json and returns its name.
std::string write_unplaced(const Host& host, const inspect::PlacementProblem& problem,
                           const std::string& folder);

// Reads and judges a problem file.
inspect::Verdict check_file(const Host& host, const std::string& file);

std::string problem_table(const inspect::Problem& problem, const std::string& file);
std::string problem_result_json(const inspect::Problem& problem, const std::string& file);
std::string verdict_table(const inspect::Verdict& verdict);
std::string verdict_json(const inspect::Verdict& verdict);

}  // namespace tw::tools
