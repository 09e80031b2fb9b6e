#include <gtest/gtest.h>

#include <cmath>

#include "base/digest.h"
#include "base/error.h"
#include "model/tensors.h"

namespace tw::model {
namespace {

double deviation(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// SplitMix64 as the usual generator: its n-th output from state s is mix(s + n*G).
struct SplitMix {
  std::uint64_t s;
  std::uint64_t next() {
    s += 0x9E3779B97F4A7C15;
    std::uint64_t z = s;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
};

TEST(Random, ElementsFollowTheSpecifiedStream) {
  SplitMix check{0};
  ASSERT_EQ(check.next(), 0xe220a8397b1dcdafU);  // models.md C.1
  SplitMix stream{xxh3_64("vit.image.patches", 7)};
  const auto values = random_tensor("vit.image.patches", {1, 10, 100}, 7);
  for (float value : values) {
    const double u1 = 1.0 - std::ldexp(static_cast<double>(stream.next() >> 11), -53);
    const double u2 = std::ldexp(static_cast<double>(stream.next() >> 11), -53);
    const double expected = std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * 3.141592653589793 * u2) * 0.5;
    ASSERT_EQ(value, static_cast<float>(expected));
  }
}

// Deviations of models.md C.1: 0.02946 for QKV however it is fused, 0.01915 up/down, 0.0339 embedding.
TEST(Random, DeviationsDependOnTheRole) {
  auto close = [](const std::string& name, const tensor::Shape& shape, double expected) {
    const auto values = random_tensor(name, shape, 1);
    double mean = 0;
    for (float v : values) mean += v;
    mean /= static_cast<double>(values.size());
    EXPECT_NEAR(deviation(values) / expected, 1.0, 0.02) << name;
    EXPECT_NEAR(mean / expected, 0.0, 0.02) << name;
  };
  close("vit.encoder.layer3.attention.qkv.weight", {1152, 3456}, 0.02946);
  close("vit.encoder.layer3.attention.query.weight", {1152, 1152}, 0.02946);
  close("vit.map.attention.kv.weight", {1152, 2304}, 0.02946);
  close("vit.encoder.layer0.mlp.up.weight", {1152, 4304}, 0.01915);
  close("vit.encoder.layer0.mlp.down.weight", {4304, 1152}, 0.01915);
  close("vit.embedding.weight", {588, 1152}, 0.0339);
  close("vit.position", {1, 729, 1152}, 1.0 / std::sqrt(1152.0));
  close("vit.image.patches", {1, 729, 588}, 0.5);
  close("vit.encoder.layer0.mlp.up.bias", {1, 1, 43040}, 1e-6);
  close("left", {100, 400}, 0.25);
}

TEST(Random, ScalesAreOneTheProbeRepeatsAndTheClassRowIsZero) {
  for (float v : random_tensor("vit.encoder.layer0.mlp_norm.scale", {1, 1, 64}, 1)) EXPECT_EQ(v, 1.0F);
  const auto probe = random_tensor("vit.map.probe", {3, 1, 64}, 1);
  EXPECT_NEAR(deviation(probe), 0.125, 0.03);
  for (std::size_t i = 0; i < probe.size(); ++i) EXPECT_EQ(probe[i], probe[i % 64]);
  EXPECT_NE(probe[0], probe[1]);
  const auto patches = random_tensor("vit.pe.image.patches", {2, 5, 588}, 1);
  for (std::size_t i = 0; i < patches.size(); ++i) EXPECT_EQ(patches[i] == 0, (i / 588) % 5 == 0) << i;
}

TEST(Random, NamesAndSeedsGiveDifferentData) {
  EXPECT_EQ(random_tensor("vit.x", {8}, 1), random_tensor("vit.x", {8}, 1));
  EXPECT_NE(random_tensor("vit.x", {8}, 1), random_tensor("vit.x", {8}, 2));
  EXPECT_NE(random_tensor("vit.x", {8}, 1), random_tensor("vit.y", {8}, 1));
}

TEST(Random, TensorsOfAGraphAreMadeOnceByName) {
  graph::Builder builder("test");
  const ValueId x = builder.host("left", {40, 100});
  const ValueId w = builder.parameter("right", {100, 400});
  Model model;
  model.graph = builder.finish({builder.gemm("product", x, w)});
  Tensors random(random_source(model, 1));
  const auto& right = random("right");
  EXPECT_EQ(&right, &random("right"));
  EXPECT_NEAR(deviation(right), 0.1, 0.005);  // 1/sqrt of the second-to-last extent
  EXPECT_NEAR(deviation(random("left")), 0.25, 0.02);
  EXPECT_THROW(random("product"), Error);
}

TEST(Tensors, KeepsOnlyTheLatestOfEachThreadWhenAskedTo) {
  int made = 0;
  Tensors tensors(
      [&made](const std::string& name) {
        ++made;
        return std::vector<float>(name.size(), static_cast<float>(made));
      },
      Tensors::Keep::Latest);
  const std::vector<float>* first = &tensors("a");
  EXPECT_EQ(*first, std::vector<float>({1}));
  EXPECT_EQ(&tensors("bb"), first);  // the same place: the first one is gone
  EXPECT_EQ(tensors("a"), std::vector<float>({3}));
  const std::vector<float>* other = nullptr;
  std::thread([&] { other = &tensors("ccc"); }).join();
  EXPECT_NE(other, first);
  EXPECT_EQ(*first, std::vector<float>({3}));
}

}  // namespace
}  // namespace tw::model
