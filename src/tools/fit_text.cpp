#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "compile/capacity.h"
#include "tools/fit.h"
#include "tools/json.h"

namespace tw::tools {
namespace {
using tw::grouped;
using json = nlohmann::ordered_json;

std::string line_of(const FitRow& row) {
  std::string t = fmt::format("  {:>5}  {:<10}", row.batch, name_of(row.verdict));
  if (row.attempts.empty())
    return t + fmt::format("  at least {} B on the fullest tile, {} B available, {} missing: {} ({})\n",
                           grouped(row.bound.bytes_per_tile), grouped(row.bound.available_bytes),
                           grouped(row.bound.bytes_per_tile - row.bound.available_bytes), row.proof,
                           row.bound.product);
  for (const FitAttempt& a : row.attempts) {
    if (&a != &row.attempts.front()) t += fmt::format("  {:>5}  {:<10}", "", "");
    if (a.report) {
      const compile::Report& r = *a.report;
      t += fmt::format("  {:<8}  {} of {} B on tile {} at step {}, {} free; exchange table {} B; {} cycles\n",
                       name_of(a.policy), grouped(r.peak_tensor_bytes), grouped(r.budget_bytes), r.peak_tile,
                       r.peak_step, grouped(r.budget_bytes - r.peak_tensor_bytes), grouped(r.table_bytes_max),
                       grouped(static_cast<std::uint64_t>(r.cycles_scheduled + 0.5)));
    } else if (a.error->capacity) {
      const CapacityDetail& d = *a.error->capacity;
      t += fmt::format("  {:<8}  {}: needed {}, available {}, {} missing on tile {}{}\n", name_of(a.policy),
                       kind_name(a.error->kind), grouped(d.needed_bytes), grouped(d.available_bytes),
                       grouped(d.missing_bytes), d.tile,
                       d.step_path.empty() ? "" : fmt::format(" at step {} ({})", d.step, d.step_path));
    } else {
      const std::string what = a.error->what();
      t += fmt::format("  {:<8}  {}: {}\n", name_of(a.policy), kind_name(a.error->kind),
                       what.substr(0, what.find('\n')));
    }
  }
  if (!row.proof.empty()) t += fmt::format("  {:>5}  {:<10}  {}\n", "", "", row.proof);
  return t;
}

json attempt_json(const FitReport& report, const FitRow& row, const FitAttempt& a) {
  json j = {{"policy", name_of(a.policy)}, {"seconds", a.seconds}, {"compile", nullptr}, {"error", nullptr}};
  if (a.report) {
    Recipe recipe = report.recipe;
    recipe.policy = a.policy;
    model::Model model = report.model;
    model.config.batch = row.batch;
    model.parameters = row.parameters;
    j["compile"] = json::parse(summary_json(report.device, recipe, model, *a.report));
    j["headroom_bytes"] = a.report->budget_bytes - a.report->peak_tensor_bytes;
  } else {
    j["error"] = json::parse(error_json(*a.error)).at("error");
  }
  return j;
}

}  // namespace

std::string fit_table(const FitReport& report) {
  const model::Config& config = report.model.config;
  std::string t =
      fmt::format("{} | {} layer(s), {}, {} tiles\n  batch  verdict     policy    figures\n", config.name,
                  config.layers, precision_name(report.recipe.precision), report.recipe.tiles);
  for (const FitRow& row : report.rows) t += line_of(row);
  return t + (report.largest ? fmt::format("largest batch that fits: {}\n", *report.largest)
                             : std::string("none of these batches is known to fit\n"));
}

std::string fit_json(const FitReport& report) {
  json rows = json::array();
  for (const FitRow& row : report.rows) {
    const FitBound& b = row.bound;
    json r = {{"batch", row.batch},
              {"verdict", name_of(row.verdict)},
              {"policy", nullptr},
              {"proof", row.proof},
              {"bound",
               {{"bytes_per_tile", b.bytes_per_tile},
                {"available_bytes", b.available_bytes},
                {"parameter_bytes", b.parameter_bytes},
                {"product_bytes", b.product_bytes},
                {"product", b.product}}},
              {"attempts", json::array()}};
    for (const FitAttempt& a : row.attempts) {
      r["attempts"].push_back(attempt_json(report, row, a));
      if (a.report) r["policy"] = name_of(a.policy);
    }
    rows.push_back(r);
  }
  const model::Config& config = report.model.config;
  json j = json::parse(result_json("", ""));
  j["fit"] = {
      {"model", {{"name", config.name}, {"layers", config.layers}, {"parameters", report.model.parameters}}},
      {"precision", precision_name(report.recipe.precision)},
      {"target", {{"name", report.device.name}, {"tiles", report.recipe.tiles}}},
      {"rows", rows},
      {"largest_batch", report.largest ? json(*report.largest) : json(nullptr)}};
  return j.dump(2) + "\n";
}

}  // namespace tw::tools
