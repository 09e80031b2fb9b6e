#include "tools/pipeline.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include "base/error.h"
#include "compile/optimise.h"
#include "plan/exact.h"
#include "ref/ref.h"
#include "tools/advise.h"
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
  References(const Host& host, const Recipe& recipe, const model::Model& model, const Checks& checks)
      : host_(host), model_(model), checks_(checks) {
    if (checks.fp32 || checks.exact)
      tensors_ = std::make_unique<model::Tensors>(tensor_source(recipe, model));
    if (!checks.exact) return;
    exact_seconds = seconds_of([&] {
      plan_ =
          plan::build(host.device, model.graph, compile_options(recipe, host.threads).plan, *host.progress);
    });
  }

  struct Expected {
    std::vector<float> fp32, exact;
  };
  const Expected& of(const std::vector<std::size_t>& key, const std::string& input,
                     const std::vector<float>& values) {
    auto [it, fresh] = cache_.try_emplace(key);
    if (!fresh) return it->second;
    auto host = [&](const std::string& name) -> const std::vector<float>& {
      return name == input ? values : (*tensors_)(name);
    };
    if (checks_.fp32) {
      host_.progress->stage("reference");
      reference_seconds +=
          seconds_of([&] { it->second.fp32 = ref::run(model_.graph, host, {host_.threads, {}}).front(); });
    }
    if (checks_.exact) {
      host_.progress->stage("exact");
      plan::ExactOptions options;
      options.threads = host_.threads;
      options.drop_group_rounding = checks_.drop_group_rounding;
      exact_seconds += seconds_of([&] { it->second.exact = plan::run_exact(plan_, host, options).front(); });
    }
    return it->second;
  }
  double reference_seconds = 0, exact_seconds = 0;

 private:
  const Host& host_;
  const model::Model& model_;
  const Checks& checks_;
  std::unique_ptr<model::Tensors> tensors_;  // none without checks
  plan::Plan plan_;
  std::map<std::vector<std::size_t>, Expected> cache_;
};

void check_call(CallReport& call, const std::vector<float>& actual, const References::Expected& expected,
                const Checks& checks, std::size_t width) {
  call.pass = true;
  if (checks.fp32) {
    call.cosine_min = ref::minimum_cosine(actual, expected.fp32, width);
    call.max_abs_error = ref::max_abs_error(actual, expected.fp32);
    call.pass = call.pass && *call.cosine_min > checks.cosine_threshold;
  }
  if (checks.exact) {
    if (!checks.fp32) {
      call.cosine_min = ref::minimum_cosine(actual, expected.exact, width);
      call.max_abs_error = ref::max_abs_error(actual, expected.exact);
    }
    call.exact = same_bits(actual, expected.exact);
    call.pass = call.pass && *call.exact;
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

Compiled compile_model(const Host& host, const Recipe& recipe, const compile::OnUnplaced& on_unplaced) {
  Compiled out;
  out.model = model::build(recipe.model);
  out.recipe = recipe;
  out.recipe.model = out.model.config;
  out.recipe.weights.files = check_weights(host, out.recipe, out.model);
  out.result = built(host, out.recipe, out.model, on_unplaced);
  out.recipe.choices = compile::candidates_of(out.result.plan.choices);
  host.progress->stage("weights");
  model::Tensors tensors(tensor_source(recipe, out.model), model::Tensors::Keep::Latest);
  out.package.weights = compile::pack_weights(
      out.result, [&](const std::string& name) -> const std::vector<float>& { return tensors(name); },
      host.threads);
  out.package.image = std::move(out.result.image);
  out.package.side = out.result.side;
  out.package.side.recipe_json = to_json(out.recipe);
  out.package.side.summary_json = summary_json(host.device, out.recipe, out.model, out.result.report);
  const std::vector<std::string> findings = package::verify(out.package);
  TW_CHECK(findings.empty(), "package: " + findings.front());
  return out;
}

RunReport run_package(const Host& host, const Recipe& recipe, const package::Package& package,
                      const RunOptions& options) {
  RunReport report;
  const model::Model model = model::build(recipe.model);
  const Inputs inputs(model, options.images, recipe.seed);
  References references(host, recipe, model, options.checks);
  sim::Options sim_options = options.sim;
  sim_options.threads = host.threads;
  sim::Machine machine(host.device, package.image, sim_options);

  host.progress->stage("upload");
  report.seconds_simulate +=
      seconds_of([&] { report.fault = machine.initialize(package.weights, options.calls).fault; });
  std::vector<std::vector<std::uint8_t>> outputs;
  std::vector<std::vector<std::size_t>> keys;
  const std::size_t width = model.graph.at(model.graph.outputs.front()).shape.back();
  bool all = true;
  for (std::uint32_t c = 0; c < options.calls && !report.fault; ++c) {
    const std::vector<float> values = inputs.values(c);
    CallReport call;
    call.index = c;
    sim::CallResult result;
    host.progress->stage(fmt::format("call {}", c));
    const std::vector<std::uint8_t> input = encode_f16(values);
    report.seconds_simulate += seconds_of([&] { result = machine.run({input}, host.progress); });
    call.stats = result.stats;
    report.fp8_clips += result.stats.fp8_clips;
    if (result.fault) {
      report.fault = result.fault;
      report.calls.push_back(call);
      break;
    }
    if (c == 0) {
      report.first_input = input;
      report.first_output = result.outputs.front();
    }
    keys.push_back(inputs.key(c));
    check_call(call, decode_f16(result.outputs.front()), references.of(keys.back(), inputs.name(), values),
               options.checks, width);
    for (std::uint32_t earlier = 0; earlier < c; ++earlier) {
      const bool equal = outputs[earlier] == result.outputs.front();
      if (equal && !call.same_as_call) call.same_as_call = earlier;
      if (!equal && keys[earlier] == keys[c]) call.pass = false;  // equal inputs, other bits: state leaked
    }
    outputs.push_back(std::move(result.outputs.front()));
    all = all && call.pass;
    report.calls.push_back(call);
  }
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
