// Accuracy over many random weight sets (models.md C.3): the worst cosine of the small models against the
// FP32 reference. The exact interpreter stands for the device, which equals it bit for bit (tested
// elsewhere).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/model.h"
#include "model/tensors.h"
#include "plan/build.h"
#include "plan/exact.h"
#include "ref/ref.h"
#include "target/device.h"

namespace tw {
namespace {

constexpr std::uint64_t kSeeds = 20;

// Minimum over seeds 1..20 of the model's minimum cosine.
double worst_cosine(const std::string& name, tensor::Precision precision) {
  const model::Model model = model::build({.name = name, .layers = 3, .batch = 1, .small = true});
  plan::Options options;
  options.tiles = 64;
  options.precision = precision;
  Progress quiet;
  const plan::Plan plan = plan::build(c600(), model.graph, options, quiet);
  const std::size_t width = model.graph.at(model.graph.outputs.front()).shape.back();
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    model::Tensors random(model::random_source(model, seed));
    const auto host = [&](const std::string& n) -> const std::vector<float>& { return random(n); };
    const std::vector<float> expected = ref::run(model.graph, host).front();
    const std::vector<float> actual = plan::run_exact(plan, host).front();
    const double cosine = ref::minimum_cosine(actual, expected, width);
    EXPECT_FALSE(std::isnan(cosine)) << name << " seed " << seed;
    worst = std::min(worst, cosine);
  }
  fmt::print("{} {} tiles {}: minimum cosine over {} seeds {:.6f}\n", name,
             precision == tensor::Precision::F8 ? "fp8" : "fp16", options.tiles, kSeeds, worst);
  return worst;
}

class Seeds : public ::testing::TestWithParam<std::string> {};
TEST_P(Seeds, Fp8StaysAbove97Percent) { EXPECT_GT(worst_cosine(GetParam(), tensor::Precision::F8), 0.97); }
TEST_P(Seeds, Fp16StaysAbove999PerMille) {
  EXPECT_GT(worst_cosine(GetParam(), tensor::Precision::F16), 0.999);
}

INSTANTIATE_TEST_SUITE_P(Models, Seeds, ::testing::ValuesIn(model::names()), [](const auto& info) {
  std::string name = info.param;  // letters, digits and underscores only
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace tw
