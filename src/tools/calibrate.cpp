#include "tools/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "numeric/balance.h"
#include "numeric/formats.h"
#include "plan/roles.h"
#include "ref/ref.h"
#include "tensor/role.h"
#include "tools/calibration.h"
#include "tools/files.h"
#include "tools/inputs.h"
#include "tools/weights.h"

namespace tw::tools {
namespace {

constexpr int kLeastScale = -16, kMostScale = 15;  // of operands that share it
constexpr double kBulk = 0.99, kLost = 0.01;
constexpr int kOutlierGap = 5, kSharedGap = 13;
constexpr float kF16Overflow = 65520;
// A layer's result is kept for the second pass: of so many tokens, evenly spaced.
constexpr std::size_t kSampledTokens = 64;
constexpr const char* kLayerResult = "vit.encoder.layer.mlp.residual";

using Values = std::map<std::string, std::vector<float>>;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What of a pass is compared.
struct Trace {
  std::vector<float> embedding;
  std::vector<std::vector<float>> layers;
};

std::vector<float> sampled(const std::vector<float>& values, std::size_t width) {
  const std::size_t tokens = values.size() / width, kept = std::min(tokens, kSampledTokens);
  std::vector<float> out;
  for (std::size_t i = 0; i < kept; ++i) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(i * tokens / kept * width);
    out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

using Observe = std::function<void(const std::string& role, ref::Operands& operands)>;

// One pass over an image; `observe` gets the operands of every weight product.
Trace pass(const Host& host, const model::Model& model, const std::set<std::string>& roles,
           model::Tensors& tensors, const Values& input, const Observe& observe) {
  Trace trace;
  ref::Options options;
  options.threads = host.threads;
  options.operands = [&](const graph::Op& op, std::uint32_t, ref::Operands& operands) {
    const std::string role = tensor::role_of(op.path);  // that of its weight
    if (op.kind == graph::OpKind::Gemm && roles.contains(role)) observe(role, operands);
  };
  options.checkpoint = [&](const std::string& path, std::uint32_t, const std::vector<float>& values) {
    if (path == kLayerResult)
      trace.layers.push_back(sampled(values, model.graph.at(model.graph.outputs[0]).shape.back()));
  };
  const auto data = [&](const std::string& name) -> const std::vector<float>& {
    const auto given = input.find(name);
    return given != input.end() ? given->second : tensors(name);
  };
  trace.embedding = ref::run(model.graph, data, options)[0];
  return trace;
}

std::vector<Values> images_of(const Source& source, const std::vector<std::filesystem::path>& files,
                              std::uint32_t draws, std::uint64_t seed) {
  std::vector<Values> images;
  if (files.empty()) {
    for (std::uint32_t i = 0; i < draws; ++i)
      images.push_back(Inputs(source, {}, {}, seed + i).host_values(0));
    return images;
  }
  const Inputs inputs(source, files, {}, seed);
  for (std::uint32_t i = 0; i < files.size(); ++i) images.push_back(inputs.host_values(i));
  return images;
}

// Nothing for F16.
std::optional<int> scale_of(const import::Calibration& calibration, const std::string& role) {
  const auto found = calibration.scales.find(role);
  return found == calibration.scales.end() ? std::nullopt : std::optional(found->second);
}

std::vector<float> rounded(const std::vector<float>& values, std::optional<int> scale, unsigned threads) {
  std::vector<float> out(values.size());
  parallel_for(values.size(), 1 << 16, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float half = numeric::f16_to_f32(numeric::f32_to_f16(values[i]));  // as it is held
      out[i] = scale ? numeric::f143_to_f32(numeric::f32_to_f143(half, *scale), *scale) : half;
    }
  });
  return out;
}

// Weights as the device stores them.
model::TensorSource rounded_source(const Host& host, const Recipe& recipe, const model::Model& model,
                                   const CalibrateReport& report) {
  std::map<std::string, tensor::Shape> shapes;
  for (const graph::Value& v : model.graph.values)
    if (v.shape.size() == 2 && report.roles.contains(tensor::role_of(v.name))) shapes[v.name] = v.shape;
  return [&host, &recipe, &report, shapes, source = tensor_source(recipe, model)](const std::string& name) {
    std::vector<float> values = source(name);
    const auto shape = shapes.find(name);
    if (shape == shapes.end()) return values;
    const std::optional<int> scale = scale_of(report.calibration, tensor::role_of(name));
    if (scale && recipe.weight_rounding == plan::WeightRounding::Balanced)
      numeric::round_balanced(values, shape->second[0], shape->second[1], *scale, host.threads);
    else
      values = rounded(values, scale, host.threads);
    return values;
  };
}

Cosines cosines_of(const std::vector<Trace>& exact, const std::vector<Trace>& other) {
  Cosines out;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto whole = [](const std::vector<float>& a, const std::vector<float>& b) {
      return ref::minimum_cosine(a, b, a.size());
    };
    out.embeddings.push_back(whole(other[i].embedding, exact[i].embedding));
    out.layers.resize(exact[i].layers.size(), 1);
    for (std::size_t l = 0; l < out.layers.size(); ++l) {
      const double cosine = whole(other[i].layers[l], exact[i].layers[l]);
      if (!(cosine >= out.layers[l])) out.layers[l] = cosine;
    }
  }
  return out;
}

