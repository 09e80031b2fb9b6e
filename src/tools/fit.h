// `tilewright fit`: for each batch a verdict with its figures: a bound that holds for every plan first, then
// construction with each policy.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/pipeline.h"

namespace tw::tools {

struct FitOptions {
  std::vector<std::uint32_t> batches{1};
  std::vector<plan::Policy> policies{plan::Policy::Default, plan::Policy::Capacity};  // in this order
};
// "3", "1..8", "1,2,4", and mixtures; ascending, each once. Error{Usage} otherwise.
std::vector<std::uint32_t> parse_batches(const std::string& text);

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

struct FitAttempt {
  plan::Policy policy = plan::Policy::Default;
  std::optional<compile::Report> report;  // constructed
  std::optional<Error> error;             // or why not
  double seconds = 0;
};
struct FitRow {
  std::uint32_t batch = 1;
  std::uint64_t parameters = 0;  // elements; a pooling probe has a copy per image
  Verdict verdict = Verdict::Undecided;
  std::string proof;  // CannotFit: what proves it; Undecided: what is missing for a proof
  FitBound bound;
  std::vector<FitAttempt> attempts;  // until the first that fits; none when the bound is exceeded
};
struct FitReport {
  Device device;
  Recipe recipe;       // batch and policy are those of the rows
  model::Model model;  // of the first batch
  std::vector<FitRow> rows;
  std::optional<std::uint32_t> largest;  // batch that fits
};
FitReport fit(const Host& host, const Recipe& recipe, const FitOptions& options);

// Fits when one attempt was constructed. CannotFit when each policy that was tried was refused for a reason
// that every compilation of these options meets again; a failed search for addresses is not one.
Verdict verdict_of(const std::vector<FitAttempt>& attempts);

std::string fit_table(const FitReport& report);
std::string fit_json(const FitReport& report);

}  // namespace tw::tools
