#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/capacity.h"
#include "tools/calibrate.h"
#include "tools/json.h"

namespace tw::tools {
namespace {
using json = nlohmann::ordered_json;
using numeric::Magnitudes;

constexpr int kUniform = -4;  // the default of --fp8-scale, for comparison

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

double clipped(const Magnitudes& m, int scale) { return percent(m.clipped(scale), m.finite()); }
double lost(const Magnitudes& m, int scale) { return percent(m.below_normal(scale), m.nonzero()); }

// Short, and never "0" for what is not zero.
std::string figure(double percent) {
  if (percent == 0) return "0";
  return percent < 0.01 ? "<0.01" : fmt::format("{:.2f}", percent);
}

json operand_json(const Magnitudes& m, std::optional<int> scale) {
  json j = {{"max", m.largest()},
            {"own_scale", m.scale()},
            {"clipped_percent", nullptr},
            {"clipped_percent_uniform", clipped(m, kUniform)},
            {"below_normal_percent", nullptr}};
  if (scale) {
    j["clipped_percent"] = clipped(m, *scale);
    j["below_normal_percent"] = lost(m, *scale);
  }
  return j;
}

std::optional<int> scale_of(const CalibrateReport& r, const std::string& role) {
  const auto found = r.calibration.scales.find(role);
  return found == r.calibration.scales.end() ? std::nullopt : std::optional(found->second);
}

json finite(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

json cosines_json(const std::optional<Cosines>& c) {
  if (!c) return nullptr;
  json images = json::array(), layers = json::array();
  for (const double x : c->embeddings) images.push_back(finite(x));
  for (const double x : c->layers) layers.push_back(finite(x));
  return {{"images", images}, {"layers", layers}};
}

std::string cosine_lines(const char* name, const Cosines& c) {
  const auto least = [](const std::vector<double>& v) {  // a NaN counts as the least
    const auto nan = std::ranges::find_if(v, [](double x) { return std::isnan(x); });
    return nan == v.end() ? std::ranges::min_element(v) : nan;
  };
  std::string t = fmt::format("  {:<24} {:.6f}   by image", name, *least(c.embeddings));
  for (const double x : c.embeddings) t += fmt::format(" {:.6f}", x);
  t += "\n  by layer";
  for (std::size_t l = 0; l < c.layers.size(); ++l)
    t += fmt::format("{}{:.4f}", l > 0 && l % 12 == 0 ? "\n           " : " ", c.layers[l]);
  return t + fmt::format("\n  {:<24} {:.6f}   layer {} of {}\n", "  worst layer", *least(c.layers),
                         least(c.layers) - c.layers.begin(), c.layers.size());
}

}  // namespace

std::string calibrate_table(const CalibrateReport& r, const std::string& file) {
  std::string t =
      fmt::format("{} | {} layer(s), {} {} image(s), {} parameters\n", r.recipe.model.name,
                  r.recipe.model.layers, r.images, r.drawn ? "random" : "calibration", grouped(r.parameters));
  t += fmt::format("  {:<32} {:>12} {:>12} {:>6}   {:>16}   {:>16}   {:>16}\n", "", "", "", "",
                   "clipped at it, %", "clipped at -4, %", "under normal, %");
  t += fmt::format("  {:<32} {:>12} {:>12} {:>6}   {:>8}{:>8}   {:>8}{:>8}   {:>8}{:>8}\n", "role",
                   "max |input|", "max |weight|", "scale", "input", "weight", "input", "weight", "input",
                   "weight");
  for (const auto& [role, m] : r.roles) {
    const std::optional<int> scale = scale_of(r, role);
    const auto at_scale = [&](auto&& of, const Magnitudes& values) {
      return scale ? figure(of(values, *scale)) : "-";
    };
    t += fmt::format("  {:<32} {:>12.6g} {:>12.6g} {:>6}   {:>8}{:>8}   {:>8}{:>8}   {:>8}{:>8}\n", role,
                     m.input.largest(), m.weight.largest(), scale ? fmt::format("{}", *scale) : "F16",
                     at_scale(clipped, m.input), at_scale(clipped, m.weight),
                     figure(clipped(m.input, kUniform)), figure(clipped(m.weight, kUniform)),
                     at_scale(lost, m.input), at_scale(lost, m.weight));
  }
  if (r.cosines) t += cosine_lines("cosine, calibration", *r.cosines);
  if (r.held_out) t += cosine_lines("cosine, held out", *r.held_out);
  if (r.cosines)
    t += "  cosines: operands of products rounded, all else FP32; `e2e --calibration` checks the device's\n";
  if (r.drawn) t += "  no --image: scales of random inputs, not of photographs\n";
  return t + fmt::format("  calibration                {} (sha256 {})\n", file, r.sha256);
}

std::string calibrate_json(const CalibrateReport& r, const std::string& file) {
  json roles = json::array();
  for (const auto& [role, m] : r.roles) {
    const std::optional<int> scale = scale_of(r, role);
    roles.push_back({{"role", role},
                     {"scale", scale ? json(*scale) : json(nullptr)},
                     {"precision", scale ? "fp8" : "fp16"},
                     {"input", operand_json(m.input, scale)},
                     {"weight", operand_json(m.weight, scale)}});
  }
  json j = json::parse(result_json("", ""));
  j["calibrate"] = {
      {"model", r.recipe.model.name},
      {"layers", r.recipe.model.layers},
      {"images", r.images},
      {"drawn", r.drawn},
      {"roles", roles},
      {"warnings", r.warnings},
      {"cosine", {{"calibration", cosines_json(r.cosines)}, {"held_out", cosines_json(r.held_out)}}},
      {"seconds", {{"reference", r.seconds_reference}, {"rounded", r.seconds_rounded}}},
      {"host_peak_rss_bytes", peak_rss_bytes()},
      {"file", file},
      {"sha256", r.sha256}};
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tw::tools
