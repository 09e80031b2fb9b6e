#include "tools/anchor.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "compile/capacity.h"

namespace tw::tools {
namespace {
using tw::grouped;

// The seed's capacity baseline of 12 September 2026 with relays, no search; weights and inputs are its own
// random ones.
constexpr std::array kAnchors = {
    Anchor{"pe-core-l14-capacity", 24, 2, 50652, 22689775, 15.991, 0.993687, 370472, 88.8},
    Anchor{"siglip-so400m", 27, 2, 61316, 25281807, 18.455, 0.993969, std::nullopt, 132.3},
};

std::optional<double> smallest_cosine(const RunReport& run) {
  std::optional<double> least;
  for (const CallReport& c : run.calls) {
    if (c.cosine_min) least = std::min(least.value_or(1), *c.cosine_min);
  }
  return least;
}

std::string whole(double x) { return grouped(static_cast<std::uint64_t>(x + 0.5)); }

}  // namespace

const Anchor* anchor_of(const Recipe& recipe, const model::Model& model) {
  const model::Config& c = model.config;
  const Recipe standard;
  if (recipe.policy != plan::Policy::Capacity || recipe.precision != standard.precision ||
      recipe.fp8_scale != standard.fp8_scale || !recipe.fp8_scales.empty() || !recipe.fp16_roles.empty() ||
      recipe.tiles != standard.tiles || c.small || !c.fuse_qkv || recipe.model.image_size != 0)
    return nullptr;
  const auto* found = std::find_if(kAnchors.begin(), kAnchors.end(), [&](const Anchor& a) {
    return a.model == c.name && a.layers == c.layers && a.batch == c.batch;
  });
  return found == kAnchors.end() ? nullptr : found;
}

std::string anchor_table(const Host& host, const Recipe& recipe, const model::Model& model,
                         const compile::Report& compiled, const RunReport& run) {
  const Anchor* anchor = anchor_of(recipe, model);
  if (anchor == nullptr || run.fault || run.calls.empty()) return "";
  std::string t = fmt::format("  {:<32} {:>24}   {:>24}\n", "the same job, two sources",
                              "seed, C600 or its planner", "ours, modelled");
  auto line = [&](const char* what, const std::string& theirs, const std::string& ours) {
    t += fmt::format("  {:<32} {:>24}   {:>24}\n", what, theirs, ours);
  };
  const double cycles = static_cast<double>(run.calls.back().stats.cycles);
  const std::optional<double> cosine = smallest_cosine(run);
  const unsigned threads = host.threads == 0 ? default_threads() : host.threads;
  line("exchange table, busiest tile", grouped(anchor->table_bytes) + " B",
       grouped(compiled.table_bytes_max) + " B");
  line("tensor bytes, peak tile",
       anchor->tensor_bytes ? grouped(*anchor->tensor_bytes) + " B (planner)" : "-",
       grouped(compiled.peak_tensor_bytes) + " B (placed)");
  line("cycles, planner's estimate", whole(anchor->cycles_estimated), whole(compiled.cycles_estimated));
  line("cycles, placed and scheduled", "-", whole(compiled.cycles_scheduled));
  line("one call", fmt::format("{:.3f} ms (measured)", anchor->milliseconds),
       fmt::format("{:.3f} ms (modelled)", 1e3 * cycles / host.device.clock_hz));
  line("smallest cosine against FP32", fmt::format("{:.6f}", anchor->cosine),
       cosine ? fmt::format("{:.6f}", *cosine) : "-");
  line("plan and package", fmt::format("{:.1f} s, 12 threads", anchor->planning_seconds),
       fmt::format("{:.1f} s, {} thread{}", compiled.seconds_total, threads, threads == 1 ? "" : "s"));
  return t;
}

}  // namespace tw::tools
