// Problems of a package are those that were solved for it: built again, compared with its bytes.
#include "tools/problem.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "package/package.h"

namespace tw::tools {
namespace {
using testing::HasSubstr;
using testing::IsEmpty;

class Problems : public testing::Test {
 protected:
  Problems() {
    host_.progress = &progress_;
    host_.threads = 2;
    recipe_.model.name = "siglip-so400m";
    recipe_.model.small = true;
    recipe_.tiles = 16;
  }
  ~Problems() override { std::filesystem::remove(file_); }

  package::Package compiled() { return compile_model(host_, recipe_, open_source(recipe_)).package; }
  inspect::Problem problem(const package::Package& p, const ProblemChoice& choice) {
    package::write(p, file_);
    return problem_of(host_, file_, choice);
  }
  std::string refusal(const package::Package& p, const ProblemChoice& choice) {
    try {
      problem(p, choice);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      return e.what();
    }
    return "accepted";
  }

  Progress progress_{ProgressMode::Never};
  Host host_;
  Recipe recipe_;
  std::string file_ = testing::TempDir() + "problem_test.ipuexe";
};

TEST_F(Problems, TheSolutionIsWhatStandsInThePackage) {
  const package::Package p = compiled();
  const auto placement = std::get<inspect::PlacementProblem>(problem(p, {.tile = 0, .phase = {}}));
  std::size_t at = 0;
  for (const package::TensorPlace& t : p.side.tensors) {
    if (t.tile != 0) continue;
    ASSERT_LT(at, placement.addresses->size());
    EXPECT_EQ((*placement.addresses)[at], t.address);
    EXPECT_EQ(placement.tensors[at], t.tensor);
    EXPECT_GE(placement.problem.requests[at].bytes, t.bytes);
    EXPECT_EQ(placement.problem.requests[at].first, t.first_step);
    EXPECT_EQ(placement.problem.requests[at].last, t.last_step);
    ++at;
  }
  EXPECT_EQ(at, placement.addresses->size());
  EXPECT_GT(at, 20U);
  EXPECT_THAT(inspect::check(host_.device, placement, file_).broken, IsEmpty());
  EXPECT_THAT(inspect::check(host_.device, problem(p, {.tile = {}, .phase = 4}), file_).broken, IsEmpty());
}

TEST_F(Problems, OfTheOptimisersChoices) {
  recipe_.optimization_steps = 2;
  const package::Package p = compiled();
  EXPECT_THAT(inspect::check(host_.device, problem(p, {.tile = 0, .phase = {}}), file_).broken, IsEmpty());
}

TEST_F(Problems, APackageWithOtherBytesIsRefused) {
  package::Package p = compiled();
  const std::uint32_t blob = p.image.tiles[0].segments.back().blob;  // the row table
  p.image.blobs[blob][8] ^= 1;
  EXPECT_THAT(refusal(p, {.tile = {}, .phase = 0}), HasSubstr("gives another image"));
  p = compiled();
  p.side.tensors.front().address += 32;
  EXPECT_THAT(refusal(p, {.tile = 0, .phase = {}}), HasSubstr("gives another image"));
  p = compiled();
  p.side.recipe_json = "{}";
  EXPECT_THAT(refusal(p, {.tile = 0, .phase = {}}), HasSubstr("recipe is damaged"));
}

}  // namespace
}  // namespace tw::tools