// Passes over calibration and held-out images.
class Passes {
 public:
  Passes(const Host& host, const CalibrateReport& report, const model::Model& model,
         const std::set<std::string>& roles)
      : host_(host), report_(report), model_(model), roles_(roles) {}

  std::vector<Trace> run(
      const char* stage, const std::vector<Values>& images, model::Tensors& tensors,
      const std::function<void(std::size_t, const std::string&, ref::Operands&)>& observe) {
    std::vector<Trace> traces;
    for (std::size_t i = 0; i < images.size(); ++i) {
      host_.progress->stage(fmt::format("{} {}/{}", stage, i + 1, images.size()));
      traces.push_back(pass(host_, model_, roles_, tensors, images[i],
                            [&](const std::string& role, ref::Operands& in) { observe(i, role, in); }));
      TW_CHECK(traces.back().layers.size() == report_.recipe.model.layers, "a layer's result was not seen");
    }
    return traces;
  }

 private:
  const Host& host_;
  const CalibrateReport& report_;
  const model::Model& model_;
  const std::set<std::string>& roles_;
};

std::string share(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.2f} %",
                     whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// An operand of a role, with the scale that the role has.
struct Operand {
  const char* name;  // "input", "weight"
  const numeric::Magnitudes& values;
  int scale;

  int bulk_scale() const { return values.scale_without(1 - kBulk); }
  bool has_outliers() const { return values.scale() - bulk_scale() >= kOutlierGap; }
  bool loses_bulk(bool outliers) const {
    const auto lost = static_cast<double>(values.below_normal(scale));
    return lost > kLost * static_cast<double>(values.nonzero()) &&
           (outliers ? has_outliers() : scale - bulk_scale() >= kSharedGap);
  }
};

// What helps a role whose operands FP8 serves badly; `otherwise` goes before a value that F16 cannot hold.
std::string advice(const std::string& role, float largest, const char* otherwise) {
  if (largest <= kLargestF16) return fmt::format("try --fp16 {}", role);
  return fmt::format("{} {:g}", otherwise, largest);
}

std::string clip_warning(const std::string& role, const Operand& o, float largest) {
  const std::uint64_t clipped = o.values.clipped(o.scale);
  return fmt::format("{}: {} {}s ({}) exceed the largest scale and clip; {}", role, clipped, o.name,
                     share(clipped, o.values.finite()),
                     advice(role, largest, "no format of the device holds"));
}

std::string loss_warning(const std::string& role, const Operand& o, const std::string& cause, float largest) {
  return fmt::format(
      "{}: {} of the {}s fall under the smallest normal number of FP8 at scale {} ({:g}), which {} needs; "
      "{:.0f} % of them would fit scale {}: {}",
      role, share(o.values.below_normal(o.scale), o.values.nonzero()), o.name, o.scale,
      std::ldexp(1.0, o.scale - 7), cause, 100 * kBulk, o.bulk_scale(),
      advice(role, largest, "F16 cannot hold"));
}

