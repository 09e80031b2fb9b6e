#include "tools/pipeline.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/sha256.h"
#include "compile/optimise.h"
#include "plan/exact.h"
#include "ref/ref.h"
#include "sim/bindings.h"
#include "tools/advise.h"
#include "tools/files.h"
#include "tools/inputs.h"
#include "tools/json.h"
#include "tools/weights.h"

namespace tw::tools {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

// References of one distinct input, made on first use.
class References {
 public:
  References(const Host& host, const Recipe& recipe, const Source& source, const Inputs& inputs,
             const Checks& checks)
      : host_(host), source_(source), model_(source.model), inputs_(inputs), checks_(checks) {
    if (checks.fp32 || checks.exact || inputs.expected(0) != nullptr)
      tensors_ = std::make_unique<model::Tensors>(tensor_source(recipe, model_));
    if (!checks.exact) return;
    exact_seconds = seconds_of([&] {
      plan_ =
          plan::build(host.device, model_.graph, compile_options(recipe, host.threads).plan, *host.progress);
    });
  }

  struct Expected {
    Arrays fp32;   // of the model
    Arrays exact;  // of the graph
  };
  const Expected& of(const std::vector<std::size_t>& key,
                     const std::map<std::string, std::vector<float>>& values) {
    auto [it, fresh] = cache_.try_emplace(key);
    if (!fresh) return it->second;
    auto host = [&](const std::string& name) -> const std::vector<float>& {
      const auto given = values.find(name);
      return given != values.end() ? given->second : (*tensors_)(name);
    };
    if (checks_.fp32 || inputs_.expected(0) != nullptr) {
      host_.progress->stage("reference");
      reference_seconds += seconds_of([&] {
        it->second.fp32 = source_.onnx ? inputs_.onnx_reference(host_.threads)
                                       : ref::run(model_.graph, host, {.threads = host_.threads});
      });
    }
    if (checks_.exact) {
      host_.progress->stage("exact");
      plan::ExactOptions options;
      options.threads = host_.threads;
      options.drop_group_rounding = checks_.drop_group_rounding;
      exact_seconds += seconds_of([&] { it->second.exact = plan::run_exact(plan_, host, options); });
    }
    return it->second;
  }
  double reference_seconds = 0, exact_seconds = 0;

 private:
  const Host& host_;
  const Source& source_;
  const model::Model& model_;
  const Inputs& inputs_;
  const Checks& checks_;
  std::unique_ptr<model::Tensors> tensors_;  // none without checks
  plan::Plan plan_;
  std::map<std::vector<std::size_t>, Expected> cache_;
};

struct Closeness {
  double cosine_min = 1, max_abs_error = 0;
};
// Of an ONNX output all values are one vector; a built-in model has an embedding per image.
Closeness compare(const Arrays& actual, const Arrays& expected, const Source& source) {
  Closeness close;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::size_t width = source.onnx
                                  ? std::max<std::size_t>(1, actual[i].size())
                                  : source.model.graph.at(source.model.graph.outputs.at(i)).shape.back();
    const double cosine = ref::minimum_cosine(actual[i], expected.at(i), width);
    close.cosine_min = std::isnan(cosine) ? cosine : std::min(close.cosine_min, cosine);
    close.max_abs_error = std::max(close.max_abs_error, ref::max_abs_error(actual[i], expected.at(i)));
    if (std::isnan(cosine)) break;
  }
  return close;
}

// FP32 against FP32: only the order of sums may differ. The cosine is that of models.md C.5; its largest
// error (4.34e-5) belongs to one model, so the error is held against the largest value here.
Mapping check_mapping(const Arrays& fp32, const import::FixtureCase& given, const Arrays& expected,
                      const Source& source) {
  constexpr double kLeastCosine = 0.99999994, kMostError = 1e-3;
  const Closeness close = compare(fp32, expected, source);
  double largest = 0;
  for (const float x : expected.at(0)) largest = std::max(largest, std::abs(double{x}));
  return {given.name, close.cosine_min, close.max_abs_error,
          close.cosine_min >= kLeastCosine && close.max_abs_error <= kMostError * largest};
}

