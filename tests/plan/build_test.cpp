#include "plan/build.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graphs.h"
#include "plan/cost.h"
#include "rapidcheck/gtest.h"

namespace tw::plan {
namespace {

using plan_test::Vit;
using plan_test::VitShape;

Plan planned(const graph::Graph& graph, const Options& options = {}) {
  Progress quiet;
  return build(c600(), graph, options, quiet);
}

std::string joined(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += problem + "\n";
  return text;
}

graph::Graph linear(std::uint32_t batch, std::uint32_t rows, std::uint32_t k, std::uint32_t n) {
  graph::Builder b("linear");
  return b.finish({plan_test::biased_gemm(b, "fc", b.host("x", {batch, rows, k}), k, n)});
}

VitShape small_siglip() {
  return {.batch = 1, .tokens = 4, .patch = 588, .width = 144, .hidden = 288, .heads = 2, .layers = 1};
}

TEST(Build, LinearLayerVerifies) {
  for (const std::uint32_t tiles : {1U, 7U, 64U, 1472U}) {
    const Plan plan = planned(linear(1, 729, 588, 1152), {.tiles = tiles});
    EXPECT_EQ(joined(verify(plan)), "") << tiles;
    EXPECT_GT(plan.estimated_cycles, 0);
  }
}

TEST(Build, SmallSiglipVerifies) {
  const graph::Graph graph = Vit(small_siglip()).build();
  for (const std::uint32_t tiles : {2U, 16U, 1472U}) {
    for (const tensor::Precision precision : {tensor::Precision::F8, tensor::Precision::F16}) {
      const Plan plan = planned(graph, {.tiles = tiles, .precision = precision});
      EXPECT_EQ(joined(verify(plan)), "") << tiles;
    }
  }
}

}  // namespace
}  // namespace tw::plan
