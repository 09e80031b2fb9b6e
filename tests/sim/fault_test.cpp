// Every kind of fault, provoked once or more by a minimal program, with the tile that is blamed.
#include <gtest/gtest.h>

#include <functional>

#include "builder.h"

namespace tw::sim::testing {
namespace {

using kernel::Code;
using kernel::Helper;

const std::uint32_t kS = phys(0), kD = phys(1286);  // worked row E1: S = 23, X = 1, P = 53, horizon 61

struct Expect {
  const char* kind;
  std::uint32_t tile;
};
void expect_fault(const Expect& expected, const std::function<void(Builder&)>& change,
                  const Options& options = {}) {
  Builder b;
  change(b);
  Started run(b, options);
  ASSERT_TRUE(run.result.fault) << expected.kind;
  EXPECT_EQ(run.fault(), expected.kind) << run.text();
  EXPECT_EQ(run.result.fault->tile, expected.tile) << run.text();
  EXPECT_TRUE(run.machine.run({}).fault) << "a faulted machine stays faulted";
}
// Fault of one tile's straight words.
void expect_words(const char* kind, const Words& words) {
  expect_fault({kind, 6}, [&](Builder& b) { b.emit(6, words); });
}
void expect_phase(const Expect& expected, const std::map<std::uint32_t, Words>& rows,
                  const Options& options = {}) {
  expect_fault(
      expected,
      [&](Builder& b) {
        b.data(kS, 0x60000, pattern(kS, 300));
        b.exchange(rows);
      },
      options);
}
Words sender(std::uint32_t address = 0x60000, std::uint32_t words = 3, std::uint32_t control = 1) {
  return {isa::delay(23), isa::send(words, address / 4, control), isa::kReturnWord};
}
Words receiver(std::uint32_t address = 0x70000, std::uint32_t window = 3) {
  return {isa::delayxpic(1, 0, kS), isa::delayxpic(window, 0, isa::kMuxNeutral),
          isa::delaypic(52 - window, 0, address / 4), isa::delay(window + 5), isa::kReturnWord};
}
Words join(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Fault, UnknownInstruction) {
  expect_words("unknown-instruction", {0});
  expect_words("unknown-instruction", {0xFFFFFFFF & 0x0FFFFFFF});
  expect_words("unknown-instruction", {isa::call(10, kRuntime + 32 * 30)});  // no header: runs into zeros
  expect_phase({"unknown-instruction", kS}, {{kS, {0}}, {kD, receiver()}});
}

TEST(Fault, MisplacedInstruction) {
  expect_words("misplaced-instruction", {isa::delay(3)});
  expect_words("misplaced-instruction", {isa::send(3, 0x18000, 1)});
  expect_words("misplaced-instruction", {isa::put(0xA1, 8)});
  expect_words("misplaced-instruction", {isa::sync(1)});
  expect_words("misplaced-instruction", {isa::sync(15)});
  expect_words("misplaced-instruction", {isa::sans(0), isa::sync(3)});
  expect_phase({"misplaced-instruction", kS}, {{kS, {isa::sync(3), isa::kReturnWord}}});
  expect_phase({"misplaced-instruction", kS},
               {{kS, {isa::sendoff(3, 0, 1), isa::kReturnWord}}});  // no stream
  expect_phase({"misplaced-instruction", kS},
               {{kS, {isa::send(3, 0x18000, 1), isa::delay(1), isa::sendoff(3, 0, 1), isa::kReturnWord}}});
  const isa::TwoWords open = isa::sendpicp(3, 0x18000, 1, 0, isa::kMuxNeutral, 0x1C000);
  expect_phase({"misplaced-instruction", kS}, {{kS, {open.word0, open.word1, isa::kReturnWord}}});
}

TEST(Fault, BadCallTarget) {
  expect_words("bad-call-target", {isa::call(10, 0x70000)});
  expect_words("bad-call-target", {isa::br(15)});  // address 0 without completion
  expect_words("bad-call-target", {isa::bri(0x4C010)});
  expect_words("bad-call-target", {isa::call(10, helper(Helper::WorkerBarrier))});  // returns through m7
  expect_words("bad-call-target", {isa::call(10, helper(Helper::Copy))});
}

TEST(Fault, KernelContract) {
  expect_words("kernel-contract", Builder::kernel_call(Code::Fill, {0x70004, 64}));
  expect_words("kernel-contract", Builder::kernel_call(Code::Fill, {0xE7FF8, 64}));
}

TEST(Fault, F16OverflowUnlessSaturating) {
  const auto change = [](Builder& b) {
    b.data(6, 0x60000, Words(4, 0x7B007B00));  // 57344
    b.emit(6, Builder::kernel_call(Code::Add, {0x70000, 0x60000, 0x60000, 8, 8}));
  };
  expect_fault({"f16-overflow", 6}, change);
  Builder b;
  change(b);
  Started run(b, {.saturate_f16 = true});
  EXPECT_EQ(run.fault(), "none") << run.text();
}

TEST(Fault, UndefinedRead) {
  expect_words("undefined-read", Builder::kernel_call(Code::Add, {0x70000, 0x60000, 0x60000, 8, 8}));
  expect_words("undefined-read", {isa::setzi(3, 0x60000), isa::ld32(2, 3, 15, 0)});
}

TEST(Fault, AddressConflict) {
  const auto product = [](std::uint32_t out) {
    return [out](Builder& b) {
      b.data(6, 0x80000, Words(8, 0));
      b.data(6, 0x90000, Words(128, 0));
      b.emit(6, Builder::kernel_call(Code::GemmF16, {out, 0x80000, 0x90000, 1, 16, 16, 0}));
    };
  };
  expect_fault({"address-conflict", 6}, product(0x80040));
  Builder b;
  product(0x88000)(b);
  Started run(b);
  EXPECT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(run.result.stats.macs, 256u);
}

TEST(Fault, ElementClash) {
  // The receiver sends from the element it stores to. Stores at events 53..55, blocked until 61 (w <= e < w +
  // 6).
  for (const std::uint32_t at : {49u, 50u, 53u, 60u, 61u}) {
    Words row = {isa::delayxpic(1, 0, kS), isa::delayxpic(3, 0, isa::kMuxNeutral),
                 isa::delay(at < 53 ? 40 : 45)};
    // Pointer control at 46 or 49: before the send in every case.
    row.push_back(isa::delaypic(1, 0, 0x70000 / 4));
    const std::uint32_t now = 4 + (at < 53 ? 40 : 45) + 1;
    if (at < now) continue;
    if (at > now) row.push_back(isa::delay(at - now));
    row.push_back(isa::send(at < 53 ? 3 : 1, 0x71000 / 4, 1));
    row.push_back(isa::delay(30));
    row.push_back(isa::kReturnWord);
    Builder b;
    b.data(kS, 0x60000, pattern(kS, 3));
    b.data(kD, 0x71000, pattern(kD, 3));
    b.exchange({{kS, sender()}, {kD, row}});
    Started run(b);
    const bool clash = at != 49 && at != 50 && at != 61;
    EXPECT_EQ(run.fault(), clash ? "element-clash" : "none") << at << ": " << run.text();
    if (run.result.fault) {
      EXPECT_EQ(run.result.fault->tile, kD);
    }
  }
}

TEST(Fault, RowFetchClash) {
  expect_phase({"row-fetch-clash", kD}, {{kS, sender()}, {kD, receiver(0x7FF00)}});
  expect_phase({"row-fetch-clash", kS}, {{kS, sender(kRows + 0x100)}, {kD, receiver()}});
}

TEST(Fault, EmptyMuxWindow) {
  const std::map<std::uint32_t, Words> late{{kS, sender()}, {kD, receiver(0x70000, 4)}};
  expect_phase({"empty-mux-window", kD}, late);
  expect_phase({"empty-mux-window", kD}, {{kD, receiver()}});                               // inactive sender
  expect_phase({"empty-mux-window", kD}, {{kS, sender(0x60000, 3, 2)}, {kD, receiver()}});  // other direction
  expect_phase({"empty-mux-window", kD},
               {{kD, {isa::delayxpic(1, 0, 0x600), isa::delay(9), isa::kReturnWord}}});
  Builder b;
  b.data(kS, 0x60000, pattern(kS, 3));
  b.exchange(late);
  Started run(b, {.lenient = true});
  EXPECT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, kD, 0x70000, 4), join(pattern(kS, 3), {0}));
}

