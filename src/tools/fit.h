// `tilewright fit`: for each combination of target, precision, tiles, layers and batch a verdict with its
// figures: a bound that holds for every plan first, then construction with each policy.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/fit_cache.h"
#include "tools/pipeline.h"

namespace tw::tools {

// What is tried: every combination, in this order of nesting, batches innermost. Empty lists: what the recipe
// says.
struct FitOptions {
  std::vector<std::string> targets;  // device descriptions
  std::vector<tensor::Precision> precisions;
  std::vector<std::uint32_t> tiles, layers, batches;
  std::vector<plan::Policy> policies{plan::Policy::Default, plan::Policy::Capacity};  // in this order
  std::string cache;  // folder of finished attempts; empty: the user's cache folder
  bool no_cache = false;
  std::string csv;  // file, "-": standard output
};
// "3", "1..8", "1,2,4", and mixtures, 1..limit; ascending, each once. Error{Usage} names the option.
std::vector<std::uint32_t> parse_numbers(const char* option, const std::string& text, std::uint32_t limit);

// Bytes that every plan of this compiler holds at once, and what the tiles offer at most: the resident
// parameters, and for the largest product its whole left operand and its whole F16 result.
struct FitBound {
  std::uint64_t parameter_bytes = 0, product_bytes = 0;  // over all tiles, without padding
  std::string product;                                   // operation of product_bytes
  std::uint64_t bytes_per_tile = 0;  // mean over the tiles, rounded up; the busiest holds more
  std::uint64_t available_bytes =
      0;  // per tile: with the host aperture, without one element each of code and rows
  bool exceeded() const { return bytes_per_tile > available_bytes; }
};
FitBound fit_bound(const Device& device, const model::Model& model, const Recipe& recipe);

enum class Verdict { Fits, CannotFit, Undecided };
const char* name_of(Verdict verdict);

struct FitRow {
  std::uint32_t target = 0;  // into FitReport::targets
  Recipe recipe;             // the policy is that of each attempt
  std::uint64_t parameters = 0;
  Verdict verdict = Verdict::Undecided;
  std::string proof;  // CannotFit: what proves it; Undecided: what is missing for a proof
  FitBound bound;
  std::vector<FitAttempt> attempts;  // until the first that fits; none when the bound is exceeded
};
struct FitReport {
  std::vector<std::string> targets;  // names
  std::vector<FitRow> rows;
};
// Rows are tried in parallel. Error{Usage} for a model or size that does not exist.
FitReport fit(const Host& host, const Recipe& recipe, const FitOptions& options);

// Fits when one attempt was constructed. CannotFit when each policy that was tried was refused for a reason
// that every compilation of these options meets again; a failed search for addresses is not one.
Verdict verdict_of(const std::vector<FitAttempt>& attempts);

std::string fit_table(const FitReport& report);
std::string fit_json(const FitReport& report);
std::string fit_csv(const FitReport& report);  // a line for each row, of the attempt that says most

}  // namespace tw::tools
