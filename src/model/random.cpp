#include <fmt/core.h>

#include <cmath>
#include <numbers>
#include <optional>

#include "base/digest.h"
#include "base/error.h"
#include "base/parallel.h"
#include "model/tensors.h"

namespace tw::model {
namespace {

using tensor::Shape;

// SplitMix64 (models.md C.1): increment and output function.
constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Standard normal deviate of element i by Box-Muller (decisions.md 10).
double normal(std::uint64_t s, std::uint64_t i) {
  const std::uint64_t o1 = mix(s + (2 * i + 1) * kGamma);
  const std::uint64_t o2 = mix(s + (2 * i + 2) * kGamma);
  const double u1 = 1.0 - static_cast<double>(o1 >> 11) * 0x1p-53;
  const double u2 = static_cast<double>(o2 >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2);
}

struct Distribution {
  double deviation = 0;
  std::optional<float> constant;
  std::uint64_t period = UINT64_MAX;  // element index is taken modulo this
  std::uint64_t zero_rows_every = 0;  // > 0: the first row of every so many is zero
};

// models.md C.1 by name; `fallback` is the deviation of names outside "vit.".
Distribution distribution(const std::string& name, const Shape& shape, double fallback) {
  const double width = shape.empty() ? 1 : shape.back();
  Distribution d;
  if (!name.starts_with("vit.")) {
    d.deviation = fallback;
  } else if (name.ends_with(".scale")) {
    d.constant = 1.0F;
  } else if (name.ends_with(".bias")) {
    d.deviation = 1e-6;
  } else if (name.ends_with(".weight")) {
    // Fused projections keep the deviation of the single ones.
    const double parts = name.ends_with(".qkv.weight") ? 3 : name.ends_with(".kv.weight") ? 2 : 1;
    d.deviation = std::sqrt(2.0 / (static_cast<double>(shape.front()) + width / parts));
  } else if (name == "vit.position") {
    d.deviation = 1.0 / std::sqrt(width);
  } else if (name == "vit.map.probe") {
    d.deviation = 1.0 / std::sqrt(width);
    d.period = shape.empty() ? 1 : shape.back();
  } else {
    d.deviation = 0.5;
    if (name == "vit.pe.image.patches" && shape.size() >= 2) d.zero_rows_every = shape[shape.size() - 2];
  }
  return d;
}

std::vector<float> generate(const std::string& name, const Shape& shape, std::uint64_t seed,
                            const Distribution& d) {
  std::vector<float> out(tensor::elements(shape));
  if (d.constant) {
    std::fill(out.begin(), out.end(), *d.constant);
    return out;
  }
  const std::uint64_t s = xxh3_64(std::string_view(name), seed);
  const std::uint64_t width = shape.empty() ? 1 : shape.back();
  parallel_for(out.size(), 1 << 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const bool zero = d.zero_rows_every > 0 && (i / width) % d.zero_rows_every == 0;
      out[i] = zero ? 0.0F : static_cast<float>(normal(s, i % d.period) * d.deviation);
    }
  });
  return out;
}

constexpr double kHostDeviation = 0.25;  // models.md C.1, other workloads

}  // namespace

std::vector<float> random_tensor(const std::string& name, const Shape& shape, std::uint64_t seed) {
  return generate(name, shape, seed, distribution(name, shape, kHostDeviation));
}

TensorSource random_source(const Model& model, std::uint64_t seed) {
  struct Input {
    Shape shape;
    double fallback;
  };
  std::map<std::string, Input> inputs;
  for (const graph::Value& value : model.graph.values) {
    const bool parameter = value.kind == graph::ValueKind::Parameter;
    if (!parameter && value.kind != graph::ValueKind::Host) continue;
    const bool matrix = parameter && value.shape.size() >= 2;
    inputs[value.name] = {
        value.shape,
        matrix ? 1.0 / std::sqrt(static_cast<double>(value.shape[value.shape.size() - 2])) : kHostDeviation};
  }
  return [inputs = std::move(inputs), constants = model.constants, seed](const std::string& name) {
    if (const auto constant = constants.find(name); constant != constants.end()) return constant->second;
    const auto found = inputs.find(name);
    if (found == inputs.end())
      throw Error(ErrorKind::Usage, fmt::format("the graph has no input \"{}\"", name));
    const auto& [shape, fallback] = found->second;
    return generate(name, shape, seed, distribution(name, shape, fallback));
  };
}

}  // namespace tw::model
