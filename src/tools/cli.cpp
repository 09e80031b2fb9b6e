#include "tools/cli.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/version.h"
#include "model/model.h"
#include "tensor/role.h"
#include "tools/help.h"
#include "tools/option_files.h"

namespace tw::tools {
namespace {

const char* const kExamples =
    "Examples:\n"
    "  tilewright e2e siglip-so400m --layers 1 --image photo.jpg --calls 2\n"
    "      compile one layer at full width, run a photo twice through the simulated device, check it\n"
    "  tilewright compile siglip-so400m --small --tiles 64 -o small.ipuexe\n"
    "      write a package of the small model for 64 tiles\n"
    "  tilewright run small.ipuexe --calls 3 --reference both --json -\n"
    "      load it, upload its weights once, run three calls, print JSON\n"
    "  tilewright compare small.ipuexe\n"
    "      errors of every operation: simulated against exact, exact against FP32\n"
    "  tilewright fit siglip-so400m --batch 1..4\n"
    "      which batches fit the device, and what limits those that do not\n"
    "  tilewright calibrate siglip-so400m --weights model.safetensors --image a.jpg --image b.jpg -o "
    "scales.json\n"
    "      FP8 scales by role, for --calibration\n"
    "  tilewright inspect small.ipuexe --tile 0 --phase 3\n"
    "      bindings, segments, the program and one exchange row of tile 0\n"
    "  tilewright problem small.ipuexe --tile 0 -o placement.json && tilewright check placement.json\n"
    "      write the placement problem of tile 0 with our solution for other solvers, judge a solution\n"
    "  tilewright report small.ipuexe -o small-report\n"
    "      write report.html (memory, exchange, cycles; opens offline), report.json and trace.json\n";

constexpr std::uint32_t kMostBatches = 256;  // the models' own limit

// Raw texts of enumerations, turned into values after parsing.
struct Texts {
  std::string rounding = "balanced", precision = "fp8", policy = "default", attention = "auto", relays = "on",
              reference = "fp32", weights = "random", progress = "auto", policies = "both";
  std::string batches = "1", layers, tiles;
  std::vector<std::string> precisions, dims, inputs;
  bool fuse = false, no_fuse = false, fp16_embedding = false;
};

// Which function it is, with which weights.
void graph_options(CLI::App& app, Invocation& i, Texts& t) {
  app.add_option("model", i.recipe.model.name, "the model")
      ->type_name(type_of_words("MODEL", model::names()))
      ->required();
  app.add_option("--fp16", i.recipe.fp16_roles, "with FP8: products of this role in FP16; repeatable")
      ->type_name("ROLE")
      ->allow_extra_args(false);
  app.add_flag("--fp16-embedding", t.fp16_embedding, "with FP8: the product on image patches in FP16");
  app.add_flag("--fuse-qkv", t.fuse, "one product for Q, K and V (default)");
  app.add_flag("--no-fuse-qkv", t.no_fuse, "three products");
  app.add_option("--weight-rounding", t.rounding,
                 "FP8 weights: errors of a column cancel, or each to the nearest")
      ->capture_default_str()
      ->check(CLI::IsMember({"balanced", "nearest"}));
  app.add_flag("--small", i.recipe.model.small, "the small test variant");
  app.add_option("--image-size", i.recipe.model.image_size, "image side in pixels, a multiple of 14")
      ->check(CLI::Range(14U, 4096U));
  app.add_option("--weights", t.weights,
                 "parameters: random (drawn from --seed), a safetensors file, its index or its folder")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_option("--seed", i.recipe.seed, "seed of the random tensors")->capture_default_str();
}

// How it becomes a program.
void build_options(CLI::App& app, Invocation& i, Texts& t) {
  CLI::Option* scale = app.add_option("--fp8-scale", i.recipe.fp8_scale, "FP8 operand scale exponent")
                           ->capture_default_str()
                           ->check(CLI::Range(-16, 15));
  app.add_option("--calibration", i.calibration, "FP8 operand scale exponents by role (JSON)")
      ->type_name("FILE")
      ->excludes(scale);
  app.add_option("--attention", t.attention, "attention strategy")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "streaming", "materialized"}));
  app.add_option("--exchange-stream-words", i.recipe.stream_words, "chunk of the exchange order")
      ->capture_default_str()
      ->check(CLI::Range(0U, 1U << 20));
  app.add_option("--optimization-steps", i.recipe.optimization_steps,
                 "complete builds that may follow the baseline plan in search of a faster one")
      ->capture_default_str()
      ->check(CLI::Range(0U, 10000U));
  app.add_option("--relays", t.relays, "relay gathers where the scheduler finds them cheaper")
      ->capture_default_str()
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--table-budget", i.recipe.table_budget, "exchange table bytes per tile")
      ->capture_default_str()
      ->check(CLI::Range(64U, 212992U));
  app.add_option("--fragment-limit", i.recipe.fragment_limit, "sends and receives per tile")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1U << 24));
  app.add_option("--dim", t.dims, "ONNX: a symbolic extent, NAME=N (repeatable)")->type_name("NAME=N");
}

