#include "tools/ipu_e2e.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "import/problems.h"
#include "tools/calibration.h"
#include "tools/device_lock.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/option_files.h"
#include "tools/program.h"
#include "tools/report_files.h"
#include "tools/weights.h"

namespace tw::tools {
namespace {
namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

const char* verdict(bool pass) { return pass ? "PASS" : "FAIL"; }

void print(const IpuE2e& e, const std::string& text) {
  if (e.json != "-") write_text(text, "-");
}

// What --package, built or reused, gives to the run.
struct Built {
  Recipe recipe;  // the package's
  package::Package package;
  std::string compile;  // the `compile` object
};

Built build(const IpuE2e& e, const Host& host) {
  if (!e.package.empty()) {
    make_parents(e.package);
    require_writable(e.package);
  }
  Compiled compiled = compile_model(host, e.recipe, open_source(e.recipe));
  PackageFile file;
  if (!e.package.empty()) {
    file.file = e.package;
    file.bytes = package::write(compiled.package, e.package);
    file.sha256 = sha256_of(e.package);
  }
  host.progress->finish();
  print(e, compile_table(e.recipe, compiled.source.model, compiled.result.report));
  Built built;
  built.compile = compile_json(host, e.recipe, compiled.source.model, compiled.result.report, file);
  built.package = std::move(compiled.package);
  built.recipe = std::move(compiled.recipe);
  return built;
}

Built reuse(const IpuE2e& e, const Host& host) {
  Built built;
  built.package = package::read(e.package);
  built.recipe = recipe_from_json(built.package.side.recipe_json, e.package);
  Recipe recipe = e.recipe;
  recipe.model = model::build(recipe.model).config;
  recipe.choices = built.recipe.choices;  // what the optimiser found is no option
  if (recipe.weights.path.empty() == built.recipe.weights.path.empty() &&
      recipe.weights.fixture == built.recipe.weights.fixture)
    built.recipe.weights.path = recipe.weights.path;  // their content counts, not where they are
  recipe.weights.files = built.recipe.weights.files;
  if (to_json(recipe) != to_json(built.recipe))
    throw Error(ErrorKind::Usage, fmt::format("{} was built with other options:\n  package {}\n  options {}",
                                              e.package, built.package.side.recipe_json, to_json(recipe)));
  if (!recipe.weights.path.empty()) require_same_weights(host, recipe);
  built.compile = built.package.side.summary_json;
  return built;
}

void write_in(const std::string& folder, const char* name, const std::string& text) {
  const fs::path file = fs::path(folder) / name;
  make_parents(file);
  write_text(text, file.string());
}

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

void save_inputs(const std::string& folder, const package::Package& package, const RunReport& report) {
  std::string weights;
  for (const auto& w : package.weights) weights.append(w.begin(), w.end());
  write_in(folder, "weights.bin", weights);
  write_in(folder, "input.bin", text_of(report.first_input));
  write_in(folder, "output.bin", text_of(report.first_output));
}

void write_profile(const std::string& file, const std::string& compile, const std::string& run) {
  json j = json::parse(result_json("", ""));
  j["profile"] = {{"operations", json::parse(compile).at("cycles").at("operations")},
                  {"simulated", json::parse(run).at("simulated")}};
  make_parents(file);
  write_text(j.dump(2) + "\n", file);
}

// Of one case of a fixture, before the lines of its call.
std::string mapping_line(const Mapping& m) {
  return fmt::format(
      "referenceCase={} mappingMinimumCosineSimilarity={:.9f} mappingMaximumAbsoluteError={:.3e} "
      "mappingTest={}\n",
      import::printable(m.case_name), m.cosine_min, m.max_abs_error, verdict(m.pass));
}

// The result lines of models.md C.3.
std::string result_lines(const IpuE2e& e, const Host& host, const RunReport& r) {
  std::string t;
  if (e.reference || !e.fixture.empty()) {
    const bool fp32 = e.run.checks.fp32 || !e.fixture.empty();
    t += fmt::format("referencePrecision={}\n", fp32 ? "fp32" : "device");
    double cosine = 1, error = 0;
    for (const CallReport& c : r.calls) {
      const double own = c.cosine_min.value_or(0);
      if (!std::isnan(cosine)) cosine = own >= cosine ? cosine : own;
      error = std::max(error, c.max_abs_error.value_or(0));
      if (c.mapping) t += mapping_line(*c.mapping);
      t += fmt::format("referenceMinimumCosineSimilarity={:.9f}\nreferenceInference={} numericalTest={}\n",
                       own, c.index + 1, verdict(c.pass));
    }
    t += fmt::format(
        "referenceMinimumCosineSimilarity={:.9f}\nreferenceMaximumAbsoluteError={:.6f} "
        "numericalTest={}\n",
        cosine, error, verdict(r.pass));
  }
  if (!r.calls.empty()) {
    const double cycles = static_cast<double>(r.calls.back().stats.cycles);
    t += fmt::format("simulatedCyclesPerCall={:.0f} ({:.3f} ms at {:.2f} GHz, modelled)\n", cycles,
                     1e3 * cycles / host.device.clock_hz, host.device.clock_hz / 1e9);
  }
  if (r.fault)
    t += fmt::format("deviceFault={} tile={} address={:#x} {}\n", sim::name_of(r.fault->kind), r.fault->tile,
                     r.fault->address, r.fault->what);
  return t +
         fmt::format("package={} hardwareTest={}\n", e.package.empty() ? "none" : e.package, verdict(r.pass));
}

int inference(IpuE2e e, const Host& host) {
  if (!e.fixture.empty())
    e.run.fixture = std::make_shared<const import::Fixture>(
        open_fixture(host, e.fixture, open_source(e.recipe).model, e.run.calls));
  const Built built = e.reuse_package ? reuse(e, host) : build(e, host);
  if (!e.memory_directory.empty()) write_page(host, built.package, e.package, e.memory_directory);
  const RunReport report = run_package(host, built.recipe, open_source(built.recipe), built.package, e.run);
  print(e, result_lines(e, host, report));
  const std::string run = run_json(host, report);
  if (!e.save_directory.empty() && !report.first_output.empty())
    save_inputs(e.save_directory, built.package, report);
  if (!e.profile.empty()) write_profile(e.profile, built.compile, run);
  if (!e.json.empty()) write_text(result_json(built.compile, run), e.json);
  return report.pass ? 0 : 5;
}

int diagnostic(const IpuE2e& e, const Host& host) {
  check_weights(host, e.recipe, open_source(e.recipe).model);
  const CompareReport report = compare_package(host, e.recipe, e.run, e.sampling);
  std::uint64_t beyond = 0;
  for (const OperationError& op : report.operations) beyond += op.beyond;
  const bool pass = report.pass && beyond == 0;
  print(e, compare_table(report) + fmt::format("diagnosticCheckpoints={} samplesBeyondTolerance={} "
                                               "numericalTest={}\n",
                                               report.operations.size(), beyond, verdict(pass)));
  if (!e.json.empty()) write_text(compare_json(report), e.json);
  return pass ? 0 : 5;
}

void notes(const IpuE2e& e) {
  if (e.names_sdk)
    print(e, "note: --sdk and --runtime-source are not opened; a simulated device needs neither\n");
  if (e.diagnostic && !e.package.empty())
    print(e, "note: --diagnostic-run builds a package of its own with checkpoints and does not write it\n");
}

int run(const IpuE2e& e) {
  Progress progress(e.progress);
  Host host;
  host.threads = e.threads;
  host.progress = &progress;
  if (!e.device.empty()) host.device = load_device(e.device);
  notes(e);
  const std::unique_ptr<DeviceLock> lock = e.lock.empty() ? nullptr : std::make_unique<DeviceLock>(e.lock);
  return e.diagnostic ? diagnostic(e, host) : inference(e, host);
}

}  // namespace

int ipu_e2e_test(int argc, const char* const* argv) {
  return run_program("ipu-e2e-test", argc, argv, [&] {
    try {
      auto parsed = parse_ipu_e2e(argc, argv);
      if (!parsed) return 0;
      if (!parsed->calibration.empty()) apply_calibration(parsed->recipe, parsed->calibration);
      return run(*parsed);
    } catch (const SameFile& e) {
      return tell_same_file("ipu-e2e-test", e);
    }
  });
}

}  // namespace tw::tools
