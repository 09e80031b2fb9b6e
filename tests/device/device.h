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
#include "sim/bindings.h"
#include "sim/machine.h"

namespace tw::device_test {

using Values = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

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

// One upload, one call.
template <class Host>
sim::CallResult call_once(const compile::Result& built, Host&& host) {
  const Device device = c600();
  sim::Machine machine(device, built.image, {});
  EXPECT_FALSE(machine.initialize(compile::pack_weights(built, host, 0), 1).fault);
  std::vector<Bytes> inputs;
  for (const package::Binding* b : sim::bindings_of(built.image, package::BindingKind::Input))
    inputs.push_back(sim::encode(*b, host(b->name)));
  return machine.run(inputs);
}

inline Outcome run(Case c) {
  draw(c);
  Progress quiet;
  const auto host = [&](const std::string& name) -> const Values& { return c.data.at(name); };
  const compile::Result built = compile::compile(c600(), c.graph, c.options, quiet);
  Outcome out;
  const auto received = sim::bindings_of(built.image, package::BindingKind::Output);
  const sim::CallResult call = call_once(built, host);
  out.exact = plan::run_exact(built.plan, host, {});
  out.fp32 = ref::run(c.graph, host);
  if (call.fault) {
    ADD_FAILURE() << "fault: " << call.fault->what;
    out.bits = false;
    return out;
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    out.simulated.push_back(sim::decode(*received.at(i), call.outputs[i]));
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
