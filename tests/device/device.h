// A graph on the whole simulated device: compiled, uploaded, called, and held against the exact interpreter
// (bit for bit) and the FP32 reference.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "numeric/formats.h"
#include "plan/exact.h"
#include "ref/ref.h"
#include "sim/machine.h"

namespace tw::device_test {

using Values = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

inline Bytes encoded(const Values& values, const std::string& dtype) {
  Bytes bytes(values.size() * (dtype == "f32" ? 4 : 2));
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  std::memcpy(bytes.data(), dtype == "f32" ? static_cast<const void*>(values.data()) : half.data(),
              bytes.size());
  return bytes;
}

inline Values decoded(const Bytes& bytes, const std::string& dtype) {
  Values values(bytes.size() / (dtype == "f32" ? 4 : 2));
  if (dtype == "f32") {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> half(values.size());
  std::memcpy(half.data(), bytes.data(), bytes.size());
  numeric::f16_to_f32(half, values);
  return values;
}

struct Case {
  graph::Graph graph;
  compile::Options options = {};
  std::map<std::string, Values> data = {};  // by name; what is missing is drawn: Gaussian of this deviation
  float deviation = 0.5F;
};

struct Outcome {
  std::vector<Values> simulated, exact, fp32;
  bool bits = true;      // simulated equals exact
  double cosine = 1.0;   // of all outputs as one vector each, the least
  double max_error = 0;  // against FP32
};

inline std::uint32_t seed_of(const std::string& name) {
  std::uint32_t h = 2166136261U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619U;
  return h;
}

// F16 where the device holds F16, so that inputs are the same numbers for everybody.
inline void draw(Case& c) {
  for (const graph::Value& v : c.graph.values) {
    if (v.kind != graph::ValueKind::Host && v.kind != graph::ValueKind::Parameter) continue;
    const auto [slot, fresh] = c.data.try_emplace(v.name);
    if (!fresh) continue;
    std::mt19937 random(seed_of(v.name));
    const bool matrix = v.kind == graph::ValueKind::Parameter && v.shape.size() == 2 && v.shape[0] > 1;
    const float deviation =
        matrix ? std::sqrt(2.0F / static_cast<float>(v.shape[0] + v.shape[1])) : c.deviation;
    std::normal_distribution<float> normal(0.0F, deviation);
    slot->second.resize(tensor::elements(v.shape));
    for (float& x : slot->second) x = numeric::f16_to_f32(numeric::f32_to_f16(normal(random)));
  }
}

inline Outcome run(Case c) {
  draw(c);
  Progress quiet;
  const Device device = c600();
  const auto host = [&](const std::string& name) -> const Values& { return c.data.at(name); };
  const compile::Result built = compile::compile(device, c.graph, c.options, quiet);
  sim::Machine machine(device, built.image, {});
  Outcome out;
  EXPECT_FALSE(machine.initialize(compile::pack_weights(built, host, 0), 1).fault);
  std::vector<Bytes> inputs;
  std::vector<std::string> types;
  for (const package::Binding& b : built.image.bindings) {
    if (b.kind == package::BindingKind::Input) inputs.push_back(encoded(host(b.name), b.dtype));
    if (b.kind == package::BindingKind::Output) types.push_back(b.dtype);
  }
  const sim::CallResult call = machine.run(inputs);
  out.exact = plan::run_exact(built.plan, host, {});
  out.fp32 = ref::run(c.graph, host);
  if (call.fault) {
    ADD_FAILURE() << "fault: " << call.fault->what;
    out.bits = false;
    return out;
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    out.simulated.push_back(decoded(call.outputs[i], types.at(i)));
    const Values &sim = out.simulated[i], &exact = out.exact.at(i), &fp32 = out.fp32.at(i);
    out.bits =
        out.bits && sim.size() == exact.size() && std::memcmp(sim.data(), exact.data(), 4 * sim.size()) == 0;
    const double cosine = ref::minimum_cosine(sim, fp32, sim.size());
    if (!(cosine >= out.cosine)) out.cosine = cosine;  // NaN (a zero vector) counts as the least
    out.max_error = std::fmax(out.max_error, ref::max_abs_error(sim, fp32));
  }
  return out;
}

}  // namespace tw::device_test
