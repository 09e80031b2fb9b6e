#include "tools/recipe.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "import/problems.h"

namespace tw::tools {
using nlohmann::json;

const char* name_of(plan::Policy policy) { return policy == plan::Policy::Default ? "default" : "capacity"; }

const char* name_of(plan::Attention attention) {
  switch (attention) {
    case plan::Attention::Auto:
      return "auto";
    case plan::Attention::Streaming:
      return "streaming";
    case plan::Attention::Materialized:
      return "materialized";
  }
  return "";
}

const char* name_of(plan::WeightRounding rounding) {
  return rounding == plan::WeightRounding::Balanced ? "balanced" : "nearest";
}

const char* precision_name(tensor::Precision precision) {
  switch (precision) {
    case tensor::Precision::F8:
      return "fp8";
    case tensor::Precision::F16:
      return "fp16";
    case tensor::Precision::F32:
      return "fp32";
  }
  return "";
}

namespace {

json weights_json(const WeightsChoice& weights) {
  if (weights.path.empty()) return nullptr;
  json files = json::array();
  for (const WeightsFile& f : weights.files)
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  return {{"path", weights.path}, {"fixture", weights.fixture}, {"files", files}};
}

WeightsChoice weights_from(const json& j) {
  WeightsChoice weights;
  if (j.is_null()) return weights;
  weights.path = j.at("path").get<std::string>();
  weights.fixture = j.at("fixture").get<bool>();
  for (const json& f : j.at("files"))
    weights.files.push_back({f.at("name").get<std::string>(), f.at("bytes").get<std::uint64_t>(),
                             f.at("sha256").get<std::string>()});
  return weights;
}

bool is_digest(const std::string& text) {
  return text.empty() ||
         (text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos);
}

// What no recipe of ours has, or empty.
std::string problem_of(const Recipe& r) {
  std::vector<int> scales{r.fp8_scale};
  for (const auto& [role, scale] : r.fp8_scales) scales.push_back(scale);
  for (const int scale : scales)
    if (scale < -16 || scale > 15) return fmt::format("an FP8 scale of {}", scale);
  bool digests = is_digest(r.onnx_sha256) && is_digest(r.calibration_sha256);
  for (const WeightsFile& f : r.weights.files) digests = digests && is_digest(f.sha256);
  return digests ? "" : "a digest that is none";
}

}  // namespace

WeightsChoice weights_named(const std::string& option) {
  return {.path = option == "random" ? "" : option, .fixture = false, .files = {}};
}

std::string to_json(const Recipe& r) {
  const json j = {{"model", r.model.name},
                  {"layers", r.model.layers},
                  {"batch", r.model.batch},
                  {"small", r.model.small},
                  {"image_size", r.model.image_size},
                  {"fuse_qkv", r.model.fuse_qkv},
                  {"weights", weights_json(r.weights)},
                  {"dims", r.dims},
                  {"onnx_sha256", r.onnx_sha256},
                  {"seed", r.seed},
                  {"precision", precision_name(r.precision)},
                  {"fp8_scale", r.fp8_scale},
                  {"fp8_scales", r.fp8_scales},
                  {"fp16_roles", r.fp16_roles},
                  {"calibration_sha256", r.calibration_sha256},
                  {"policy", name_of(r.policy)},
                  {"attention", name_of(r.attention)},
                  {"weight_rounding", name_of(r.weight_rounding)},
                  {"relays", r.relays},
                  {"tiles", r.tiles},
                  {"stream_words", r.stream_words},
                  {"table_budget", r.table_budget},
                  {"fragment_limit", r.fragment_limit},
                  {"optimization_steps", r.optimization_steps},
                  {"choices", r.choices}};
  return j.dump(-1, ' ', false, json::error_handler_t::replace);  // file names may be no UTF-8
}

Recipe recipe_from_json(const std::string& text, const std::string& file) {
  try {
    const json j = json::parse(text);
    Recipe r;
    r.model.name = j.at("model").get<std::string>();
    r.model.layers = j.at("layers").get<std::uint32_t>();
    r.model.batch = j.at("batch").get<std::uint32_t>();
    r.model.small = j.at("small").get<bool>();
    r.model.image_size = j.at("image_size").get<std::uint32_t>();
    r.model.fuse_qkv = j.at("fuse_qkv").get<bool>();
    r.weights = weights_from(j.at("weights"));
    r.dims = j.at("dims").get<std::map<std::string, std::int64_t>>();
    r.onnx_sha256 = j.at("onnx_sha256").get<std::string>();
    r.seed = j.at("seed").get<std::uint64_t>();
    r.precision = j.at("precision") == "fp8" ? tensor::Precision::F8 : tensor::Precision::F16;
    r.fp8_scale = j.at("fp8_scale").get<int>();
    r.fp8_scales = j.at("fp8_scales").get<std::map<std::string, int>>();
    r.fp16_roles = j.at("fp16_roles").get<std::set<std::string>>();
    r.calibration_sha256 = j.at("calibration_sha256").get<std::string>();
    r.policy = j.at("policy") == "capacity" ? plan::Policy::Capacity : plan::Policy::Default;
    const auto attention = j.at("attention").get<std::string>();
    r.attention = attention == "streaming"      ? plan::Attention::Streaming
                  : attention == "materialized" ? plan::Attention::Materialized
                                                : plan::Attention::Auto;
    r.weight_rounding =
        j.at("weight_rounding") == "nearest" ? plan::WeightRounding::Nearest : plan::WeightRounding::Balanced;
    r.relays = j.at("relays").get<bool>();
    r.tiles = j.at("tiles").get<std::uint32_t>();
    r.stream_words = j.at("stream_words").get<std::uint32_t>();
    r.table_budget = j.at("table_budget").get<std::uint32_t>();
    r.fragment_limit = j.at("fragment_limit").get<std::uint32_t>();
    r.optimization_steps = j.at("optimization_steps").get<std::uint32_t>();
    r.choices = j.at("choices").get<std::map<std::string, std::uint32_t>>();
    if (const std::string why = problem_of(r); !why.empty())
      import::refuse(file, {"its recipe is damaged: " + why});
    return r;
  } catch (const json::exception& e) {
    import::refuse(file, {"its recipe is damaged: " + import::printable(e.what())});
  }
}

compile::Options compile_options(const Recipe& r, unsigned threads) {
  compile::Options o;
  o.plan.tiles = r.tiles;
  o.plan.precision = r.precision;
  o.plan.fp8_scale = r.fp8_scale;
  if (r.precision == tensor::Precision::F8) {
    for (const auto& [role, scale] : r.fp8_scales) o.plan.encodings[role] = {tensor::Precision::F8, scale};
    for (const std::string& role : r.fp16_roles) o.plan.encodings[role] = {tensor::Precision::F16, 0};
  }
  o.plan.policy = r.policy;
  o.plan.attention = r.attention;
  o.plan.weight_rounding = r.weight_rounding;
  o.plan.choices = r.choices;
  o.plan.threads = threads;
  o.optimization_steps = r.optimization_steps;
  o.relays = r.relays;
  o.table_budget = r.table_budget;
  o.fragment_limit = r.fragment_limit;
  o.stream_words = r.stream_words;
  o.threads = threads;
  return o;
}

}  // namespace tw::tools
