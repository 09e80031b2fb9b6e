#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/version.h"
#include "tools/help.h"
#include "tools/ipu_e2e.h"
#include "tools/option_files.h"

namespace tw::tools {
namespace {

const char* const kExamples =
    "Examples:\n"
    "  ipu-e2e-test configs/c600.toml --workload siglip-vit-benchmark --vit-small --tiles 64 \\\n"
    "      --fp8-scale=-4 --reference-run\n"
    "      the small model on 64 tiles, checked against the device's own rounding\n"
    "  ipu-e2e-test configs/c600.toml --workload siglip-vit-benchmark --vit-model pe-core-l14-capacity \\\n"
    "      --vit-layers 24 --vit-batch 2 --fuse-qkv --fp8-scale=-4 --capacity-baseline --no-profile \\\n"
    "      --optimization-steps 0 --reference-run --reference-fp32 --reference-inferences 2\n"
    "      a whole model, two images per call, two calls, checked against FP32\n";

struct Texts {
  std::string sdk, runtime_source, workload, attention = "auto", weights = "random", progress = "auto";
  std::optional<int> fp8_scale;
  bool capacity = false, no_profile = false, reference_fp32 = false;
  std::uint32_t table_kib = 80;
};

void model_options(CLI::App& app, IpuE2e& e, Texts& t) {
  app.add_option("--workload", t.workload, "siglip-vit-benchmark: a whole image encoder")
      ->default_str("siglip-vit-benchmark")
      ->check(CLI::IsMember({"siglip-vit-benchmark"}));
  app.add_option("--vit-model", e.recipe.model.name, "the model")
      ->capture_default_str()
      ->check(CLI::IsMember({"siglip-so400m", "pe-core-l14-capacity"}));  // the seed's
  app.add_option("--vit-layers", e.recipe.model.layers, "encoder layers")
      ->capture_default_str()
      ->check(CLI::Range(1U, 4096U));
  app.add_option("--vit-batch", e.recipe.model.batch, "images per inference call")
      ->capture_default_str()
      ->check(CLI::Range(1U, 4096U));
  app.add_flag("--vit-small", e.recipe.model.small, "the small test variant");
  app.add_option("--vit-image-size", e.recipe.model.image_size, "image side in pixels, a multiple of 14")
      ->check(CLI::Range(14U, 4096U));
  app.add_flag("--fuse-qkv", e.recipe.model.fuse_qkv, "one product for Q, K and V");
  CLI::Option* scale = app.add_option("--fp8-scale", t.fp8_scale,
                                      "dense products in FP8 with this scale exponent (default: FP16)")
                           ->check(CLI::Range(-16, 15));
  app.add_option("--reference-calibration", e.calibration,
                 "dense products in FP8 with scale exponents by role (JSON)")
      ->type_name("FILE")
      ->excludes(scale);
}

void plan_options(CLI::App& app, IpuE2e& e, Texts& t) {
  app.add_flag("--capacity-baseline", t.capacity, "capacity-first operator selection");
  app.add_option("--optimization-steps", e.recipe.optimization_steps,
                 "complete builds that may follow the baseline")
      ->capture_default_str()
      ->check(CLI::Range(0U, 10000U));
  app.add_option("--exchange-stream-words", e.recipe.stream_words, "words of a wave of the exchange order")
      ->capture_default_str()
      ->check(CLI::Range(0U, 1U << 20));
  app.add_option("--exchange-table-budget-kib", t.table_kib, "exchange table per tile, KiB")
      ->capture_default_str()
      ->check(CLI::Range(1U, 208U));
  app.add_option("--exchange-transfer-limit-per-tile", e.recipe.fragment_limit, "sends and receives per tile")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1U << 24));
  app.add_option("--attention-strategy", t.attention, "auto, flash (streaming) or materialized")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "flash", "materialized"}));
  app.add_option("--tiles", e.recipe.tiles, "tiles that planning may use")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1472U));
}

