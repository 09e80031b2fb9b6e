#include "tools/advise.h"

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
    const model::Model model = model::build(recipe.model);
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

class Adviser {
 public:
  Adviser(const Host& host, const Recipe& recipe) : host_(host), recipe_(recipe) {}

  std::vector<Advice> all() {
    if (recipe_.policy == plan::Policy::Default)
      try_one("--policy capacity", [](Recipe& r) { r.policy = plan::Policy::Capacity; });
    if (recipe_.attention != plan::Attention::Streaming)
      try_one("--attention streaming", [](Recipe& r) { r.attention = plan::Attention::Streaming; });
    if (recipe_.precision == tensor::Precision::F16)
      try_one("--precision fp8", [](Recipe& r) { r.precision = tensor::Precision::F8; });
    largest_batch();
    return std::move(found_);
  }

 private:
  template <class Change>
  bool try_one(const std::string& name, Change change) {
    Recipe other = recipe_;
    other.choices.clear();
    change(other);
    const auto bytes = estimate(host_, other);
    if (!bytes) return false;
    found_.push_back({name, *bytes, *bytes <= plan::usual_budget(host_.device)});
    return found_.back().fits;
  }
  // Halving, then back up: the largest smaller batch that is estimated to fit; without one, batch 1.
  void largest_batch() {
    std::uint32_t low = 0, high = recipe_.model.batch;  // low fits (0: trivially), high does not
    std::optional<Advice> best;
    while (high - low > 1) {
      const std::uint32_t batch = low + (high - low) / 2;
      const bool fits = try_one(fmt::format("--batch {}", batch), [&](Recipe& r) { r.model.batch = batch; });
      if (!found_.empty() && found_.back().change == fmt::format("--batch {}", batch)) {
        if (fits || batch == 1) best = found_.back();
        found_.pop_back();
      }
      (fits ? low : high) = batch;
    }
    if (best) found_.push_back(*best);
  }

  const Host& host_;
  const Recipe& recipe_;
  std::vector<Advice> found_;
};

}  // namespace

Error advised(const Host& host, const Recipe& recipe, const Error& error) {
  const bool bytes = error.kind == ErrorKind::Capacity || error.kind == ErrorKind::Contiguity ||
                     error.kind == ErrorKind::Fragmentation;
  if (!error.capacity || !bytes) return error;
  const std::uint64_t now = estimate(host, recipe).value_or(error.capacity->needed_bytes);
  std::vector<Advice> found = Adviser(host, recipe).all();
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
