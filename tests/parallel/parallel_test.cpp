// Four threads through every parallel loop between a graph and its outputs: the same package, program and
// bits as one thread. Built with ThreadSanitizer (preset tsan) this is also the search for races.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "model/model.h"
#include "model/tensors.h"
#include "numeric/formats.h"
#include "package/package.h"
#include "plan/exact.h"
#include "report/report.h"
#include "sim/machine.h"

namespace tw {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::uint32_t kCalls = 2;

struct Case {
  const char* name;
  const char* model;
  std::uint32_t layers, batch, tiles;
  plan::Policy policy;
  plan::Attention attention;
  tensor::Precision precision;
};

struct Outcome {
  Bytes package;               // the whole file
  std::vector<Bytes> outputs;  // per call
  std::vector<std::uint64_t> cycles;
  std::vector<float> exact;  // of the plan's interpreter
  std::string report;
};

Bytes file_bytes(const package::Package& package) {
  const std::string file = testing::TempDir() + "parallel_test.ipuexe";
  package::write(package, file);
  std::ifstream in(file, std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return bytes;
}

Bytes f16_bytes(const std::vector<float>& values) {
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  Bytes bytes(2 * half.size());
  std::memcpy(bytes.data(), half.data(), bytes.size());
  return bytes;
}

Outcome run(const Case& c, unsigned threads) {
  const model::Model model =
      model::build({.name = c.model, .layers = c.layers, .batch = c.batch, .small = true});
  compile::Options options;
  options.plan.tiles = c.tiles;
  options.plan.policy = c.policy;
  options.plan.attention = c.attention;
  options.plan.precision = c.precision;
  options.plan.threads = options.threads = threads;
  Progress progress;
  const Device device = c600();
  compile::Result result = compile::compile(device, model.graph, options, progress);

  Outcome out;
  model::Tensors random(model::random_source(model, 1));
  auto host = [&](const std::string& name) -> const std::vector<float>& { return random(name); };
  package::Package package;
  package.weights = compile::pack_weights(result, host, threads);
  package.image = std::move(result.image);
  package.side = std::move(result.side);
  out.package = file_bytes(package);
  out.report = report::to_json(report::build(device, package, "parallel.ipuexe", 0, threads));

  sim::Options sim_options;
  sim_options.threads = threads;
  sim::Machine machine(device, package.image, sim_options);
  EXPECT_FALSE(machine.initialize(package.weights, kCalls).fault);
  const Bytes input = f16_bytes(random(model.vision.input));
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    sim::CallResult r = machine.run({input});
    EXPECT_FALSE(r.fault);
    if (r.fault) return out;
    out.outputs.push_back(std::move(r.outputs.front()));
    out.cycles.push_back(r.stats.cycles);
  }
  plan::ExactOptions exact;
  exact.threads = threads;
  out.exact = plan::run_exact(result.plan, host, exact).front();
  return out;
}

class Parallel : public testing::TestWithParam<Case> {};

TEST_P(Parallel, FourThreadsGiveTheResultsOfOne) {
  const Outcome one = run(GetParam(), 1), four = run(GetParam(), 4);
  EXPECT_TRUE(one.package == four.package);
  EXPECT_EQ(one.outputs, four.outputs);
  EXPECT_EQ(one.cycles, four.cycles);
  EXPECT_EQ(one.exact, four.exact);
  EXPECT_TRUE(one.report == four.report);
  ASSERT_EQ(four.outputs.size(), kCalls);
  EXPECT_EQ(four.outputs[0], four.outputs[1]);
  EXPECT_EQ(f16_bytes(four.exact), four.outputs[0]);
}

INSTANTIATE_TEST_SUITE_P(
    , Parallel,
    testing::Values(Case{"SigLipMaterialized", "siglip-so400m", 2, 2, 48, plan::Policy::Default,
                         plan::Attention::Materialized, tensor::Precision::F8},
                    Case{"PeCapacity", "pe-core-l14-capacity", 2, 2, 32, plan::Policy::Capacity,
                         plan::Attention::Auto, tensor::Precision::F8},
                    Case{"SigLipStreamingHalf", "siglip-so400m", 1, 1, 24, plan::Policy::Default,
                         plan::Attention::Streaming, tensor::Precision::F16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tw
