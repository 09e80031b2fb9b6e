// The online attention accumulator keeps maximum and denominator at columns v and v + 1 of rows of
// up(v + 2, 16) words (compiler.md 3.5). With v = 64 a buffer of 64-wide rows has no room for them: the
// verifier of tile programs must refuse it, because nothing later could tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernel/kernel.h"
#include "numeric/formats.h"
#include "tile/program.h"

namespace tw::tile {
namespace {

constexpr std::uint32_t kRows = 6, kValue = 64;

enum Form : std::uint32_t { Middle = 0, Initial = 1, Final = 2 };

// One Merge call; the accumulators (output of a form that is not final, previous of one that is not initial)
// have rows of `width` words.
Program merge(Form form, std::uint32_t width, std::uint32_t v = kValue) {
  Program p;
  const std::uint32_t padded = (v + 15) / 16 * 16;
  const auto add = [&](std::uint32_t bytes, std::uint32_t last) {
    Buffer b;
    b.tile = TileId(0);
    b.bytes = bytes;
    b.tail = 64;
    b.memory = tensor::MemoryClass::Interleaved;
    b.alignment = 16;
    b.first = 0;
    b.last = last;
    b.tensor = TensorId(static_cast<std::uint32_t>(p.buffers.size()));
    p.buffers.push_back(b);
    return Arg{BufferId(static_cast<std::uint32_t>(p.buffers.size() - 1)), 0};
  };
  const auto number = [](std::uint32_t value) { return Arg{BufferId(), value}; };
  const bool final = (form & Final) != 0, initial = (form & Initial) != 0;
  Call call;
  call.tile = TileId(0);
  call.args[0] = add(final ? kRows * padded * 2 : kRows * width * 4, 1);
  call.args[1] = add(kRows * padded * 2, 1);
  call.args[2] = add(kRows * 8, 1);
  call.args[3] = initial ? number(0) : add(kRows * width * 4, 1);
  call.args[4] = number(kRows), call.args[5] = number(v), call.args[6] = number(padded);
  p.specs = {{kernel::Code::Merge, {static_cast<std::uint32_t>(form)}}};
  p.calls = {call};
  p.steps.resize(1);
  p.steps[0].call_count = 1;
  p.paths = {"attention"};
  return p;
}

TEST(Accumulator, RowsWithoutRoomForTheStateAreRefused) {
  for (const Form form : {Initial, Middle, Final}) {
    EXPECT_THAT(verify(merge(form, 64)), ::testing::Not(::testing::IsEmpty())) << form;
    EXPECT_THAT(verify(merge(form, 80)), ::testing::IsEmpty()) << form;
  }
  // 72 has slack up to 80 by itself; 128 has none.
  EXPECT_THAT(verify(merge(Initial, 80, 72)), ::testing::IsEmpty());
  EXPECT_THAT(verify(merge(Initial, 128, 128)), ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(verify(merge(Initial, 144, 128)), ::testing::IsEmpty());
}

// What the refusal prevents: the kernel writes 80 words per row whatever the buffer was meant to be.
TEST(Accumulator, StateStandsBehindTheValuesOfEachRow) {
  const kernel::Kernel* k = kernel::find(kernel::Code::Merge);
  ASSERT_NE(k, nullptr);
  constexpr std::uint32_t base = 0x80000, out = base, pv = base + 0x1000, state = base + 0x2000;
  std::vector<std::uint8_t> sram(0x3000, 0xEE);
  std::vector<std::uint16_t> ones(kRows * kValue, numeric::f32_to_f16(1.0F));
  std::memcpy(sram.data() + 0x1000, ones.data(), 2 * ones.size());
  for (std::uint32_t r = 0; r < kRows; ++r) {
    const float maximum = 10.0F + static_cast<float>(r), denominator = 100.0F + static_cast<float>(r);
    std::memcpy(sram.data() + 0x2000 + 4 * r, &maximum, 4);
    std::memcpy(sram.data() + 0x2000 + 4 * (kRows + r), &denominator, 4);
  }
  kernel::Call call;
  const std::uint32_t spec = Initial;
  call.m = {out, pv, state, 0, kRows, kValue, kValue, 0};
  call.spec = {&spec, 1};
  ASSERT_EQ(k->validate(call), "");
  kernel::Effects effects;
  k->run(sram.data(), base, call, effects);
  const auto word = [&](std::uint32_t i) {
    float v = 0;
    std::memcpy(&v, sram.data() + 4 * i, 4);
    return v;
  };
  for (std::uint32_t r = 0; r < kRows; ++r) {
    EXPECT_EQ(word(80 * r + 63), 1.0F);
    EXPECT_EQ(word(80 * r + 64), 10.0F + static_cast<float>(r));
    EXPECT_EQ(word(80 * r + 65), 100.0F + static_cast<float>(r));
  }
  EXPECT_NE(sram[kRows * 64 * 4], 0xEE);  // a buffer of 64-wide rows would have ended here
  EXPECT_EQ(sram[kRows * 80 * 4], 0xEE);  // the right one ends here
}

}  // namespace
}  // namespace tw::tile
