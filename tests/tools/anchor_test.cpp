// The seed's figures stand beside ours only where the same job was run.
#include "tools/anchor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tw::tools {
namespace {

using testing::HasSubstr;

struct Job {
  Recipe recipe;
  model::Model model;
};

Job pe_job() {
  Job job;
  job.recipe.policy = plan::Policy::Capacity;
  job.model.config = {.name = "pe-core-l14-capacity", .layers = 24, .batch = 2};
  return job;
}

const Anchor* anchor_after(void (*change)(Job&)) {
  Job job = pe_job();
  change(job);
  return anchor_of(job.recipe, job.model);
}

TEST(Anchor, OfTheSameJobOnly) {
  ASSERT_NE(anchor_after([](Job&) {}), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.model.config.layers = 23; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.model.config.batch = 1; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.model.config.small = true; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.model.config.fuse_qkv = false; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.recipe.model.image_size = 224; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.recipe.policy = plan::Policy::Default; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.recipe.precision = tensor::Precision::F16; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.recipe.tiles = 1471; }), nullptr);
  EXPECT_EQ(anchor_after([](Job& j) { j.model.config.name = "siglip-so400m"; }), nullptr);
  EXPECT_NE(anchor_after([](Job& j) {
              j.model.config.name = "siglip-so400m";
              j.model.config.layers = 27;
            }),
            nullptr);
}

TEST(Anchor, TableKeepsTheirsAndOursApart) {
  const Job job = pe_job();
  compile::Report compiled;
  compiled.table_bytes_max = 1234;
  RunReport run;
  EXPECT_EQ(anchor_table({}, job.recipe, job.model, compiled, run), "");  // no call, nothing to compare
  run.calls.resize(2);
  run.calls[0].cosine_min = 0.75;
  run.calls[1].cosine_min = 0.5;
  run.calls[1].stats.cycles = 3'000'000;  // 2 ms at 1.5 GHz
  const std::string table = anchor_table({}, job.recipe, job.model, compiled, run);
  EXPECT_THAT(table, HasSubstr("50,652 B"));
  EXPECT_THAT(table, HasSubstr("1,234 B"));
  EXPECT_THAT(table, HasSubstr("22,689,775"));
  EXPECT_THAT(table, HasSubstr("15.991 ms (measured)"));
  EXPECT_THAT(table, HasSubstr("2.000 ms (modelled)"));
  EXPECT_THAT(table, HasSubstr("0.500000"));
}

}  // namespace
}  // namespace tw::tools
