// Supervisor programs: cycles, helpers, Repeat patches, kernels, host batches, checkpoints, several calls.
#include <gtest/gtest.h>

#include "builder.h"

namespace tw::sim::testing {
namespace {

using kernel::Code;
using kernel::Helper;

const std::uint32_t kS = phys(0), kD = phys(1286);  // the endpoints of worked row E1: S = 23, X = 1, P = 53
Words sender_row(std::uint32_t address, std::uint32_t words = 3) {
  return {isa::delay(23), isa::send(words, address / 4, 1), isa::kReturnWord};
}
Words receiver_row(std::uint32_t address, std::uint32_t words = 3) {
  return {isa::delayxpic(1, 0, kS), isa::delayxpic(words, 0, isa::kMuxNeutral),
          isa::delaypic(52 - words, 0, address / 4), isa::delay(words + 5), isa::kReturnWord};
}
Words patch_call(std::uint32_t row, std::uint32_t offsets, std::uint32_t values, std::uint32_t count) {
  return {isa::setzi(2, row), isa::setzi(3, offsets), isa::setzi(4, values), isa::setzi(5, count),
          isa::call(9, helper(Helper::PatchRow))};
}

TEST(Program, SupervisorWordsCostSixCycles) {
  // Between two phases: one tile runs 10 plain words, the others none; setup words are free (decisions.md
  // 11).
  Builder b(1472);
  b.exchange({});
  b.emit(5, Words(10, isa::setzi(3, 1)));
  b.exchange({});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(run.result.stats.exchange_cycles, 500u);
  // From the host's sync 7 to the first phase: setzi and put of INCOMING_MUX; behind the last: completion.
  const std::uint64_t boot = 12, tail = 24;
  EXPECT_EQ(run.result.stats.cycles, boot + 250 + 60 + 250 + tail);
  EXPECT_EQ(run.result.stats.compute_cycles, boot + 60 / 1472 + tail);
  EXPECT_EQ(run.result.stats.sync_cycles, 60u);
}

TEST(Program, ArithmeticAndBranches) {
  Builder b;
  const std::uint32_t t = 7;
  b.emit(t, {isa::setzi(2, 0x12345), isa::shl(2, 2, 12), isa::add(2, 2, 0x678), isa::setzi(3, 0x70000),
             isa::st32(2, 3, 15, 0), isa::setzi(4, 5), isa::setzi(5, 0)});
  const std::uint32_t loop = b.pc(t);
  b.emit(t, {isa::add(5, 5, 3), isa::add(4, 4, -1)});
  b.emit(t, {isa::brz(4, b.pc(t) + 12), isa::setzi(0, loop), isa::br(0)});
  b.emit(t, {isa::setzi(6, 4), isa::st32(5, 3, 6, 1), isa::ld32(7, 3, 6, 1), isa::st32(7, 3, 15, 3)});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, t, 0x70000, 4), (Words{0x12345678, 0, 15, 15}));
}

TEST(Program, SubroutineReturns) {
  Builder b;
  const std::uint32_t t = 3;
  const std::uint32_t here = b.pc(t);
  // call over the subroutine: [call sub][bri after][sub: setzi, st32, br m1]
  b.emit(t, {isa::call(1, here + 8), isa::bri(here + 24), isa::setzi(2, 9), isa::setzi(3, 0x70000),
             isa::st32(2, 3, 15, 0), isa::br(1)});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, t, 0x70000, 1), (Words{9}));
}

