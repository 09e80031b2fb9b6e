// Weights are data of a package: others may be uploaded into the same image, and the first ones again.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compile/compile.h"
#include "model/model.h"
#include "model/tensors.h"
#include "numeric/formats.h"
#include "sim/machine.h"

namespace tw {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes f16_bytes(const std::vector<float>& values) {
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  Bytes bytes(2 * half.size());
  std::memcpy(bytes.data(), half.data(), bytes.size());
  return bytes;
}

struct Built {
  model::Model model;
  compile::Result result;
};

Built small_model(std::uint32_t layers) {
  Progress progress;
  Built b;
  b.model = model::build({.name = "siglip-so400m", .layers = layers, .batch = 2, .small = true});
  compile::Options options;
  options.plan.tiles = 64;
  b.result = compile::compile(c600(), b.model.graph, options, progress);
  return b;
}

std::vector<Bytes> packed(const Built& b, std::uint64_t seed) {
  model::Tensors random(model::random_source(b.model, seed));
  return compile::pack_weights(
      b.result, [&](const std::string& name) -> const std::vector<float>& { return random(name); }, 0);
}

Bytes patches(const Built& b, std::uint64_t seed) {
  for (const graph::Value& v : b.model.graph.values) {
    if (v.name == b.model.vision.input) return f16_bytes(model::random_tensor(v.name, v.shape, seed));
  }
  ADD_FAILURE() << "no input";
  return {};
}

// Outputs of one call per input after one upload.
std::vector<Bytes> session(const Built& b, const std::vector<Bytes>& weights,
                           const std::vector<Bytes>& inputs) {
  const Device device = c600();
  sim::Machine machine(device, b.result.image, {});
  EXPECT_FALSE(machine.initialize(weights, static_cast<std::uint32_t>(inputs.size())).fault);
  std::vector<Bytes> outputs;
  for (const Bytes& input : inputs) {
    sim::CallResult call = machine.run({input});
    EXPECT_FALSE(call.fault);
    outputs.push_back(call.fault ? Bytes{} : std::move(call.outputs.front()));
  }
  EXPECT_TRUE(machine.halted());
  return outputs;
}

TEST(ResidentWeights, OtherWeightsInTheSameImageAndBackAgain) {
  const Built b = small_model(2);
  const std::vector<Bytes> first = packed(b, 1), second = packed(b, 2);
  const std::vector<Bytes> inputs = {patches(b, 1), patches(b, 5)};
  const auto a = session(b, first, inputs);
  const auto other = session(b, second, inputs);
  const auto again = session(b, first, inputs);
  EXPECT_EQ(a, again);
  EXPECT_NE(a[0], other[0]);
  EXPECT_NE(a[1], other[1]);
  EXPECT_NE(a[0], a[1]);
}

TEST(ResidentWeights, ACallDependsOnNothingButItsInput) {
  const Built b = small_model(2);
  const std::vector<Bytes> weights = packed(b, 1);
  const Bytes x = patches(b, 1), y = patches(b, 5);
  const auto mixed = session(b, weights, {x, y, y, x});
  const auto alone = session(b, weights, {y});
  EXPECT_EQ(mixed[1], alone[0]);
  EXPECT_EQ(mixed[2], alone[0]);
  EXPECT_EQ(mixed[3], mixed[0]);
}

}  // namespace
}  // namespace tw
