#include "tools/commands.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/sha256.h"
#include "inspect/assembly.h"
#include "inspect/inspect.h"
#include "tools/anchor.h"
#include "tools/calibration.h"
#include "tools/cli.h"
#include "tools/compare.h"
#include "tools/completion.h"
#include "tools/files.h"
#include "tools/ipu_e2e.h"
#include "tools/json.h"
#include "tools/man.h"
#include "tools/option_files.h"
#include "tools/problem.h"
#include "tools/program.h"
#include "tools/report_files.h"
#include "tools/weights.h"

namespace tw::tools {
namespace {

void print_table(const Invocation& i, const std::string& text) {
  if (i.quiet || i.json == "-") return;
  write_text(text, "-");
}

void print_json(const Invocation& i, const std::string& text) {
  if (!i.json.empty()) write_text(text, i.json);
}

// What an ONNX model leaves to the host.
std::string notes_table(const Source& source) {
  std::string text;
  if (!source.onnx) return text;
  for (const std::string& note : source.onnx->notes)
    text += fmt::format("  host                       {}\n", note);
  return text;
}

PackageFile write_package(const Invocation& i, Compiled& compiled) {
  PackageFile file;
  if (i.package.empty()) return file;
  file.file = i.package;
  file.bytes = package::write(compiled.package, i.package);
  file.sha256 = sha256_of(i.package);
  return file;
}

// The recipe that a package carries; what is built again must be what is in it.
Recipe recipe_of(const Invocation& i, const Host& host, const package::Package& package, bool needs_weights) {
  Recipe recipe = recipe_from_json(package.side.recipe_json, i.package);
  if (!i.calibration.empty()) require_same_calibration(recipe, i.calibration);
  if (recipe.weights.path.empty()) return recipe;
  if (!i.recipe.weights.path.empty()) recipe.weights.path = i.recipe.weights.path;
  if (needs_weights) require_same_weights(host, recipe);
  return recipe;
}

// The model, or its error with what was asked for about it: the problem of the tile that it names, a report.
Compiled compile_or_tell(const Invocation& i, const Host& host, Source source) {
  std::string told;
  const auto tell = [&](const compile::Unplaced& u) {
    if (!i.unplaced_folder.empty()) {
      const inspect::PlacementProblem problem = unplaced_problem(u);
      told += problem_table(problem, write_unplaced(host, problem, i.unplaced_folder));
    }
    if (!i.report.empty()) told += report_table(write_unplaced_page(host, i.recipe, u, i.report));
  };
  try {
    return compile_model(host, i.recipe, std::move(source),
                         i.unplaced_folder.empty() && i.report.empty() ? compile::OnUnplaced() : tell);
  } catch (const Error& e) {
    if (exit_code(e.kind) != 3) throw;
    host.progress->finish();
    if (told.empty() && !(i.unplaced_folder.empty() && i.report.empty()))
      told = "  problem, report            none: not refused by placement\n";
    print_table(i, told);
    throw;
  }
}

void report_if_asked(const Invocation& i, const Host& host, const Compiled& compiled,
                     const PackageFile& file) {
  if (i.report.empty()) return;
  print_table(i, report_table(write_page(host, compiled.package, file.file, i.report)));
}

int compile_command(const Invocation& i, const Host& host) {
  require_writable(i.package);
  Compiled compiled = compile_or_tell(i, host, open_source(i.recipe));
  const PackageFile file = write_package(i, compiled);
  host.progress->finish();
  print_table(i, notes_table(compiled.source));
  print_table(i, compile_table(i.recipe, compiled.source.model, compiled.result.report) +
                     fmt::format("  package                    {} ({} B, sha256 {})\n", file.file, file.bytes,
                                 file.sha256));
  report_if_asked(i, host, compiled, file);
  print_json(
      i, result_json(compile_json(host, i.recipe, compiled.source.model, compiled.result.report, file), ""));
  return 0;
}

int e2e_command(const Invocation& i, const Host& host) {
  if (!i.package.empty()) require_writable(i.package);
  Source source = open_source(i.recipe);
  check_inputs(source, i.run.images, i.run.inputs);  // before it is compiled
  Compiled compiled = compile_or_tell(i, host, std::move(source));
  const PackageFile file = write_package(i, compiled);
  host.progress->finish();
  print_table(i, notes_table(compiled.source) +
                     compile_table(i.recipe, compiled.source.model, compiled.result.report));
  report_if_asked(i, host, compiled, file);
  const RunReport report = run_package(host, compiled.recipe, compiled.source, compiled.package, i.run);
  print_table(i, operation_table(compiled.result.report, report) + run_table(host, report) +
                     anchor_table(host, i.recipe, compiled.source.model, compiled.result.report, report));
  print_json(i, result_json(compile_json(host, i.recipe, compiled.source.model, compiled.result.report, file),
                            run_json(host, report, &compiled.result.report)));
  return report.pass ? 0 : 5;
}

int run_command(const Invocation& i, const Host& host) {
  const package::Package package = package::read(i.package);
  const Recipe recipe = recipe_of(i, host, package, i.run.checks.fp32 || i.run.checks.exact);
  const RunReport report = run_package(host, recipe, open_source(recipe), package, i.run);
  print_table(i, run_table(host, report));
  print_json(i, result_json("", run_json(host, report)));
  return report.pass ? 0 : 5;
}

int compare_command(const Invocation& i, const Host& host) {
  const package::Package package = package::read(i.package);
  const CompareReport report = compare_package(host, recipe_of(i, host, package, true), i.run);
  print_table(i, compare_table(report));
  print_json(i, compare_json(report));
  return report.pass ? 0 : 5;
}

int fit_command(const Invocation& i, const Host& host) {
  if (i.recipe.optimization_steps > 0)
    print_table(i,
                "note: fit judges baseline plans; --optimization-steps never changes whether a model fits\n");
  for (const std::string& file : {i.fit.csv, i.json}) {
    if (!file.empty() && file != "-") require_writable(file);
  }
  const FitReport report = fit(host, i.recipe, i.fit);
  host.progress->finish();
  if (i.fit.csv != "-") print_table(i, fit_table(report));
  if (!i.fit.csv.empty()) write_text(fit_csv(report), i.fit.csv);
  print_json(i, fit_json(report));
  return 0;
}

int calibrate_command(const Invocation& i, const Host& host) {
  const std::string& file = i.calibrate.output;
  if (file != "-") require_writable(file);
  const CalibrateReport report = calibrate(host, i.recipe, i.calibrate);
  host.progress->finish();
  for (const std::string& warning : report.warnings) spdlog::warn(warning);
  if (file != "-") print_table(i, calibrate_table(report, file));
  print_json(i, calibrate_json(report, file));
  return 0;
}

int inspect_command(const Invocation& i) {
  const package::Package package = package::read(i.package);
  print_table(i, i.inspect_assembly ? inspect::assembly_text(inspect::read_tile(package, *i.inspect.tile))
                                    : inspect::text(package, i.inspect));
  print_json(i, inspect::json(package, i.inspect));
  return 0;
}

int problem_command(const Invocation& i, const Host& host) {
  if (i.problem_file != "-") require_writable(i.problem_file);
  const inspect::Problem problem = problem_of(host, i.package, i.problem);
  host.progress->finish();
  write_text(inspect::to_json(host.device, problem), i.problem_file);
  print_table(i, problem_table(problem, i.problem_file));
  print_json(i, problem_result_json(problem, i.problem_file));
  return 0;
}

int check_command(const Invocation& i, const Host& host) {
  const inspect::Verdict verdict = check_file(host, i.problem_file);
  print_table(i, verdict_table(verdict));
  print_json(i, verdict_json(verdict));
  return verdict.broken.empty() ? 0 : 5;
}

int report_command(const Invocation& i, const Host& host) {
  const ReportFiles files = write_report(host, i.package, {i.folder, i.trace}, i.other, i.trace_tiles);
  print_table(i, report_table(files));
  print_json(i, report_files_json(files));
  return 0;
}

std::vector<CommandTable> programs() { return {tilewright_table(), ipu_e2e_table()}; }

int man_command(const Invocation& i) {
  const std::filesystem::path folder(i.folder);
  for (const ManPage& page : man_pages(programs())) {
    make_parents(folder / page.file);
    write_text(page.text, (folder / page.file).string());
  }
  return 0;
}

int dispatch(const Invocation& i) {
  spdlog::set_level(spdlog::level::from_str(i.log_level));
  Progress progress(i.progress);
  Host host;
  host.threads = i.threads;
  host.progress = &progress;
  if (!i.target.empty()) host.device = load_device(i.target);
  switch (i.command) {
    case Command::Compile:
      return compile_command(i, host);
    case Command::E2e:
      return e2e_command(i, host);
    case Command::Run:
      return run_command(i, host);
    case Command::Compare:
      return compare_command(i, host);
    case Command::Fit:
      return fit_command(i, host);
    case Command::Calibrate:
      return calibrate_command(i, host);
    case Command::Inspect:
      return inspect_command(i);
    case Command::Problem:
      return problem_command(i, host);
    case Command::Check:
      return check_command(i, host);
    case Command::Report:
      return report_command(i, host);
    case Command::Completion:
      write_text(completion_script(i.shell, programs()), "-");
      return 0;
    case Command::Man:
      return man_command(i);
  }
  return 1;
}

}  // namespace

int tilewright(int argc, const char* const* argv) {
  return run_program("tilewright", argc, argv, [&] {
    try {
      auto invocation = parse(argc, argv);
      if (!invocation) return 0;
      const Command c = invocation->command;
      if (c == Command::Compile || c == Command::E2e || c == Command::Fit)
        apply_calibration(invocation->recipe, invocation->calibration);
      return dispatch(*invocation);
    } catch (const SameFile& e) {
      return tell_same_file("tilewright", e);
    }
  });
}

}  // namespace tw::tools