TEST(Fault, WidthMismatch) {
  expect_phase({"width-mismatch", kS}, {{kS, sender(0x60000, 3, 5)}, {kD, receiver()}});
  expect_phase({"width-mismatch", kD}, {{kS, sender()}, {kD, {isa::delayxpic(1, 1, kS), isa::kReturnWord}}});
  expect_phase({"width-mismatch", kD}, {{kS, sender()}, {kD, {isa::delaypic(1, 1, 1), isa::kReturnWord}}});
}

TEST(Fault, PointerOutOfRange) {
  expect_phase({"pointer-out-of-range", kD}, {{kS, sender()}, {kD, receiver(0xE8000 - 8)}});
  expect_phase({"pointer-out-of-range", kD}, {{kS, sender()}, {kD, receiver(0)}});
  expect_words("pointer-out-of-range", {isa::setzi(3, 0xE8000), isa::st32(2, 3, 15, 0)});
}

TEST(Fault, SendOutOfRange) {
  expect_phase({"send-out-of-range", kS}, {{kS, sender(0xE8000 - 8)}, {kD, receiver()}});
  expect_phase({"send-out-of-range", kS},  // longer than a message can be
               {{kS, {isa::send(64, 0x24000, 1), isa::sendoff(4085, 0, 1), isa::kReturnWord}}});
}