// One stored row serves two phases; a word that is zero in the second use must be patched too.
TEST(Helper, SharedRowWithZeroAndNonZeroAddressesInBothOrders) {
  for (const bool zero_first : {false, true}) {
    Builder b;
    b.data(kS, 0x60000, pattern(kS, 6));
    const std::uint32_t send_row = b.row(kS, sender_row(0x60000));
    const std::uint32_t row = b.row(kD, receiver_row(0));  // normalised: pointer cleared
    // Incoming base 0x70000 and pointer 0 in one use, base 0 and a full address in the other.
    b.data(kD, 0x5E000, {8});                                  // byte offset of the pointer word
    b.data(kD, 0x5E010, {isa::delaypic(49, 0, 0)});            // value table of the use with address zero
    b.data(kD, 0x5E020, {isa::delaypic(49, 0, 0x72000 / 4)});  // and of the other
    for (const bool zero : {zero_first, !zero_first}) {
      for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
        if (t == kS)
          b.emit(t, Builder::active_call(send_row));
        else if (t == kD) {
          b.emit(t, patch_call(row, 0x5E000, zero ? 0x5E010 : 0x5E020, 1));
          Words call = Builder::active_call(row);
          if (zero) call[0] = isa::setzi(8, 0x70000);
          b.emit(t, call);
        } else
          b.emit(t, Builder::inactive_call());
      }
    }
    Started run(b);
    ASSERT_EQ(run.fault(), "none") << run.text();
    EXPECT_EQ(words_at(run.machine, kD, 0x70000, 3), pattern(kS, 3)) << zero_first;
    EXPECT_EQ(words_at(run.machine, kD, 0x72000, 3), pattern(kS, 3)) << zero_first;
    // 5 words and 102 + 31 cycles each before the barriers (decisions.md 11); 12 boot and 24 completion
    // cycles.
    EXPECT_EQ(run.result.stats.cycles - run.result.stats.exchange_cycles, 12u + 2 * (30 + 133) + 24);
  }
}

TEST(Helper, BulkPatchCost) {
  Builder b(1472);
  b.data(9, 0x60000, Words(24, 0));
  Words offsets, values;
  for (std::uint32_t i = 0; i < 24; ++i) {
    offsets.push_back(4 * (23 - i));
    values.push_back(100 + i);
  }
  b.data(9, 0x61000, offsets);
  b.data(9, 0x62000, values);
  b.exchange({});
  b.emit(9, patch_call(0x60000, 0x61000, 0x62000, 24));
  b.exchange({});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, 9, 0x60000, 2), (Words{123, 122}));
  EXPECT_EQ(run.result.stats.sync_cycles, 30u + 234 + 54 * 4);
}

// A Repeat of four iterations around one phase; its send address steps, its receive pointer comes from a
// table.
TEST(Helper, RepeatLoopPatchesRowsEveryIteration) {
  Builder b;
  constexpr std::uint32_t kCount = 4;
  const std::array<std::uint32_t, kCount> targets = {0x70100, 0x70000, 0x70400, 0x70200};
  b.data(kS, 0x60000, pattern(kS, 64));
  const std::uint32_t send_row = b.row(kS, sender_row(0x60000));
  const std::uint32_t receive_row = b.row(kD, receiver_row(0x70000));
  const std::uint32_t stride = 32;
  b.data(kS, 0x5E000, {send_row + 4, isa::send(3, 0x60000 / 4, 1), 2 * stride});
  Words table;
  for (const std::uint32_t a : targets) table.push_back(isa::delaypic(49, 0, a / 4));
  b.data(kD, 0x5E000, {receive_row + 8, 0x5E100});
  b.data(kD, 0x5E100, table);
  for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
    b.emit(t, {isa::add(11, 11, -8), isa::setzi(0, kCount), isa::st32(0, 11, 15, 0)});
    const std::uint32_t loop = b.pc(t);
    if (t == kS || t == kD) {
      b.emit(t, {isa::setzi(2, 0x5E000), isa::setzi(3, 1), isa::ld32(4, 11, 15, 0), isa::setzi(5, kCount),
                 isa::call(9, helper(t == kS ? Helper::RepeatStep : Helper::RepeatTable))});
      b.emit(t, Builder::active_call(t == kS ? send_row : receive_row));
    } else {
      b.emit(t, Builder::inactive_call());
    }
    b.emit(t, {isa::ld32(0, 11, 15, 0), isa::add(0, 0, -1), isa::st32(0, 11, 15, 0)});
    b.emit(t, {isa::brz(0, b.pc(t) + 12), isa::setzi(0, loop), isa::br(0), isa::add(11, 11, 8)});
  }
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(run.result.stats.exchange_phases, kCount);
  for (std::uint32_t i = 0; i < kCount; ++i)
    EXPECT_EQ(words_at(run.machine, kD, targets[i], 3), slice(pattern(kS, 64), i * stride / 4, 3)) << i;
  // Every tile: frame 18; per iteration tail of 6 words, 4 in the last (brz taken); patched tiles 30 + 54
  // more.
  EXPECT_EQ(run.result.stats.cycles - run.result.stats.exchange_cycles,
            12u + 18 + kCount * (30 + 54) + (kCount - 1) * 36 + 24 + 6 + 24);
}