void check_call(CallReport& call, const Arrays& device, const Arrays& actual,
                const References::Expected& expected, const Checks& checks, const Source& source,
                const Inputs& inputs) {
  call.pass = true;
  std::optional<Closeness> close;
  if (const import::FixtureCase* given = inputs.expected(call.index)) {
    const Arrays wanted{import::values_of(given->expected)};
    close = compare(actual, wanted, source);
    call.mapping = check_mapping(expected.fp32, *given, wanted, source);
    call.pass = call.mapping->pass;
  } else if (checks.fp32) {
    close = compare(actual, expected.fp32, source);
  }
  if (close) call.pass = call.pass && close->cosine_min > checks.cosine_threshold;
  if (checks.exact) {
    if (!close) close = compare(actual, inputs.results(expected.exact), source);
    call.exact = device.size() == expected.exact.size();
    for (std::size_t i = 0; *call.exact && i < device.size(); ++i)
      call.exact = same_bits(device[i], expected.exact[i]);
    call.pass = call.pass && *call.exact;
  }
  if (!close) return;
  call.cosine_min = close->cosine_min;
  call.max_abs_error = close->max_abs_error;
}

std::vector<std::uint8_t> joined(const std::vector<std::vector<std::uint8_t>>& parts) {
  std::vector<std::uint8_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Little-endian F32, row-major, OUTPUT.f32 each.
void write_outputs(const std::string& folder, const std::vector<std::string>& names, const Arrays& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string name = names.at(i);
    std::ranges::replace_if(name, [](char c) { return c == '/' || c == '\\' || c == '\0'; }, '_');
    const std::filesystem::path file = std::filesystem::path(folder) / (name + ".f32");
    make_parents(file);
    const auto* bytes = reinterpret_cast<const char*>(values[i].data());
    write_text(std::string(bytes, 4 * values[i].size()), file.string());
  }
}

std::uint64_t product_macs(const std::vector<ref::Extent>& extents) {
  std::uint64_t macs = 0;
  for (const ref::Extent& e : extents) macs += e.macs();
  return macs;
}

// The build; a refusal by bytes says what other plans would need.
compile::Result built(const Host& host, const Recipe& recipe, const model::Model& model,
                      const compile::OnUnplaced& on_unplaced) {
  compile::Options options = compile_options(recipe, host.threads);
  std::optional<Error> told;
  if (on_unplaced)
    options.on_unplaced = [&](const compile::Unplaced& u) {
      told = advised(host, recipe, u.error);
      on_unplaced({u.plan, u.program, u.problems, *told, u.side, u.weights});
    };
  try {
    return compile::optimise(host.device, model.graph, options, *host.progress);
  } catch (const Error& e) {
    throw told ? *told : advised(host, recipe, e);
  }
}

}  // namespace

Compiled compile_model(const Host& host, const Recipe& recipe, Source source,
                       const compile::OnUnplaced& on_unplaced) {
  Compiled out;
  out.source = std::move(source);
  const model::Model& model = out.source.model;
  out.recipe = recipe;
  if (out.source.onnx) out.recipe.onnx_sha256 = sha256_of(recipe.model.name);
  out.recipe.model = model.config;
  out.recipe.weights.files = check_weights(host, out.recipe, model);
  out.result = built(host, out.recipe, model, on_unplaced);
  out.recipe.choices = compile::candidates_of(out.result.plan.choices);
  host.progress->stage("weights");
  model::Tensors tensors(tensor_source(recipe, model), model::Tensors::Keep::Latest);
  out.package.weights = compile::pack_weights(
      out.result, [&](const std::string& name) -> const std::vector<float>& { return tensors(name); },
      host.threads, &out.result.report.clipped_weights);
  if (const std::string text = clipped_text(out.result.report.clipped_weights); !text.empty())
    spdlog::warn(text);
  out.package.image = std::move(out.result.image);
  out.package.side = out.result.side;
  out.package.side.recipe_json = to_json(out.recipe);
  out.package.side.summary_json = summary_json(host.device, out.recipe, model, out.result.report);
  const std::vector<std::string> findings = package::verify(out.package);
  TW_CHECK(findings.empty(), "package: " + findings.front());
  return out;
}

