#include "compile/optimise.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/model.h"

namespace tw::compile {
namespace {

plan::Choice choice(const std::string& path, std::vector<double> cycles) {
  plan::Choice c{.path = path, .chosen = 0, .alternatives = {}};
  for (const double x : cycles) c.alternatives.push_back({x, 0});
  return c;
}

TEST(Proposals, AreEachFasterAlternativeAndAllOfThemAtOnce) {
  const std::vector<plan::Choice> table{choice("a", {10, 7, 12, 8}), choice("b", {5, 5, 6}),
                                        choice("c", {3, 2})};
  const auto found = proposals(table, {{"a", 0}, {"b", 0}, {"c", 0}});
  const std::vector<Candidates> expected{{{"a", 1}, {"b", 0}, {"c", 0}},
                                         {{"a", 3}, {"b", 0}, {"c", 0}},
                                         {{"a", 0}, {"b", 0}, {"c", 1}},
                                         {{"a", 1}, {"b", 0}, {"c", 1}}};
  EXPECT_EQ(found, expected);
}

TEST(Proposals, AtMostFourPerOperation) {
  const auto found = proposals({choice("a", {10, 1, 2, 3, 4, 5, 6})}, {{"a", 0}});
  EXPECT_EQ(found.size(), 4U);
}

TEST(Proposals, NoneWhenEverythingIsFastest) {
  EXPECT_TRUE(proposals({choice("a", {1, 2}), choice("b", {2, 2})}, {{"a", 0}, {"b", 1}}).empty());
}

struct Built {
  double scheduled = 0;
  std::vector<OptimisationStep> log;
  Candidates candidates;
};
Built build(std::uint32_t steps, unsigned threads, std::map<std::string, std::uint32_t> choices = {}) {
  model::Config config;
  config.name = "siglip-so400m";
  config.small = true;
  Options options;
  options.plan.tiles = 64;
  options.plan.threads = options.threads = threads;
  options.plan.policy = plan::Policy::Capacity;
  options.plan.choices = std::move(choices);
  options.optimization_steps = steps;
  Progress progress;
  const Result result = optimise(c600(), model::build(config).graph, options, progress);
  return {result.report.cycles_scheduled, result.report.optimisation, candidates_of(result.plan.choices)};
}

TEST(Optimise, NeverEndsSlowerThanItsBaselineAndCountsItsBuilds) {
  const Built baseline = build(0, 2), improved = build(3, 2);
  EXPECT_TRUE(baseline.log.empty());
  EXPECT_LE(improved.log.size(), 3U);
  EXPECT_GE(improved.log.size(), 1U);
  EXPECT_LE(improved.scheduled, baseline.scheduled);
  const bool accepted = std::ranges::any_of(improved.log, &OptimisationStep::accepted);
  EXPECT_EQ(accepted, improved.scheduled < baseline.scheduled);
}

TEST(Optimise, SameResultForAnyThreadCountAndFromItsRecordedCandidates) {
  const Built one = build(2, 1), four = build(2, 4);
  EXPECT_EQ(one.scheduled, four.scheduled);
  EXPECT_EQ(one.candidates, four.candidates);
  EXPECT_EQ(build(0, 2, one.candidates).scheduled, one.scheduled);
}

}  // namespace
}  // namespace tw::compile