TEST(Kernel, RunsAndCharges) {
  Builder b;
  const std::uint32_t t = 11;
  b.exchange({});
  b.emit(t, Builder::kernel_call(Code::Fill, {0x70000, 64}));
  b.exchange({});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, t, 0x70000, 16), Words(16, 0));
  EXPECT_EQ(run.result.stats.sync_cycles, 3 * 6u + 2 + 11);  // cd(bytes, 48) + 11, compiler.md 5.4
}

TEST(Kernel, CopiesCarryUndefinedMarks) {
  for (const bool strided : {false, true}) {
    Builder b;
    const std::uint32_t t = 11;
    b.data(t, 0x60000, {1});
    b.data(t, 0x60008, {3});
    // Strided: 2 rows of one word, 8 bytes apart, packed to adjacent words; else 3 adjacent words.
    if (strided)
      b.emit(t, Builder::kernel_call(Code::CopyStrided32, {0x70000, 0x60004, 1, 2, 4, 4}));
    else
      b.emit(t, Builder::kernel_call(Code::CopyU32, {0x70000, 0x60000, 3}));
    b.emit(t, {isa::setzi(4, strided ? 0x70004 : 0x70000), isa::ld32(3, 4, 15, 0)});  // defined
    b.emit(t, {isa::setzi(4, strided ? 0x70000 : 0x70004), isa::ld32(3, 4, 15, 0)});  // the hole
    Started run(b);
    ASSERT_TRUE(run.result.fault);
    EXPECT_EQ(run.fault(), "undefined-read");
    EXPECT_EQ(run.result.fault->address, strided ? 0x70000u : 0x70004u);
  }
}

TEST(Host, CallsMoveBatchesAndCountCycles) {
  Builder b;
  using package::BindingKind;
  // Weight: tile 4, two pieces; input: tiles 4 and 6; output: tile 6, copied from its input by a kernel.
  b.image.bindings = {{"w", BindingKind::Weight, "f16", 0, {16}, 32, {}},
                      {"x", BindingKind::Input, "f16", 0, {16}, 32, {}},
                      {"y", BindingKind::Output, "f16", 0, {8}, 16, {}}};
  b.image.initialize = {{true, {{4, 0x70000, 16, 0, 0}}}, {true, {{4, 0x70010, 16, 0, 16}}}};
  b.image.inputs = {{true, {{4, 0x71000, 16, 1, 0}, {6, 0x71000, 16, 1, 16}}}};
  b.image.outputs = {{false, {{6, 0x72000, 16, 2, 0}}}};
  b.host_batch({{4, {0, 0x70000, 16, 4096}}});
  b.host_batch({{4, {0, 0x70010, 16, 4096}}});
  constexpr std::uint32_t kCalls = 3;
  for (std::uint32_t t = 0; t < b.device.tiles; ++t)  // loop counter from the loader's word
    b.emit(t,
           {isa::add(11, 11, -8), isa::setzi(1, 0x5800C), isa::ld32(0, 1, 15, 0), isa::st32(0, 11, 15, 0)});
  std::vector<std::uint32_t> loop;
  for (std::uint32_t t = 0; t < b.device.tiles; ++t) loop.push_back(b.pc(t));
  b.host_batch({{4, {0, 0x71000, 16, 4096}}, {6, {0, 0x71000, 16, 8192}}});
  b.exchange({});
  b.emit(6, Builder::kernel_call(Code::CopyU32, {0x72000, 0x71000, 4}));
  b.all({isa::trap(0)});
  b.host_batch({{6, {1, 0x72000, 16, 8192}}});
  for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
    b.emit(t, {isa::ld32(0, 11, 15, 0), isa::add(0, 0, -1), isa::st32(0, 11, 15, 0)});
    b.emit(t, {isa::brz(0, b.pc(t) + 12), isa::setzi(0, loop[t]), isa::br(0), isa::add(11, 11, 8)});
  }
  std::vector<std::uint8_t> weights(32), input(32);
  for (std::size_t i = 0; i < 32; ++i) weights[i] = static_cast<std::uint8_t>(i + 1);
  Started run(b, {}, kCalls, {weights});
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(run.machine.read(4, 0x70000, 32), weights);
  std::vector<std::uint32_t> traps;
  run.machine.on_trap([&](std::uint32_t index) { traps.push_back(index); });
  for (std::uint32_t c = 0; c < kCalls; ++c) {
    EXPECT_FALSE(run.machine.halted());
    for (std::size_t i = 0; i < 32; ++i) input[i] = static_cast<std::uint8_t>(100 * c + i);
    const CallResult r = run.machine.run({input});
    ASSERT_FALSE(r.fault) << r.fault->what;
    ASSERT_EQ(r.outputs.size(), 1u);
    EXPECT_EQ(r.outputs[0], std::vector<std::uint8_t>(input.begin() + 16, input.end())) << c;
    // copy: 4 words of program and 104 + 23 per word (compiler.md 5.4); the trap's word; host phases are
    // outside.
    EXPECT_EQ(r.stats.cycles, 250u + 24 + 104 + 23 * 4 + 6) << c;
    EXPECT_EQ(r.stats.exchange_phases, 1u);
    EXPECT_GT(r.stats.host_cycles, 0u);
  }
  EXPECT_EQ(traps, (std::vector<std::uint32_t>{0, 0, 0}));
  EXPECT_TRUE(run.machine.halted());
  EXPECT_TRUE(run.machine.run({input}).fault) << "no call is left";
  // Reads pass through staging: the aperture holds nothing that was written (decisions.md 16).
  const std::vector<std::uint8_t> aperture = run.machine.read(6, 0x50000, 0x190);
  EXPECT_EQ(aperture, std::vector<std::uint8_t>(0x190, 0xA5));
}