RunReport run_package(const Host& host, const Recipe& recipe, const Source& source,
                      const package::Package& package, const RunOptions& options) {
  RunReport report;
  const model::Model& model = source.model;
  const Inputs inputs(source, options.images, options.inputs, recipe.seed, options.fixture.get());
  References references(host, recipe, source, inputs, options.checks);
  const auto sent = sim::bindings_of(package.image, package::BindingKind::Input),
             received = sim::bindings_of(package.image, package::BindingKind::Output);
  sim::Options sim_options = options.sim;
  sim_options.threads = host.threads;
  sim::Machine machine(host.device, package.image, sim_options);

  host.progress->stage("upload");
  report.seconds_simulate +=
      seconds_of([&] { report.fault = machine.initialize(package.weights, options.calls).fault; });
  std::vector<std::vector<std::vector<std::uint8_t>>> outputs;
  std::vector<std::vector<std::size_t>> keys;
  Arrays actual;
  bool all = true;
  for (std::uint32_t c = 0; c < options.calls && !report.fault; ++c) {
    const std::map<std::string, std::vector<float>> values = inputs.host_values(c);
    CallReport call;
    call.index = c;
    sim::CallResult result;
    host.progress->stage(fmt::format("call {}", c));
    std::vector<std::vector<std::uint8_t>> input;
    for (const package::Binding* b : sent) input.push_back(sim::encode(*b, values.at(b->name)));
    report.seconds_simulate += seconds_of([&] { result = machine.run(input, host.progress); });
    call.stats = result.stats;
    report.fp8_clips += result.stats.fp8_clips;
    if (result.fault) {
      report.fault = result.fault;
      report.calls.push_back(call);
      break;
    }
    if (c == 0) {
      report.first_input = joined(input);
      report.first_output = joined(result.outputs);
    }
    keys.push_back(inputs.key(c));
    Arrays device;
    for (std::size_t i = 0; i < received.size(); ++i)
      device.push_back(sim::decode(*received[i], result.outputs.at(i)));
    actual = inputs.results(device);
    check_call(call, device, actual, references.of(keys.back(), values), options.checks, source, inputs);
    for (std::uint32_t earlier = 0; earlier < c; ++earlier) {
      const bool equal = outputs[earlier] == result.outputs;
      if (equal && !call.same_as_call) call.same_as_call = earlier;
      if (!equal && keys[earlier] == keys[c]) call.pass = false;  // equal inputs, other bits: state leaked
    }
    outputs.push_back(std::move(result.outputs));
    all = all && call.pass;
    report.calls.push_back(call);
  }
  if (!options.outputs.empty() && !report.fault)
    write_outputs(options.outputs, inputs.output_names(), actual);
  report.pass = all && !report.fault && report.calls.size() == options.calls && machine.halted();
  if (options.checks.exact && !report.fault) {
    report.exact_match = std::all_of(report.calls.begin(), report.calls.end(),
                                     [](const CallReport& c) { return c.exact.value_or(false); });
  }
  report.seconds_reference = references.reference_seconds;
  report.seconds_exact = references.exact_seconds;
  const auto extents = ref::products(model.graph);
  report.macs = product_macs(extents);
  if (options.checks.blas_yardstick) {
    host.progress->stage("openblas");
    report.openblas_seconds = ref::blas_seconds(extents, host.threads);
  }
  host.progress->finish();
  return report;
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace tw::tools