void add_warnings(std::vector<std::string>& out, const std::string& role, const RoleMagnitudes& m,
                  int scale) {
  const Operand operands[] = {{"input", m.input, scale}, {"weight", m.weight, scale}};
  const float largest = std::max(m.input.largest(), m.weight.largest());
  const std::size_t before = out.size();
  for (const Operand& o : operands) {
    if (o.values.clipped(scale) > 0) out.push_back(clip_warning(role, o, largest));
    if (o.loses_bulk(true))
      out.push_back(loss_warning(role, o, fmt::format("the largest, {:g},", o.values.largest()), largest));
  }
  if (out.size() > before) return;  // the other operand follows from these
  for (const Operand& o : operands)
    if (o.loses_bulk(false)) out.push_back(loss_warning(role, o, "the other operand", largest));
}

}  // namespace

int shared_scale(const RoleMagnitudes& role) {
  return std::clamp(std::max(role.input.scale(), role.weight.scale()), kLeastScale, kMostScale);
}

std::vector<std::string> scale_warnings(const std::map<std::string, RoleMagnitudes>& roles,
                                        const import::Calibration& calibration) {
  std::vector<std::string> out;
  for (const auto& [role, m] : roles) {
    if (m.input.not_finite() > 0)
      out.push_back(fmt::format("{}: {} inputs are NaN or infinite in FP32", role, m.input.not_finite()));
    if (m.input.largest() >= kF16Overflow)
      out.push_back(fmt::format("{}: an input of {:g} is beyond F16, in which the device holds it (65504)",
                                role, m.input.largest()));
    const std::optional<int> scale = scale_of(calibration, role);
    if (scale) add_warnings(out, role, m, *scale);
  }
  return out;
}

CalibrateReport calibrate(const Host& host, const Recipe& recipe, const CalibrateOptions& options) {
  if (is_onnx(recipe)) throw Error(ErrorKind::Usage, "calibrate is for the built-in models");
  CalibrateReport report;
  report.recipe = recipe;
  const Source source = open_source(recipe);
  const model::Model& model = source.model;
  report.recipe.model = model.config;
  report.parameters = model.parameters;
  const std::set<std::string> roles = plan::product_roles(model.graph);
  check_fp16_roles(report.recipe, roles);
  const std::vector<Values> images = images_of(source, options.images, options.draws, recipe.seed),
                            held_out = images_of(source, options.held_out, 0, recipe.seed);
  report.images = static_cast<std::uint32_t>(images.size());
  report.drawn = options.images.empty();
  check_weights(host, report.recipe, model);

  Passes passes(host, report, model, roles);
  std::vector<Trace> exact, exact_held_out;
  report.seconds_reference = seconds_of([&] {
    model::Tensors tensors(tensor_source(recipe, model));
    exact = passes.run("calibrate", images, tensors,
                       [&](std::size_t image, const std::string& role, const ref::Operands& in) {
                         RoleMagnitudes& m = report.roles[role];
                         m.input.add(*in[0]);
                         if (image == 0) m.weight.add(*in[1]);
                       });
    if (!options.no_cosine) exact_held_out = passes.run("held out", held_out, tensors, [](auto&&...) {});
  });
  for (const std::string& role : roles) {
    TW_CHECK(report.roles.contains(role), "no product was seen for " + role);
    if (!report.recipe.fp16_roles.contains(role))
      report.calibration.scales[role] = shared_scale(report.roles.at(role));
  }
  report.calibration.fp16 = report.recipe.fp16_roles;
  report.warnings = scale_warnings(report.roles, report.calibration);
  write_text(import::to_json(report.calibration), options.output);
  if (options.output != "-") report.sha256 = sha256_of(options.output);
  if (options.no_cosine) return report;

  report.seconds_rounded = seconds_of([&] {
    model::Tensors tensors(rounded_source(host, report.recipe, model, report));
    std::vector<float> operand;
    const auto round = [&](std::size_t, const std::string& role, ref::Operands& in) {
      operand = rounded(*in[0], scale_of(report.calibration, role), host.threads);
      in[0] = &operand;
    };
    report.cosines = cosines_of(exact, passes.run("cosine", images, tensors, round));
    if (!held_out.empty())
      report.held_out = cosines_of(exact_held_out, passes.run("cosine, held out", held_out, tensors, round));
  });
  return report;
}

}  // namespace tw::tools