TEST(Host, DataSizesAreChecked) {
  Builder b;
  b.image.bindings = {{"x", package::BindingKind::Input, "f16", 0, {16}, 32, {}}};
  Started run(b);
  EXPECT_THROW(run.machine.run({}), Error);
  EXPECT_THROW(run.machine.run({std::vector<std::uint8_t>(31)}), Error);
}

TEST(Trap, CallbackSeesMemoryAtEachCheckpoint) {
  Builder b;
  const std::uint32_t t = 2;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    b.emit(t, {isa::setzi(2, i), isa::setzi(3, 0x70000), isa::st32(2, 3, 15, 0)});
    b.all({isa::trap(i % 2)});
  }
  package::DeviceImage& image = b.finish();
  Machine machine(b.device, image, {});
  Words seen;
  machine.on_trap([&](std::uint32_t index) {
    EXPECT_EQ(index, seen.size());
    seen.push_back(words_at(machine, t, 0x70000, 1)[0]);
  });
  EXPECT_FALSE(machine.initialize({}, 1).fault);
  EXPECT_EQ(seen, (Words{1, 2, 3}));
}

TEST(Loader, RefusesBrokenImages) {
  const auto refused = [](const auto& change) {
    Builder b;
    package::DeviceImage& image = b.finish();
    change(image);
    EXPECT_THROW(Machine(b.device, image, {}), Error);
  };
  refused([](auto& i) { i.target = "other"; });
  refused([](auto& i) { i.tiles.pop_back(); });
  refused([](auto& i) { i.memory_end -= 4; });
  refused([](auto& i) { i.tiles[3].segments[0].address += 4; });
  refused([](auto& i) { std::swap(i.tiles[3].segments[0], i.tiles[3].segments[1]); });
  refused([](auto& i) { i.tiles[3].segments.back().blob = 99; });
  refused(
      [](auto& i) { i.tiles[3].segments.back().memory_size = 0xE7BB4 - i.tiles[3].segments.back().address; });
  refused([](auto& i) { i.tiles[3].entry = 0x70000; });
  refused([](auto& i) { i.inputs = {{true, {{0, 0x70000, 4, 0, 0}}}}; });
}

}  // namespace
}  // namespace tw::sim::testing