void calibrate_options(CLI::App& app, Invocation& i) {
  app.add_option("-o,--output", i.calibrate.output, "the calibration file (JSON); '-' is standard output")
      ->type_name("FILE")
      ->required();
  app.add_option("--image", i.calibrate.images, "photograph to take the scales from (repeatable)")
      ->type_name("FILE");
  app.add_option("--held-out", i.calibrate.held_out,
                 "photograph whose cosine is shown apart and that sets no scale (repeatable)")
      ->type_name("FILE");
  app.add_option("--draws", i.calibrate.draws, "random inputs to take the scales from, without --image")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1000U));
  app.add_flag("--no-cosine", i.calibrate.no_cosine, "leave out the second pass, with rounded operands");
}

void layers_option(CLI::App& app, Invocation& i) {
  app.add_option("--layers", i.recipe.model.layers, "encoder layers (default: the model's depth; --small: 1)")
      ->check(CLI::Range(1U, 4096U));
}

void one_case_options(CLI::App& app, Invocation& i, Texts& t) {
  layers_option(app, i);
  app.add_option("--precision", t.precision, "dense layers")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp8", "fp16"}));
  app.add_option("--tiles", i.recipe.tiles, "tiles that planning may use")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1472U));
  app.add_option("--batch", i.recipe.model.batch, "images per call")
      ->capture_default_str()
      ->check(CLI::Range(1U, 4096U));
  app.add_option("--policy", t.policy, "operator selection")
      ->capture_default_str()
      ->check(CLI::IsMember({"default", "capacity"}));
}

void fit_options(CLI::App& app, Invocation& i, Texts& t) {
  app.add_option("--batch", t.batches, "batches to try: 1..8, 1,2,4 or one number")->capture_default_str();
  app.add_option("--layers", t.layers,
                 "encoder layers to try, likewise (default: the model's depth; --small: 1)");
  app.add_option("--tiles", t.tiles, "tiles that planning may use, likewise (default: 1472)");
  app.add_option("--precision", t.precisions, "dense layers; several with commas (default: fp8)")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp8", "fp16"}));
  app.add_option("--policy", t.policies, "operator selection to try; both: default, then capacity")
      ->capture_default_str()
      ->check(CLI::IsMember({"default", "capacity", "both"}));
  app.add_option("--target", i.fit.targets,
                 "device description (TOML), repeatable (default: the built-in c600)")
      ->type_name("FILE");
  app.add_option("--csv", i.fit.csv, "write a line for each case to FILE; '-' is standard output")
      ->type_name("FILE");
  app.add_option("--cache", i.fit.cache, "folder of finished cases (default: the user's cache folder)")
      ->type_name("DIR");
  app.add_flag("--no-cache", i.fit.no_cache, "construct every case anew, keep none");
}

