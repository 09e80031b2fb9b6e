#include "tools/json.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <map>

#include "base/version.h"
#include "ref/ref.h"
#include "tools/source.h"

namespace tw::tools {
namespace {
using json = nlohmann::ordered_json;

json number(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

template <class T>
json optional(const std::optional<T>& x) {
  if (!x) return nullptr;
  if constexpr (std::is_same_v<T, double>) {
    return number(*x);
  } else {
    return *x;
  }
}

json envelope() {
  return {{"schema_version", 1},
          {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}}};
}

json mapping_json(const std::optional<Mapping>& m) {
  if (!m) return nullptr;
  return {{"case", m->case_name},
          {"cosine_min", number(m->cosine_min)},
          {"max_abs_error", number(m->max_abs_error)},
          {"pass", m->pass}};
}

json fault_json(const sim::Fault& f) {
  return {{"kind", sim::name_of(f.kind)},
          {"tile", f.tile},
          {"address", f.address},
          {"cycle", f.cycle},
          {"phase", f.phase},
          {"what", f.what}};
}

json optimization_json(const Recipe& recipe, const std::vector<compile::OptimisationStep>& steps) {
  json tried = json::array();
  for (const compile::OptimisationStep& s : steps) {
    json changes = json::array();
    for (const compile::ChangedChoice& c : s.changes)
      changes.push_back({{"operation", c.path}, {"from", c.from}, {"to", c.to}});
    tried.push_back({{"changes", changes},
                     {"estimated", s.estimated},
                     {"scheduled", optional(s.scheduled)},
                     {"fits", s.scheduled.has_value()},
                     {"accepted", s.accepted}});
  }
  return {{"steps", recipe.optimization_steps}, {"attempts", steps.size()}, {"tried", tried}};
}

// What was to be built.
json job(const Device& device, const Recipe& recipe, const model::Model& model, bool fits) {
  return {{"model",
           {{"name", model.config.name},
            {"layers", model.config.layers},
            {"batch", model.config.batch},
            {"parameters", model.parameters}}},
          {"policy", name_of(recipe.policy)},
          {"precision", precision_name(recipe.precision)},
          {"target", {{"name", device.name}, {"tiles", recipe.tiles}, {"clock_hz", device.clock_hz}}},
          {"fits", fits}};
}

// The part of the `compile` object that the recipe decides.
json compile_figures(const Device& device, const Recipe& recipe, const model::Model& model,
                     const compile::Report& r) {
  json j = job(device, recipe, model, true);
  j["memory"] = {{"peak_tensor_bytes", r.peak_tensor_bytes},
                 {"peak_total_bytes", r.peak_total_bytes},
                 {"budget_bytes", r.budget_bytes},
                 {"peak_tile", r.peak_tile},
                 {"peak_step", r.peak_step},
                 {"peak_step_path", r.peak_step_path},
                 {"peak_standard_bytes", r.peak_standard_bytes},
                 {"peak_interleaved_bytes", r.peak_interleaved_bytes},
                 {"parameter_bytes_total", r.parameter_bytes_total},
                 {"reserve_bytes", r.reserve_bytes},
                 {"estimated_tensor_bytes", r.estimated_tensor_bytes}};
  j["exchange"] = {{"phases", r.phases},
                   {"table_bytes_max", r.table_bytes_max},
                   {"table_bytes_mean", r.table_bytes_mean},
                   {"table_budget_bytes", recipe.table_budget},
                   {"fragments_max", r.fragments_max},
                   {"fragment_limit", recipe.fragment_limit},
                   {"relay_phases", r.relay_phases},
                   {"horizon_over_bound_mean", r.horizon_over_bound_mean},
                   {"horizon_over_bound_worst", r.horizon_over_bound_worst}};
  j["cycles"] = {{"estimated", r.cycles_estimated}, {"scheduled", r.cycles_scheduled}};
  j["cycles"]["operations"] = json::array();
  std::map<std::string, std::uint64_t> macs;
  for (const ref::Extent& e : ref::products(model.graph)) macs[e.path] += e.macs();
  for (const compile::OperationCycles& o : r.scheduled_by_operation) {
    j["cycles"]["operations"].push_back({{"path", o.path},
                                         {"estimated", cycles_of(r.estimated_by_operation, o.path)},
                                         {"scheduled", o.cycles},
                                         {"macs", macs[o.path]}});
  }
  if (recipe.optimization_steps > 0) j["optimization"] = optimization_json(recipe, r.optimisation);
  return j;
}

}  // namespace

std::string summary_json(const Device& device, const Recipe& recipe, const model::Model& model,
                         const compile::Report& report) {
  return compile_figures(device, recipe, model, report).dump();
}

std::string refused_summary_json(const Device& device, const Recipe& recipe) {
  return job(device, recipe, open_source(recipe).model, false).dump();
}

std::string compile_json(const Host& host, const Recipe& recipe, const model::Model& model,
                         const compile::Report& r, const PackageFile& file) {
  json j = compile_figures(host.device, recipe, model, r);
  j["seconds"] = {{"plan", r.seconds_plan},         {"lower", r.seconds_lower}, {"place", r.seconds_place},
                  {"exchange", r.seconds_exchange}, {"emit", r.seconds_emit},   {"total", r.seconds_total}};
  j["host_peak_rss_bytes"] = peak_rss_bytes();
  j["clipped_weights"] = json::array();
  for (const compile::ClippedWeights& c : r.clipped_weights)
    j["clipped_weights"].push_back({{"tensor", c.name},
                                    {"scale", c.scale},
                                    {"values", c.values},
                                    {"clipped", c.clipped},
                                    {"largest", c.largest}});
  j["package"] = {{"file", file.file}, {"bytes", file.bytes}, {"sha256", file.sha256}};
  return j.dump();
}

std::string run_json(const Host& host, const RunReport& r, const compile::Report* compiled) {
  json j;
  j["calls"] = json::array();
  double cycles = 0, compute = 0, exchange = 0, sync = 0;
  for (const CallReport& c : r.calls) {
    j["calls"].push_back({{"index", c.index},
                          {"cycles", c.stats.cycles},
                          {"cosine_min", optional(c.cosine_min)},
                          {"max_abs_error", optional(c.max_abs_error)},
                          {"same_as_call", optional(c.same_as_call)},
                          {"exact", optional(c.exact)},
                          {"mapping", mapping_json(c.mapping)},
                          {"pass", c.pass}});
    cycles = static_cast<double>(c.stats.cycles);
    compute = static_cast<double>(c.stats.compute_cycles);
    exchange = static_cast<double>(c.stats.exchange_cycles);
    sync = static_cast<double>(c.stats.sync_cycles);
  }
  j["simulated"] = {{"cycles_per_call", cycles},
                    {"compute_cycles", compute},
                    {"exchange_cycles", exchange},
                    {"sync_cycles", sync},
                    {"milliseconds_at_clock", 1e3 * cycles / host.device.clock_hz}};
  j["exact_match"] = optional(r.exact_match);
  j["faults"] = json::array();
  if (r.fault) j["faults"].push_back(fault_json(*r.fault));
  j["fp8_clips"] = r.fp8_clips;
  j["seconds"] = {
      {"simulate", r.seconds_simulate}, {"reference", r.seconds_reference}, {"exact", r.seconds_exact}};
  j["openblas_seconds_same_macs"] = r.openblas_seconds;
  j["macs"] = r.macs;
  if (compiled != nullptr && !r.fault && !r.calls.empty()) {
    j["operations"] = json::array();
    for (const OperationRow& o : operation_rows(*compiled, r)) {
      j["operations"].push_back({{"path", o.path},
                                 {"estimated", o.estimated},
                                 {"scheduled", o.scheduled},
                                 {"simulated", o.simulated}});
    }
  }
  j["pass"] = r.pass;
  return j.dump();
}

std::string result_json(const std::string& compile, const std::string& run) {
  json j = envelope();
  if (!compile.empty()) j["compile"] = json::parse(compile);
  if (!run.empty()) j["run"] = json::parse(run);
  return j.dump(2) + "\n";
}

std::string error_object_json(const Error& error) {
  json e = {{"kind", kind_name(error.kind)}, {"message", error.what()}};
  if (error.capacity) {
    const CapacityDetail& d = *error.capacity;
    e.update({{"tile", d.tile},
              {"physical_tile", d.physical_tile},
              {"step", d.step},
              {"step_path", d.step_path},
              {"memory_class", d.memory_class},
              {"needed_bytes", d.needed_bytes},
              {"available_bytes", d.available_bytes},
              {"missing_bytes", d.missing_bytes},
              {"largest_hole_bytes", d.largest_hole_bytes},
              {"holes", d.holes},
              {"estimated_tensor_bytes", d.estimated_bytes},
              {"cause", d.cause},
              {"failing_tiles", d.failing_tiles},
              {"first_failing_tiles", d.first_tiles}});
    e["ranges"] = json::array();
    for (const MemoryRange& r : d.ranges) e["ranges"].push_back({{"begin", r.begin}, {"end", r.end}});
    e["parts"] = json::array();
    for (const Share& part : d.parts) e["parts"].push_back({{"what", part.what}, {"amount", part.amount}});
    e["live"] = json::array();
    for (const LiveTensor& t : d.live) {
      e["live"].push_back({{"tensor", t.tensor},
                           {"role", t.role},
                           {"shape", t.shape},
                           {"precision", t.precision},
                           {"bytes", t.bytes},
                           {"padding_bytes", t.padding_bytes},
                           {"first_step", t.first_step},
                           {"last_step", t.last_step}});
    }
    e["suggestions"] = json::array();
    for (const Suggestion& s : d.suggestions)
      e["suggestions"].push_back({{"change", s.change}, {"saves_bytes", s.saves_bytes}});
  }
  return e.dump(-1, ' ', false, json::error_handler_t::replace);  // file names may be no UTF-8
}

std::string error_json(const Error& error) {
  json j = envelope();
  j["error"] = json::parse(error_object_json(error));
  return j.dump(2) + "\n";
}

std::string internal_error_json(const std::string& what) {
  json j = envelope();
  j["error"] = {{"kind", "internal"}, {"message", what}};
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tw::tools
