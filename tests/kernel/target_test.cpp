// The vector code gives the same bits whatever instruction set it is dispatched to.
#include <hwy/targets.h>

#include "support.h"

namespace tw::kernel::test {
namespace {

void use_targets(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (targets != 0) {
    EXPECT_EQ(hwy::SupportedTargets(), targets);
  }
}

TEST(Targets, SameBits) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Scene scene(seed);
    const bool f8 = seed % 2 == 0;
    const std::uint32_t rows = scene.between(1, 33), k = 32 * scene.between(1, 4),
                        n = 8 * scene.between(1, 40);
    const std::uint32_t left = f8 ? scene.codes(rows * k, 32) : scene.halves(rows * k, 1, 32);
    const std::uint32_t right = f8 ? scene.codes(k * 48, 32) : scene.halves(k * 48, 1, 32);
    const std::uint32_t out = scene.halves(rows * 48, 1, 32);
    const std::uint32_t parts = scene.halves(4 * n, 3), sum = scene.place(2 * n);
    const std::uint32_t scores = scene.halves(rows * 48, 20), weights = scene.place(rows * 96),
                        state = scene.place(rows * 8);
    std::vector<Image> results;
    for (const std::int64_t target : {std::int64_t{0}, std::int64_t{HWY_SCALAR}, std::int64_t{HWY_AVX2}}) {
      use_targets(target);
      Image image = scene.image;
      run(image, {f8 ? Code::GemmF8 : Code::GemmF16,
                  {out, left, right, rows, k, 48, f8 ? 56U : 0U},
                  {seed % 3 == 0, 0},
                  {}});
      run(image, {Code::Sum, {sum, 0, parts, n, 4, 4}, {}, {}});
      run(image, {Code::Softmax, {weights, scores, state, rows, 41, 48, 0, 0}, {0x2F8B}, {}});
      results.push_back(image);
    }
    use_targets(0);
    expect_same(results[0], results[1], "scalar");
    expect_same(results[0], results[2], "AVX2");
  }
}

}  // namespace
}  // namespace tw::kernel::test