TEST(Fault, Unaligned) {
  const isa::TwoWords pair = isa::sendpicp(3, 0, 0, 0, isa::kMuxNeutral, 0x1C000);
  expect_phase({"unaligned", kD}, {{kD, {isa::delay(3), pair.word0, pair.word1, isa::kReturnWord}}});
  expect_words("unaligned", {isa::setzi(3, 0x60002), isa::ld32(2, 3, 15, 0)});
  expect_fault({"unaligned", kD}, [](Builder& b) {  // base registers hold multiples of 4
    const std::uint32_t row = b.row(kD, {isa::delay(1), isa::kReturnWord});
    for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
      Words call = t == kD ? Builder::active_call(row) : Builder::inactive_call();
      if (t == kD) call[0] = isa::setzi(8, 0x70002);
      b.emit(t, call);
    }
  });
}

TEST(Fault, StoreAfterRowEnd) {
  Words row = receiver();
  row[3] = isa::delay(2);  // ends at 55; the last store is at 55
  expect_phase({"store-after-row-end", kD}, {{kS, sender()}, {kD, row}});
  row[3] = isa::delay(3);
  Builder b;
  b.data(kS, 0x60000, pattern(kS, 3));
  b.exchange({{kS, sender()}, {kD, row}});
  EXPECT_EQ(Started(b).fault(), "none");
}

TEST(Fault, BadDcount) {
  expect_fault({"bad-dcount", kD}, [](Builder& b) {
    const std::uint32_t row = b.row(kD, {isa::delay(1), isa::kReturnWord});
    for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
      Words call = t == kD ? Builder::active_call(row) : Builder::inactive_call();
      if (t == kD) call[4] = isa::setzi(8, 2);
      b.emit(t, call);
    }
  });
}

TEST(Fault, WorkersBusy) {
  expect_words("workers-busy", {isa::runall(0, 15), isa::runall(0, 15)});
  expect_words("workers-busy", join({isa::runall(0, 15)}, Builder::kernel_call(Code::Fill, {0x70000, 64})));
  expect_fault({"workers-busy", kD}, [](Builder& b) {  // no barrier between kernel and row
    const std::uint32_t row = b.row(kD, {isa::delay(1), isa::kReturnWord});
    b.emit(kD, Builder::kernel_call(Code::Fill, {0x70000, 64}));
    for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
      Words call = t == kD ? Builder::active_call(row) : Builder::inactive_call();
      if (t == kD) call[3] = isa::setzi(7, 0);
      b.emit(t, call);
    }
  });
}