void run_options(CLI::App& app, Invocation& i, Texts& t) {
  app.add_option("--calls", i.run.calls, "resident calls after one upload")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1000000U));
  app.add_option("--image", i.run.images, "photograph (repeatable; cycled over the batch)")
      ->type_name("FILE");
  app.add_option(
         "--input", t.inputs,
         "ONNX: NAME=FILE, values of an input (TensorProto .pb, or raw little-endian F32); repeatable")
      ->type_name("NAME=FILE");
  app.add_option("--save-outputs", i.run.outputs, "folder for the outputs of the last call (raw F32)")
      ->type_name("DIR");
  app.add_option("--reference", t.reference, "what to check against")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "exact", "both", "none"}));
  app.add_option("--cosine-threshold", i.run.checks.cosine_threshold, "minimum cosine per image, strict")
      ->capture_default_str()
      ->check(CLI::Range(-1.0, 1.0));
  app.add_option(
      "--exact-drop-rounding", i.run.checks.drop_group_rounding,
      "test switch: the exact interpreter skips the F16 rounding between product groups of this operation");
  app.add_flag("--lenient", i.run.sim.lenient, "experiments: an empty mux window writes nothing");
}

void target_option(CLI::App& app, Invocation& i) {
  app.add_option("--target", i.target, "device description (TOML; default: the built-in c600)")
      ->type_name("FILE");
}

void common_options(CLI::App& app, Invocation& i, Texts& t) {
  app.add_option("--threads", i.threads, "host threads (default: all cores)")->check(CLI::Range(1U, 256U));
  app.add_option("--json", i.json, "write the result as JSON to FILE; '-' is standard output")
      ->type_name("FILE");
  app.add_option("--progress", t.progress, "progress display")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("--quiet", i.quiet, "no progress and no table");
  app.add_option("--log-level", i.log_level, "trace, debug, info, warn, error")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
}

