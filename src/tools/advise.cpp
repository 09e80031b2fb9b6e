#include "tools/advise.h"
#include "tools/source.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "base/capacity.h"
#include "plan/build.h"

namespace tw::tools {
namespace {

constexpr std::size_t kSuggestions = 3;

// Bytes on the fullest tile; nothing when the planner itself refuses.
std::optional<std::uint64_t> estimate(const Host& host, const Recipe& recipe) {
  Progress silent;
  try {
    const model::Model model = open_source(recipe).model;
    return plan::build(host.device, model.graph, compile_options(recipe, host.threads).plan, silent)
        .estimated_tensor_bytes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

struct Advice {
  std::string change;
  std::uint64_t bytes = 0;  // estimated
  bool fits = false;
};

// The recipe with one change; nothing when the planner itself refuses it.
template <class Change>
std::optional<Advice> planned(const Host& host, Recipe recipe, std::string name, Change change) {
  recipe.choices.clear();
  change(recipe);
  const auto bytes = estimate(host, recipe);
  if (!bytes) return std::nullopt;
  return Advice{std::move(name), *bytes, *bytes <= plan::usual_budget(host.device)};
}

// The largest smaller batch that is estimated to fit; else batch 1, where it can be planned.
std::optional<Advice> smaller_batch(const Host& host, const Recipe& recipe) {
  std::optional<Advice> best;
  std::uint32_t low = 0, high = recipe.model.batch;  // high does not fit; low does, or is 0
  while (high - low > 1) {
    const std::uint32_t batch = low + (high - low) / 2;
    const auto found =
        planned(host, recipe, fmt::format("--batch {}", batch), [&](Recipe& r) { r.model.batch = batch; });
    const bool fits = found && found->fits;
    if (fits || batch == 1) best = found;
    (fits ? low : high) = batch;
  }
  return best;
}

std::vector<Advice> changes(const Host& host, const Recipe& recipe) {
  std::vector<std::optional<Advice>> tried;
  if (recipe.policy == plan::Policy::Default)
    tried.push_back(
        planned(host, recipe, "--policy capacity", [](Recipe& r) { r.policy = plan::Policy::Capacity; }));
  if (recipe.attention != plan::Attention::Streaming)
    tried.push_back(planned(host, recipe, "--attention streaming",
                            [](Recipe& r) { r.attention = plan::Attention::Streaming; }));
  if (recipe.precision == tensor::Precision::F16)
    tried.push_back(
        planned(host, recipe, "--precision fp8", [](Recipe& r) { r.precision = tensor::Precision::F8; }));
  tried.push_back(smaller_batch(host, recipe));
  std::vector<Advice> found;
  for (std::optional<Advice>& advice : tried) {
    if (advice) found.push_back(*std::move(advice));
  }
  return found;
}

}  // namespace

Error advised(const Host& host, const Recipe& recipe, const Error& error) {
  const bool bytes = error.kind == ErrorKind::Capacity || error.kind == ErrorKind::Contiguity ||
                     error.kind == ErrorKind::Fragmentation;
  if (!error.capacity || !bytes) return error;
  // Like is compared with like; the planner itself knows only what it refused.
  const std::uint64_t now =
      error.capacity->estimated_bytes > 0 ? error.capacity->estimated_bytes : error.capacity->needed_bytes;
  std::vector<Advice> found = changes(host, recipe);
  std::erase_if(found, [&](const Advice& a) { return a.bytes >= now; });
  std::ranges::stable_sort(
      found, [](const Advice& a, const Advice& b) { return a.fits != b.fits ? a.fits : a.bytes < b.bytes; });
  CapacityDetail d = *error.capacity;
  const std::vector<Suggestion> local = std::move(d.suggestions);
  d.suggestions.clear();
  for (const Advice& a : found)
    d.suggestions.push_back({fmt::format("{} ({} B estimated on the fullest tile, {})", a.change,
                                         grouped(a.bytes), a.fits ? "should fit" : "not enough alone"),
                             now - a.bytes});
  const bool batch =
      std::ranges::any_of(found, [](const Advice& a) { return a.change.starts_with("--batch"); });
  for (const Suggestion& s : local) {
    const bool of_batch = s.change.contains("--batch");
    if (!of_batch || (!batch && recipe.model.batch > 1)) d.suggestions.push_back(s);
  }
  d.suggestions.resize(std::min(d.suggestions.size(), kSuggestions));
  return does_not_fit(error.kind, std::move(d));
}

}  // namespace tw::tools