TEST(Fault, BarrierMismatch) {
  expect_words("barrier-mismatch", {isa::trap(0)});
  expect_words("barrier-mismatch", {isa::sync(7)});
  expect_fault({"barrier-mismatch", 6}, [](Builder& b) {
    b.emit(6, Builder::completion());
    b.exchange({});
  });
  expect_fault({"barrier-mismatch", 0}, [](Builder& b) {  // the odd one is tile 0
    b.emit(0, {isa::sync(7)});
    b.exchange({});
  });
  // A tile that does not take part has nothing in its row.
  expect_fault({"barrier-mismatch", 8}, [](Builder& b) {
    const std::uint32_t row = b.row(8, {isa::delay(1), isa::kReturnWord});
    for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
      Words call = Builder::inactive_call();
      if (t == 8) call.back() = isa::call(10, row);
      b.emit(t, call);
    }
  });
}

TEST(Fault, StackOverflow) {
  expect_words("stack-overflow", {isa::add(11, 11, -0x104)});
  expect_words("stack-overflow", {isa::add(11, 11, 4)});
  expect_words("stack-overflow", {isa::st32(2, 11, 15, 0)});  // the empty stack's end
  Builder b;
  b.emit(6, {isa::add(11, 11, -0x100), isa::st32(2, 11, 15, 0), isa::st32(2, 11, 15, 63)});
  EXPECT_EQ(Started(b).fault(), "none");
}

TEST(Fault, StepLimit) {
  Builder b;
  b.image.step_limit = 30'000;
  b.emit(6, {isa::bri(b.pc(6))});
  EXPECT_EQ(Started(b).fault(), "step-limit");
  Builder forever;  // all tiles meet again and again
  forever.image.step_limit = 30'000;
  const std::uint32_t loop = forever.pc(0);
  forever.exchange({});
  forever.all({isa::bri(loop)});
  EXPECT_EQ(Started(forever).fault(), "step-limit");
}

TEST(Fault, HostLimit) {
  const auto run = [](std::array<std::uint32_t, 4> d, package::HostPiece piece, bool called) {
    Builder b;
    b.image.bindings = {{"w", package::BindingKind::Weight, "f16", 0, {4096}, 8192, {}}};
    b.image.initialize = {{true, {piece}}};
    std::map<std::uint32_t, std::array<std::uint32_t, 4>> descriptors;
    if (called) descriptors[4] = d;
    b.host_batch(descriptors);
    return Started(b, {}, 1, {std::vector<std::uint8_t>(8192)}).fault();
  };
  const package::HostPiece piece{4, 0x70000, 16, 0, 0};
  EXPECT_EQ(run({0, 0x70000, 16, 4096}, piece, true), "none");
  EXPECT_EQ(run({0, 0x70000, 16, 4096}, piece, false), "host-limit");  // passes its batch
  EXPECT_EQ(run({1, 0x70000, 16, 4096}, piece, true), "host-limit");   // direction
  EXPECT_EQ(run({0, 0x70004, 16, 4096}, piece, true), "host-limit");   // address
  EXPECT_EQ(run({0, 0x70000, 12, 4096}, piece, true), "host-limit");   // bytes
  EXPECT_EQ(run({0, 0x70000, 16, 8192}, piece, true), "host-limit");   // arena slot
  EXPECT_EQ(run({0, 0x70000, 4100, 4096}, {4, 0x70000, 4100, 0, 0}, true), "host-limit");
  EXPECT_EQ(run({0, 0x57FF8, 16, 4096}, {4, 0x57FF8, 16, 0, 0}, true), "host-limit");  // aperture
  EXPECT_EQ(run({0, 0xE7FF8, 16, 4096}, {4, 0xE7FF8, 16, 0, 0}, true), "host-limit");  // memory
  EXPECT_EQ(run({0, 0x70000, 16, 4096}, {5, 0x70000, 16, 0, 0}, true), "host-limit");  // another tile's piece
}

// Of several faults the one with the lowest cycle is reported, then the lowest tile.
TEST(Fault, LowestCycleThenTile) {
  expect_fault({"unknown-instruction", 9}, [](Builder& b) {
    b.emit(5, {isa::setzi(2, 0), 0});
    b.emit(9, {0});
    b.emit(11, {0});
  });
}

}  // namespace
}  // namespace tw::sim::testing