// NAME=VALUE.
std::pair<std::string, std::string> pair_of(const char* option, const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw Error(ErrorKind::Usage, fmt::format("{} {}: expected NAME=VALUE", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

std::int64_t extent_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 1)
    throw Error(ErrorKind::Usage, fmt::format("--dim: \"{}\" is no extent", text));
  return value;
}

void apply(Invocation& i, const Texts& t) {
  for (const std::string& text : t.dims) {
    const auto [name, value] = pair_of("--dim", text);
    i.recipe.dims[name] = extent_of(value);
  }
  for (const std::string& text : t.inputs) {
    const auto [name, file] = pair_of("--input", text);
    i.run.inputs[name] = file;
  }
  i.recipe.precision = t.precision == "fp8" ? tensor::Precision::F8 : tensor::Precision::F16;
  i.recipe.policy = t.policy == "capacity" ? plan::Policy::Capacity : plan::Policy::Default;
  i.recipe.attention = t.attention == "streaming"      ? plan::Attention::Streaming
                       : t.attention == "materialized" ? plan::Attention::Materialized
                                                       : plan::Attention::Auto;
  i.recipe.weight_rounding =
      t.rounding == "nearest" ? plan::WeightRounding::Nearest : plan::WeightRounding::Balanced;
  if (t.fuse && t.no_fuse) throw Error(ErrorKind::Usage, "--fuse-qkv and --no-fuse-qkv exclude each other");
  i.recipe.model.fuse_qkv = !t.no_fuse;
  if (t.fp16_embedding) i.recipe.fp16_roles.insert(tensor::kEmbeddingRole);
  if (!i.calibration.empty() && (t.precision == "fp16" || std::ranges::count(t.precisions, "fp16") > 0))
    throw Error(ErrorKind::Usage, "--calibration holds FP8 scales: it excludes --precision fp16");
  i.recipe.weights = weights_named(t.weights);
  i.fit.batches = parse_numbers("--batch", t.batches, kMostBatches);
  if (!t.layers.empty()) i.fit.layers = parse_numbers("--layers", t.layers, 4096);
  if (!t.tiles.empty()) i.fit.tiles = parse_numbers("--tiles", t.tiles, 1472);
  for (const std::string& p : t.precisions)
    i.fit.precisions.push_back(p == "fp8" ? tensor::Precision::F8 : tensor::Precision::F16);
  i.fit.policies.clear();
  if (t.policies != "capacity") i.fit.policies.push_back(plan::Policy::Default);
  if (t.policies != "default") i.fit.policies.push_back(plan::Policy::Capacity);
  i.recipe.relays = t.relays == "on";
  i.run.checks.fp32 = t.reference == "fp32" || t.reference == "both";
  i.run.checks.exact = t.reference == "exact" || t.reference == "both";
  i.progress = i.quiet || t.progress == "never" ? ProgressMode::Never
               : t.progress == "always"         ? ProgressMode::Always
                                                : ProgressMode::Auto;
}

const char* const kText =
    "put whole vision transformers into the SRAM of a Graphcore IPU21 and run them in simulation";

void define(CLI::App& app, Invocation& i, Texts& t) {
  examples_first(app);
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("tilewright ") + kVersion + " (" + kCommit + ")");
  app.require_subcommand(1);
  auto command = [&](const char* name, const char* text, const char* example, Command c) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->footer(std::string("Example:\n  tilewright ") + example + "\n");
    sub->callback([&i, c] { i.command = c; });
    return sub;
  };
  CLI::App* compile = command("compile", "plan, place, schedule, encode, package",
                              "compile siglip-so400m --layers 1 -o one.ipuexe", Command::Compile);
  CLI::App* run = command("run", "load a package into the simulated device, run and check calls",
                          "run one.ipuexe --image photo.jpg --calls 2", Command::Run);
  CLI::App* e2e =
      command("e2e", "compile, run and check in one go",
              "e2e siglip-so400m --small --tiles 64 --batch 2 --calls 3 --reference both", Command::E2e);
  CLI::App* compare =
      command("compare", "per-operation errors and the first divergence with tile and address",
              "compare one.ipuexe --image photo.jpg", Command::Compare);
  CLI::App* fit = command("fit", "which batches fit the device, and what limits the others",
                          "fit siglip-so400m --batch 1..4 --layers 12,27 --csv fit.csv", Command::Fit);
  CLI::App* calibrate = command(
      "calibrate", "FP8 scales by role from what the FP32 model computes on images",
      "calibrate siglip-so400m --weights model.safetensors --fp16-embedding --image a.jpg --image b.jpg \\\n"
      "      --held-out c.jpg -o scales.json\n"
      "  tilewright e2e siglip-so400m --weights model.safetensors --calibration scales.json --image c.jpg",
      Command::Calibrate);
  CLI::App* inspect = command("inspect", "what is in a package: bindings, segments, program, rows",
                              "inspect one.ipuexe --tile 17 --phase 4", Command::Inspect);
  CLI::App* problem =
      command("problem", "write a placement or exchange problem with our solution, for other solvers",
              "problem one.ipuexe --tile 17 -o placement.json", Command::Problem);
  CLI::App* check = command("check", "judge the solution in a problem file: every broken rule",
                            "check placement.json", Command::Check);
  CLI::App* report = command("report", "memory, exchange and cycles as a page and as JSON",
                             "report one.ipuexe -o one-report", Command::Report);
  CLI::App* completion =
      command("completion", "a completion script for a shell, on standard output",
              "completion bash > ~/.local/share/bash-completion/completions/tilewright", Command::Completion);
  CLI::App* man = command("man", "manual pages of all programs and commands", "man ~/.local/share/man/man1",
                          Command::Man);
  for (CLI::App* sub : {compile, e2e, fit, calibrate}) graph_options(*sub, i, t);
  for (CLI::App* sub : {compile, e2e, fit}) build_options(*sub, i, t);
  calibrate_options(*calibrate, i);
  layers_option(*calibrate, i);
  for (CLI::App* sub : {compile, e2e}) one_case_options(*sub, i, t);
  fit_options(*fit, i, t);
  for (CLI::App* sub : {run, e2e, compare}) run_options(*sub, i, t);
  for (CLI::App* sub : {run, compare})
    sub->add_option("--weights", t.weights, "where the weights are now that the package was built from")
        ->type_name("FILE");
  for (CLI::App* sub : {run, compare})
    sub->add_option("--calibration", i.calibration,
                    "refuse a package that was not built with this calibration")
        ->type_name("FILE");
  for (CLI::App* sub : {compile, run, e2e, compare, inspect, problem, check, report}) target_option(*sub, i);
  for (CLI::App* sub : {compile, run, e2e, compare, fit, calibrate, inspect, problem, check, report})
    common_options(*sub, i, t);
  compile->add_option("-o,--output", i.package, "package file")->type_name("FILE")->required();
  e2e->add_option("-o,--output", i.package, "also write the package")->type_name("FILE");
  for (CLI::App* sub : {run, compare, inspect, problem, report})
    sub->add_option("package", i.package, "the package")->type_name("FILE")->required();
  for (CLI::App* sub : {compile, e2e})
    sub->add_option("--report", i.report, "folder for the report, also of a model that does not fit")
        ->type_name("DIR");
  compile
      ->add_option("--dump-problems", i.unplaced_folder,
                   "folder for the placement problem of the tile that does not fit")
      ->type_name("DIR");
  problem->add_option("--tile", i.problem.tile, "placement of this physical tile");
  problem->add_option("--phase", i.problem.phase, "schedule of this exchange phase");
  problem->add_option("-o,--output", i.problem_file, "problem file (JSON); '-' is standard output")
      ->type_name("FILE")
      ->required();
  check->add_option("problem", i.problem_file, "problem file (JSON) with a solution")
      ->type_name("FILE")
      ->required();
  report->add_option("-o,--output", i.folder, "folder for report.html, report.json and trace.json")
      ->type_name("DIR");
  report
      ->add_option("--compare", i.other,
                   "report.json or package of another build: adds a view of the differences to the page")
      ->type_name("FILE");
  report
      ->add_option("--trace", i.trace,
                   "file for the trace instead of trace.json there; without -o nothing else is written")
      ->type_name("FILE");
  report
      ->add_option("--trace-tile", i.trace_tiles,
                   "physical tile with a track in the trace (repeatable; default: the fullest, the busiest, "
                   "and the one that "
                   "the fullest hears most from)")
      ->check(CLI::Range(0U, 1471U));
  CLI::Option* tile =
      inspect->add_option("--tile", i.inspect.tile, "physical tile: segments, program, phases");
  CLI::Option* phase =
      inspect->add_option("--phase", i.inspect.phase, "exchange phase of that tile: its row and patches");
  inspect->add_flag("--assembly", i.inspect_assembly, "every byte of that tile as assembly text")
      ->needs(tile)
      ->excludes(phase);
  completion->add_option("shell", i.shell, "the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  man->add_option("folder", i.folder, "folder for the pages, created where missing")
      ->type_name("DIR")
      ->required();
}

}  // namespace

CommandTable tilewright_table() {
  Invocation i;
  Texts t;
  CLI::App app{kText};
  define(app, i, t);
  return table_of(app, "tilewright");
}

std::optional<Invocation> parse(int argc, const char* const* argv) {
  Invocation i;
  Texts t;
  CLI::App app{kText};
  define(app, i, t);
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands([&](CLI::App* s) { return s->check_name(argv[1]); }).empty())
    throw Error(ErrorKind::Usage, std::string("unknown command \"") + argv[1] + "\" (see tilewright --help)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      app.exit(e);
      return std::nullopt;
    }
    // This error too goes to --json.
    for (const CLI::App* command : app.get_subcommands()) check_option_files(*command);
    throw Error(ErrorKind::Usage, e.what());
  }
  for (const CLI::App* command : app.get_subcommands()) check_option_files(*command);
  apply(i, t);
  return i;
}

}  // namespace tw::tools
