#include <fmt/core.h>

#include <algorithm>

#include "compile/capacity.h"
#include "tools/json.h"
#include "tools/source.h"

namespace tw::tools {
namespace {

using tw::grouped;

std::string cycles(double x) { return grouped(static_cast<std::uint64_t>(x + 0.5)); }

std::string milliseconds(const Host& host, double x) {
  return fmt::format("{:.3f} ms at {:.2f} GHz", 1e3 * x / host.device.clock_hz, host.device.clock_hz / 1e9);
}

}  // namespace

std::string compile_table(const Recipe& recipe, const model::Model& model, const compile::Report& r) {
  const std::string extent =  // those of an ONNX file are in its inputs
      is_onnx(recipe) ? "" : fmt::format("{} layer(s), batch {}, ", model.config.layers, model.config.batch);
  std::string t = fmt::format("{} | {}{}, {} policy, {} tiles, {} parameters\n", model.config.name, extent,
                              precision_name(recipe.precision), name_of(recipe.policy), recipe.tiles,
                              grouped(model.parameters));
  auto line = [&](const char* name, const std::string& value) {
    t += fmt::format("  {:<26} {}\n", name, value);
  };
  line("tensor bytes, peak tile", fmt::format("{} of {} (tile {}, step {})", grouped(r.peak_tensor_bytes),
                                              grouped(r.budget_bytes), r.peak_tile, r.peak_step));
  line("resident parameters", fmt::format("{} B on all tiles", grouped(r.parameter_bytes_total)));
  line("exchange", fmt::format("{} phases, table {} B on the busiest tile (budget {})", r.phases,
                               grouped(r.table_bytes_max), grouped(recipe.table_budget)));
  line("fragments, busiest tile",
       fmt::format("{} of {}", grouped(r.fragments_max), grouped(recipe.fragment_limit)));
  line("horizon over bound",
       fmt::format("mean {:.2f}, worst {:.2f}", r.horizon_over_bound_mean, r.horizon_over_bound_worst));
  line("cycles",
       fmt::format("{} estimated, {} scheduled", cycles(r.cycles_estimated), cycles(r.cycles_scheduled)));
  if (recipe.optimization_steps > 0) {
    const auto accepted = std::ranges::count_if(r.optimisation, &compile::OptimisationStep::accepted);
    line("optimisation", fmt::format("{} of {} builds tried, {} accepted", r.optimisation.size(),
                                     recipe.optimization_steps, accepted));
  }
  line("compile time",
       fmt::format("{:.1f} s (plan {:.1f}, lower {:.1f}, place {:.1f}, exchange {:.1f}, emit {:.1f})",
                   r.seconds_total, r.seconds_plan, r.seconds_lower, r.seconds_place, r.seconds_exchange,
                   r.seconds_emit));
  return t;
}

std::string run_table(const Host& host, const RunReport& r) {
  std::string t = "  call   modelled cycles    cosine        max error   bits\n";
  for (const CallReport& c : r.calls) {
    const std::string same = c.same_as_call ? fmt::format("= call {}", *c.same_as_call) : "new";
    const std::string exact =
        c.exact ? (*c.exact ? ", equal to the exact interpreter" : ", NOT the exact interpreter's") : "";
    t += fmt::format("  {:>4}   {:>15}    {:<11}   {:<9}   {}{}{}\n", c.index, grouped(c.stats.cycles),
                     c.cosine_min ? fmt::format("{:.9f}", *c.cosine_min) : "-",
                     c.max_abs_error ? fmt::format("{:.6f}", *c.max_abs_error) : "-", same, exact,
                     c.pass ? "" : "  FAIL");
  }
  if (!r.calls.empty()) {
    const sim::CallStats& s = r.calls.back().stats;
    t += fmt::format(
        "  one call: {} (compute {}, exchange {}, sync {} cycles; modelled, not measured on hardware)\n",
        milliseconds(host, static_cast<double>(s.cycles)), grouped(s.compute_cycles),
        grouped(s.exchange_cycles), grouped(s.sync_cycles));
  }
  if (r.fp8_clips > 0) t += fmt::format("  FP8 values clipped: {}\n", grouped(r.fp8_clips));
  if (r.fault)
    t +=
        fmt::format("  device fault: {}: tile {}, address {:#x}, cycle {}: {}\n", sim::name_of(r.fault->kind),
                    r.fault->tile, r.fault->address, grouped(r.fault->cycle), r.fault->what);
  t += fmt::format("  host seconds: simulate {:.1f}, FP32 reference {:.1f}, exact {:.1f}", r.seconds_simulate,
                   r.seconds_reference, r.seconds_exact);
  if (r.openblas_seconds > 0)
    t += fmt::format("; OpenBLAS needs {:.2f} s for the {:.1f} GMAC of one call", r.openblas_seconds,
                     static_cast<double>(r.macs) / 1e9);
  t += r.pass ? "\npass\n" : "\nFAIL\n";
  return t;
}

std::vector<OperationRow> operation_rows(const compile::Report& compiled, const RunReport& run) {
  const sim::CallStats& stats = run.calls.back().stats;
  const std::vector<double> ends(stats.phase_ends.begin(), stats.phase_ends.end());
  const auto simulated =
      compile::cycles_by_operation(compiled.phase_operations, ends, static_cast<double>(stats.cycles));
  std::vector<OperationRow> rows;
  for (const compile::OperationCycles& o : compiled.scheduled_by_operation) {
    rows.push_back({o.path, compile::cycles_of(compiled.estimated_by_operation, o.path), o.cycles,
                    compile::cycles_of(simulated, o.path)});
  }
  return rows;
}

std::string operation_table(const compile::Report& compiled, const RunReport& run) {
  if (run.fault || run.calls.empty()) return "";
  std::string t = fmt::format("  {:<44} {:>14} {:>14} {:>14}\n", "cycles of one call, by operation",
                              "estimated", "scheduled", "simulated");
  for (const OperationRow& o : operation_rows(compiled, run)) {
    t += fmt::format("  {:<44} {:>14} {:>14} {:>14}\n", o.path, cycles(o.estimated), cycles(o.scheduled),
                     cycles(o.simulated));
  }
  return t;
}

}  // namespace tw::tools
