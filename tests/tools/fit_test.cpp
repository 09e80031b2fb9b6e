// Verdicts of fit and the small helpers of the tools that decide results.
#include "tools/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/compare.h"

namespace tw::tools {
namespace {

using testing::ElementsAre;

FitAttempt refused(plan::Policy policy, ErrorKind kind) {
  FitAttempt a;
  a.policy = policy;
  a.refused = kind;
  return a;
}

TEST(Verdict, RefusalsThatEveryCompilationMeetsDecide) {
  EXPECT_EQ(verdict_of({}), Verdict::Undecided);
  for (const ErrorKind kind : {ErrorKind::Capacity, ErrorKind::Contiguity, ErrorKind::ExchangeTable,
                               ErrorKind::Fragments, ErrorKind::Code, ErrorKind::HostBuffer}) {
    const FitAttempt d = refused(plan::Policy::Default, kind);
    EXPECT_EQ(verdict_of({d}), Verdict::CannotFit);
    EXPECT_EQ(verdict_of({d, refused(plan::Policy::Capacity, ErrorKind::Capacity)}), Verdict::CannotFit);
  }
}

TEST(Verdict, AFailedSearchProvesNothing) {
  for (const ErrorKind kind : {ErrorKind::Fragmentation, ErrorKind::SubWord, ErrorKind::UnsupportedOp})
    EXPECT_EQ(verdict_of({refused(plan::Policy::Default, ErrorKind::Capacity),
                          refused(plan::Policy::Capacity, kind)}),
              Verdict::Undecided);
}

TEST(Verdict, OnePlanThatIsBuiltFits) {
  FitAttempt built;
  built.policy = plan::Policy::Capacity;
  EXPECT_EQ(verdict_of({refused(plan::Policy::Default, ErrorKind::Capacity), built}), Verdict::Fits);
}

TEST(Bound, CountsEveryParameterAndTheLargestProduct) {
  // Small SigLIP, two images of four patches: width 144, hidden 288. One byte per element of a product's
  // weight: patches 588 x 144, twelve times 144 x 144 (query, key, value, output and MLP of block and pool: 4
  // + 4 of them 144 x 144, 2 + 2 of them 144 x 288). Largest product: 8 rows x (588 operand bytes + 2 * 144)
  // is 7,008, against QKV's 8 x (144 + 2 * 432) = 8,064.
  Recipe recipe;
  recipe.model = {.name = "siglip-so400m", .layers = 1, .batch = 2, .small = true};
  const model::Model model = model::build(recipe.model);
  const FitBound bound = fit_bound(c600(), model, recipe);
  const std::uint64_t weights = 588 * 144 + 8 * 144 * 144 + 4 * 144 * 288;
  EXPECT_EQ(bound.parameter_bytes, weights + 2 * (model.parameters - weights));
  EXPECT_EQ(bound.product_bytes, 8064);
  EXPECT_EQ(bound.product, "vit.encoder.layer.attention.qkv");
}

TEST(Batches, ListsAndRanges) {
  EXPECT_THAT(parse_numbers("--batch", "4", 256), ElementsAre(4));
  EXPECT_THAT(parse_numbers("--batch", "1..4", 256), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parse_numbers("--batch", "8,2,1..3", 256), ElementsAre(1, 2, 3, 8));
}

TEST(Samples, AreEvenlySpacedAndEndAtTheEnds) {
  EXPECT_THAT(sample_indices(3, 256), ElementsAre(0, 1, 2));
  EXPECT_THAT(sample_indices(10, 4), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(sample_indices(11, 4), ElementsAre(0, 3, 6, 10));
  EXPECT_THAT(sample_indices(9, 1), ElementsAre(0));
  EXPECT_THAT(sample_indices(0, 5), ElementsAre());
}

}  // namespace
}  // namespace tw::tools
