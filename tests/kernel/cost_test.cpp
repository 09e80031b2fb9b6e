// Worked figures of compiler.md 5.4 and 13.4; where it gives a formula only, the figure is worked by hand
// here.
#include "support.h"

namespace tw::kernel::test {
namespace {

std::uint64_t cycles(Code code, std::vector<std::uint32_t> m, std::vector<std::uint32_t> spec = {}) {
  const Invocation v{code, std::move(m), std::move(spec), {}};
  return find(code)->cycles(v.call());
}
std::uint64_t gemm(Code code, std::uint32_t rows, std::uint32_t k, std::uint32_t columns,
                   std::uint32_t interleaved) {
  return cycles(code, {0, 0, 0, rows, k, columns, 0}, {0, interleaved});
}

TEST(Cost, GemmInterleaved) {
  EXPECT_EQ(gemm(Code::GemmF16, 184, 288, 48, 1), 48678U);
  EXPECT_EQ(gemm(Code::GemmF8, 82, 192, 160, 1), 29574U);
  EXPECT_EQ(gemm(Code::GemmF8, 244, 128, 64, 1), 18470U);
  EXPECT_EQ(gemm(Code::GemmF16, 81, 80, 80, 1), 12394U);
}
TEST(Cost, GemmStandard) {  // 294 + 5 * (80 * 81 / 4 + ceil(5 * 1063 / 4))
  EXPECT_EQ(gemm(Code::GemmF16, 81, 80, 80, 0), 294U + 5 * (1620 + 1329));
  EXPECT_EQ(gemm(Code::GemmF8, 3, 32, 16, 0), 294U + 12 + 266);
}
TEST(Cost, Reduction) {
  EXPECT_EQ(cycles(Code::Sum, {0, 0, 0, 2208, 4, 0}), 4974U);
  EXPECT_EQ(cycles(Code::Sum, {0, 0, 0, 2208, 28, 0}), 18222U);
  EXPECT_EQ(cycles(Code::Sum, {0, 0, 0, 576, 15, 0}), 3090U);
  EXPECT_EQ(cycles(Code::Sum, {0, 0, 0, 576, 1, 0}), 0U);
}
TEST(Cost, Pointwise) {
  EXPECT_EQ(cycles(Code::Gelu, {0, 0, 960}), 330U + 4620);
  EXPECT_EQ(cycles(Code::Gelu, {0, 0, 970}),
            480U * 10 + 120 * 5 + 342);                          // 60 blocks, tail on the first worker
  EXPECT_EQ(cycles(Code::Gelu, {0, 0, 18}), 480U + 330);         // 1 block beats a tail pair
  EXPECT_EQ(cycles(Code::BiasGelu, {0, 0, 0, 1, 2152}), 8550U);  // measured 8,550
  EXPECT_EQ(cycles(Code::BiasGelu, {0, 0, 0, 2, 18}), 2U * (810 - 330 + 40) + 72 + 330);
  EXPECT_EQ(cycles(Code::Add, {0, 0, 0, 1152, 1152}), 504U + 18 * 48);
  EXPECT_EQ(cycles(Code::Add, {0, 0, 0, 4608, 1152}), 504U + 4 * 18 * 48 + 234 * 3);
  EXPECT_EQ(cycles(Code::Add, {0, 0, 0, 1150, 1150}), 450U + 54 * 96);
}
TEST(Cost, Norm) {
  EXPECT_NEAR(cycles(Code::LayerNorm, {0, 0, 0, 0, 1, 1152}, {0}), 6732U, 5);  // measured
  EXPECT_EQ(cycles(Code::LayerNorm, {0, 0, 0, 0, 1, 1152}, {0}), 6735U);
  EXPECT_EQ(cycles(Code::LayerNorm, {0, 0, 0, 0, 2, 50}, {0}), 132U + 2 * (48 * 5 + 60 * 5 + 1200));
  EXPECT_EQ(cycles(Code::Moments, {0, 0, 3, 36}), 126U + 3 * (48 * 3 + 1080));
  EXPECT_EQ(cycles(Code::Moments, {0, 0, 1, 96}), 126U + 24 + 120 + 24 + 1080);
  EXPECT_EQ(cycles(Code::Apply, {0, 0, 0, 0, 0, 2, 36, 32}, {0}), 774U + 2 * (402 + 54 * 32 + 144));
}
TEST(Cost, Softmax) {
  const auto softmax = [](std::uint32_t rows, std::uint32_t keys, std::uint32_t padded, std::uint32_t split) {
    return cycles(Code::Softmax, {0, 0, 0, rows, keys, padded, split, 0}, {0});
  };
  EXPECT_EQ(softmax(7, 729, 768, 1), 19524U);
  EXPECT_EQ(softmax(6, 729, 768, 0), 12258U);
  EXPECT_EQ(softmax(7, 64, 64, 0), 2664U);
  EXPECT_EQ(softmax(7, 25, 64, 0), 2634U);
  EXPECT_TRUE(softmax_splits_rows(7, 729, 768));
  EXPECT_FALSE(softmax_splits_rows(6, 729, 768));
  EXPECT_FALSE(softmax_splits_rows(1, 100, 112));
  EXPECT_TRUE(softmax_splits_rows(1, 729, 768));
}
TEST(Cost, Merge) {
  const auto merge = [](std::uint32_t spec) { return cycles(Code::Merge, {0, 0, 0, 0, 7, 72, 80}, {spec}); };
  EXPECT_EQ(merge(1), 2430U);
  EXPECT_EQ(merge(0), 3378U);
  EXPECT_EQ(merge(2), 3906U);
  EXPECT_EQ(merge(3), 222U + 12 * (27 + 3 + 1 + 12 + 36 * 5 + 3));
}
TEST(Cost, Casts) {
  EXPECT_EQ(cycles(Code::CastF16ToF8, {0, 0, 8320, 0}), 330U + 24 * 174);
  EXPECT_EQ(cycles(Code::CastF32ToF16, {0, 0, 100}), 330U + 48 * 9);
  EXPECT_EQ(cycles(Code::CastF8ToF16, {0, 0, 100, 0}), 11U + 38);
  EXPECT_EQ(cycles(Code::RepackF8Left, {0, 0, 164, 384, 384, 0}), 330U + 12 * (120 + 72 * 28));
  EXPECT_EQ(cycles(Code::RepackF8Left, {0, 0, 2, 192, 192, 0}), 330U + 120 + 144);
  EXPECT_EQ(cycles(Code::RepackF8Left, {0, 0, 1, 192, 192, 0}), 330U + 24 * 4);
  EXPECT_EQ(cycles(Code::PackRowToF8Left, {0, 0, 2, 192, 192, 192, 0}), 330U + 120 + 144);
  EXPECT_EQ(cycles(Code::PackRowToF8Left, {0, 0, 2, 190, 190, 192, 0}), 11U + 3840);
}
TEST(Cost, Moves) {
  EXPECT_EQ(cycles(Code::PackRowToLeft, {0, 0, 3, 72, 72, 80}), 11U + 240);
  EXPECT_EQ(cycles(Code::PackRowToLeft, {0, 0, 3, 73, 73, 80}), 11U + 2400);
  EXPECT_EQ(cycles(Code::PackRowToRight, {0, 0, 60, 72, 72, 64, 80}), 11U + 3 * 64 * 80);
  EXPECT_EQ(cycles(Code::PackRowToBlock, {0, 0, 64, 16, 16, 64, 16, 64}), 300U + 6 * 6 * 60);
  EXPECT_EQ(cycles(Code::PackRowToBlock, {0, 0, 64, 72, 72, 64, 80, 64}), 300U + 6 * 6 * (12 + 140 * 5));
  EXPECT_EQ(cycles(Code::PackRowToBlock, {0, 0, 64, 72, 72, 64, 80, 32}), 11U + 51200);
  EXPECT_EQ(cycles(Code::UnpackLeft, {0, 0, 7, 80, 72, 72}), 294U + 5 * 12 * 14);
  EXPECT_EQ(cycles(Code::UnpackLeft, {0, 0, 7, 80, 74, 74}), 294U + 5 * 12 * 22);
  EXPECT_EQ(cycles(Code::UnpackLeft, {0, 0, 7, 80, 73, 73}), 11U + 5110);
  EXPECT_EQ(cycles(Code::UnpackBlock, {0, 0, 7, 72, 72, 16, 80, 16}), 11U + 5040);
}
TEST(Cost, Copies) {
  EXPECT_EQ(cycles(Code::CopyU16, {0, 0, 3}), 112U + 387);
  EXPECT_EQ(cycles(Code::CopyU32, {0, 0, 5}), 104U + 115);
  EXPECT_EQ(cycles(Code::CopyU64, {0, 0, 10, 0}), 246U + 120);
  EXPECT_EQ(cycles(Code::CopyU64, {0, 0, 10, 5}), 246U + 132);
  EXPECT_EQ(cycles(Code::CopyStrided64, {0, 0, 4, 7, 0, 0}), 294U + 12 * 14);
  EXPECT_EQ(cycles(Code::CopyStrided32, {0, 0, 1, 6, 0, 0}), 294U + 6 * 8);
  EXPECT_EQ(cycles(Code::Fill, {0, 4800}), 111U);
}

TEST(Registry, CompleteAndConsistent) {
  std::uint32_t bytes = 0;
  for (const Kernel& k : all()) {
    EXPECT_EQ(find(k.code), &k);
    EXPECT_TRUE(k.validate && k.accesses && k.cycles && k.run) << k.name;
    EXPECT_GE(k.image_bytes, 300U) << k.name;
    EXPECT_LE(k.image_bytes, 2000U) << k.name;
    EXPECT_EQ(k.image_bytes % 4, 0U) << k.name;
    EXPECT_LE(k.arguments, 8U);
    EXPECT_EQ(k.address_mask >> k.arguments, 0U) << k.name;
    bytes += k.image_bytes;
  }
  EXPECT_EQ(all().size(), 39U);
  EXPECT_GE(bytes, 20000U);
  EXPECT_LE(bytes, 36000U);
  EXPECT_EQ(find(static_cast<Code>(0)), nullptr);
  EXPECT_EQ(find(static_cast<Code>(40)), nullptr);
  EXPECT_EQ(find(Code::GemmF8)->separate, (std::vector<std::pair<std::uint8_t, std::uint8_t>>{{0, 1}}));
}
TEST(Registry, HeaderWords) {
  const std::uint32_t spec[] = {1, 0};
  EXPECT_EQ(header_words(HeaderKind::Kernel, 2, 1400, spec),
            (std::vector<std::uint32_t>{0x314B5754, 2, 1400 | 2U << 24, 1, 0}));
  EXPECT_EQ(header_words(HeaderKind::Helper, 5, 64, {}),
            (std::vector<std::uint32_t>{0x314B5754, 5 | 1U << 16, 64}));
}

}  // namespace
}  // namespace tw::kernel::test