void check_options(CLI::App& app, IpuE2e& e, Texts& t) {
  CLI::Option* reference = app.add_flag("--reference-run", e.reference, "check the outputs");
  app.add_flag("--reference-fp32", t.reference_fp32, "check against FP32, nothing quantised")
      ->needs(reference);
  app.add_option("--reference-inferences", e.run.calls, "resident inference calls after one upload")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1000000U));
  app.add_option("--save-reference-inputs", e.save_directory,
                 "folder for weights.bin, input.bin and output.bin")
      ->type_name("DIR");
  CLI::Option* diagnostic =
      app.add_flag("--diagnostic-run", e.diagnostic, "check the result of every operation of one call")
          ->excludes(reference);
  CLI::Option* fixture =
      app.add_option("--reference-fixture", e.fixture,
                     "parameters, and inputs and expected outputs of each inference, from DIR/manifest.json")
          ->type_name("DIR")
          ->excludes(diagnostic);
  app.add_option("--weights", t.weights, "parameters: random, a safetensors file, its index or its folder")
      ->capture_default_str()
      ->type_name("FILE")
      ->excludes(fixture);
  app.add_option("--diagnostic-samples", e.sampling.samples, "elements looked at per result")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1U << 30))
      ->needs(diagnostic);
  app.add_option("--diagnostic-atol", e.sampling.atol, "absolute tolerance")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->needs(diagnostic);
  app.add_option("--diagnostic-rtol", e.sampling.rtol, "relative tolerance")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->needs(diagnostic);
}

void file_options(CLI::App& app, IpuE2e& e, Texts& t) {
  app.add_option("device", e.device, "device description (TOML; default: the built-in c600)")
      ->type_name("FILE");
  app.add_option("--sdk", t.sdk, "accepted and not opened: a simulated device needs none")->type_name("DIR");
  app.add_option("--runtime-source", t.runtime_source, "accepted and not opened")->type_name("DIR");
  app.add_option("--device-lock", e.lock, "file of an advisory lock held during the whole run")
      ->type_name("FILE");
  app.add_option("--memory-profile-directory", e.memory_directory, "folder for report.html and report.json")
      ->type_name("DIR");
  CLI::Option* profile =
      app.add_option("--profile-output", e.profile, "cycles per operation as JSON")->type_name("FILE");
  app.add_flag("--no-profile", t.no_profile, "no cycle profile")->excludes(profile);
  CLI::Option* package =
      app.add_option("--package", e.package, "write the package to FILE")->type_name("FILE");
  app.add_flag("--reuse-package", e.reuse_package, "run the package of --package without building it")
      ->needs(package);
  app.add_option("--json", e.json, "write the result as JSON to FILE; '-' is standard output")
      ->type_name("FILE");
  app.add_option("--threads", e.threads, "host threads (default: all cores)")->check(CLI::Range(1U, 256U));
  app.add_option("--progress", t.progress, "auto, always or never")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

void apply(IpuE2e& e, const Texts& t) {
  e.recipe.precision = t.fp8_scale || !e.calibration.empty() ? tensor::Precision::F8 : tensor::Precision::F16;
  if (t.fp8_scale) e.recipe.fp8_scale = *t.fp8_scale;
  if (t.capacity) e.recipe.policy = plan::Policy::Capacity;
  e.recipe.table_budget = t.table_kib * 1024;
  e.recipe.attention = t.attention == "flash"          ? plan::Attention::Streaming
                       : t.attention == "materialized" ? plan::Attention::Materialized
                                                       : plan::Attention::Auto;
  e.run.checks.fp32 = e.reference && t.reference_fp32;
  e.run.checks.exact = e.reference && !t.reference_fp32;
  e.run.checks.blas_yardstick = false;
  e.recipe.weights = weights_named(t.weights);
  if (!e.fixture.empty()) e.recipe.weights = {.path = e.fixture, .fixture = true, .files = {}};
  e.names_sdk = !t.sdk.empty() || !t.runtime_source.empty();
  e.progress = t.progress == "never"    ? ProgressMode::Never
               : t.progress == "always" ? ProgressMode::Always
                                        : ProgressMode::Auto;
}

const char* const kText = "build an image encoder, run it on the simulated device and check it";

void define(CLI::App& app, IpuE2e& e, Texts& t) {
  e.recipe.model.name = "siglip-so400m";
  e.recipe.model.layers = 1;
  e.recipe.model.fuse_qkv = false;
  e.recipe.optimization_steps = 8;
  examples_first(app);
  app.footer(kExamples);
  app.set_version_flag("--version",
                       std::string("ipu-e2e-test of tilewright ") + kVersion + " (" + kCommit + ")");
  model_options(app, e, t);
  plan_options(app, e, t);
  check_options(app, e, t);
  file_options(app, e, t);
}

}  // namespace

CommandTable ipu_e2e_table() {
  IpuE2e e;
  Texts t;
  CLI::App app{kText};
  define(app, e, t);
  return table_of(app, "ipu-e2e-test");
}

std::optional<IpuE2e> parse_ipu_e2e(int argc, const char* const* argv) {
  IpuE2e e;
  Texts t;
  CLI::App app{kText};
  define(app, e, t);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return std::nullopt;
    }
    check_option_files(app);  // this error too goes to --json
    throw Error(ErrorKind::Usage, error.what());
  }
  check_option_files(app);
  apply(e, t);
  return e;
}

}  // namespace tw::tools
