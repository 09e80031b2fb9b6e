// Worked rows of hardware.md 3.10, their deliveries and horizons, and data dependences inside a phase.
#include <gtest/gtest.h>

#include "builder.h"

namespace tw::sim::testing {
namespace {

constexpr std::uint32_t kPhase = 250;

TEST(WorkedRow, E1PointToPoint) {
  Builder b;
  const std::uint32_t s = phys(0), d = phys(1286);
  b.data(s, 0x60000, pattern(s, 3));
  b.exchange({{s, {0x40a00016, 0x784c0001, 0x43a00000}},
              {d, {0x64000000, 0x64008640, 0x6181c000, 0x40a00007, 0x43a00000}}});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, d, 0x70000, 3), pattern(s, 3));
  EXPECT_EQ(run.result.stats.exchange_cycles, 61 + kPhase);
  EXPECT_EQ(run.result.stats.exchange_phases, 1u);
  EXPECT_EQ(run.result.stats.messages, 1u);
  EXPECT_EQ(run.result.stats.words_moved, 3u);
  EXPECT_TRUE(run.machine.halted());
}

TEST(WorkedRow, E2Multicast) {
  Builder b;
  const std::uint32_t s = phys(0), d1 = phys(274), d2 = phys(1286);
  b.data(s, 0x60000, pattern(s, 3));
  const auto receiver = [](std::uint32_t pointer) {
    return Words{0x64000000, 0x64008640, pointer, 0x40a00007, 0x43a00000};
  };
  b.exchange(
      {{s, {0x40a00016, 0x784c0003, 0x43a00000}}, {d1, receiver(0x6181c000)}, {d2, receiver(0x6181c400)}});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, d1, 0x70000, 3), pattern(s, 3));
  EXPECT_EQ(words_at(run.machine, d2, 0x71000, 3), pattern(s, 3));
  EXPECT_EQ(run.result.stats.words_moved, 6u);
}

TEST(WorkedRow, E3CutOverAndCarriedPointer) {
  Builder b(1472);
  const std::uint32_t s1 = phys(10), s2 = phys(20), d = phys(100);
  b.data(s1, 0x60000, pattern(s1, 64));
  b.data(s2, 0x62000, pattern(s2, 64));
  b.exchange({{s1, {0x40a00019, 0x7fec0001, 0x43a00000}},
              {s2, {0x40a0004f, 0x7fec4001, 0x43a00000}},
              {d, {0x64000140, 0x61d9c000, 0x6400c280, 0x640fc640, 0x40a00040, 0x43a00000}}});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, d, 0x70000, 64), pattern(s1, 64));
  EXPECT_EQ(words_at(run.machine, d, 0x70100, 64), pattern(s2, 64));
  EXPECT_EQ(run.result.stats.exchange_cycles, 194 + kPhase);
}

TEST(WorkedRow, E4FullDuplex) {
  Builder b(1472);
  const std::uint32_t s1 = phys(10), s2 = phys(20), d = phys(100), e = phys(500);
  b.data(s1, 0x60000, pattern(s1, 64));
  b.data(s2, 0x62000, pattern(s2, 64));
  b.data(d, 0x66000, pattern(d, 200));
  b.exchange({{s1, {0x40a00019, 0x7fec0001, 0x43a00000}},
              {s2, {0x40a0004f, 0x7fec4001, 0x43a00000}},
              {d,
               {0x64000140, 0x40a00037, 0x784cc001, 0x7079c000, 0x77700280, 0x7079c800, 0x77f00640,
                0x70004001, 0x43a00000}},
              {e, {0x64000104, 0x62d9d000, 0x641ac640, 0x40a00060, 0x43a00000}}});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, d, 0x70000, 64), pattern(s1, 64));
  EXPECT_EQ(words_at(run.machine, d, 0x72000, 64), pattern(s2, 64));
  EXPECT_EQ(words_at(run.machine, e, 0x74000, 200), pattern(d, 200));
  EXPECT_EQ(run.result.stats.exchange_cycles, 298 + kPhase);
  EXPECT_EQ(run.result.stats.messages, 3u);
}

TEST(WorkedRow, E6LargestMessage) {
  Builder b(1472);
  const std::uint32_t s = phys(32), d = phys(0);
  b.data(s, 0x60000, pattern(s, 4148));
  b.exchange({{s, {0x7fec0001, 0x766fc001, 0x43a00000}},
              {d, {0x6400c400, 0x619a1000, 0x67ffc640, 0x40a00038, 0x43a00000}}});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, d, 0x84000, 4148), pattern(s, 4148));
  EXPECT_EQ(run.result.stats.exchange_cycles, 56 + 4148 + 5 + kPhase);
}

// The vendor's row of four 52-word messages with sendpicp pairs; senders start at S = X - tau - 1.
TEST(WorkedRow, VendorPairs) {
  Builder b(1472);
  const std::uint32_t d = 0;
  const std::array<std::uint32_t, 4> senders = {130, 192, 194, 256}, x = {1, 53, 105, 157},
                                     pointers = {0x14048, 0x15000, 0x16000, 0x17000};
  std::map<std::uint32_t, Words> rows{
      {d,
       {0x64000082, 0x40a00032, 0xf6600000, 0x03014048, 0xf6600000, 0x03095000, 0xf6600000, 0x04016000,
        0xf7200000, 0x19017000, 0x43a00000}}};
  for (std::size_t i = 0; i < senders.size(); ++i) {
    const auto start = static_cast<std::int64_t>(x[i]) - topology::tau(PhysId{senders[i]}, PhysId{d}) - 1;
    ASSERT_GT(start, 0);
    b.data(senders[i], 0x60000, pattern(senders[i], 52));
    rows[senders[i]] = {isa::delay(static_cast<std::uint32_t>(start)),
                        isa::send(52, 0x60000 / 4, topology::direction(PhysId{senders[i]}, PhysId{d})),
                        isa::kReturnWord};
  }
  b.exchange(rows);
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  for (std::size_t i = 0; i < senders.size(); ++i)
    // 0x58000, where the third message begins, is the completion word of the program.
    EXPECT_EQ(slice(words_at(run.machine, d, 4 * pointers[i], 52), 1, 51),
              slice(pattern(senders[i], 52), 1, 51))
        << i;
  EXPECT_EQ(run.result.stats.exchange_cycles, 266 + kPhase);
}

// Words without a pointer control go to INCOMING_BASE (hardware.md 3.3, point form).
TEST(Exchange, PointFormUsesIncomingBase) {
  Builder b;
  const std::uint32_t s = phys(0), d = phys(1286);
  b.data(s, 0x60000, pattern(s, 3));
  for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
    if (t == s)
      b.emit(t, Builder::active_call(b.row(t, {0x40a00086, isa::send(3, 0x18000, 1), 0x43a00000})));
    else if (t == d) {
      // The leading 0x641c0000 selects physical 0 at event 113; neutral at 116.
      Words call =
          Builder::active_call(b.row(t, {0x641c0000, 0x64008640, 0x61800000, 0x40a00007, 0x43a00000}));
      call[0] = isa::setzi(8, 0x70000);
      b.emit(t, call);
    } else
      b.emit(t, Builder::inactive_call());
  }
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, d, 0x70000, 3), pattern(s, 3));
}

// A reads what arrived before, in the same phase: 0 -> 64 -> 128, with the bytes of 64 overwritten
// afterwards.
struct Chain {
  std::uint32_t a = 0, m = 64, c = 128;  // neighbours in a column
  std::int64_t lambda_am = topology::lambda(PhysId{0}, PhysId{64});
};

TEST(Exchange, ForwardsInsideAPhase) {
  const Chain k;
  Builder b(1472);
  b.data(k.a, 0x60000, pattern(k.a, 40));
  b.data(k.m, 0x70000, pattern(k.m, 20));  // old bytes that the early send must still see
  const std::uint32_t n = 20;
  const auto mux_at = [](std::uint32_t s, std::uint32_t r, std::int64_t start) {
    return static_cast<std::uint32_t>(start + topology::tau(PhysId{s}, PhysId{r}) + 1);
  };
  // m sends its old words at event 40, receives into the same bytes from event 90 on, forwards them at event
  // 150.
  const std::int64_t start_a = 90 - k.lambda_am;
  ASSERT_GT(start_a, 0);
  const std::uint32_t x = mux_at(k.a, k.m, start_a);
  const std::uint32_t x1 = mux_at(k.m, k.c, 40), x2 = mux_at(k.m, k.c, 150);
  const auto dir = [](std::uint32_t s, std::uint32_t r) { return topology::direction(PhysId{s}, PhysId{r}); };
  const std::uint32_t item = 0x70000 / 4;
  ASSERT_LT(x, 40u);
  ASSERT_GT(x, 1u);
  Words row_m = {isa::delayxpic(x, 0, k.a), isa::delay(40 - x)};
  // Neutral falls inside or after the send at 40.
  const std::uint32_t neutral = x + n;
  ASSERT_GT(neutral, 41u);
  ASSERT_LT(neutral, 60u);
  row_m.push_back(isa::send(neutral - 1 - 40, item, dir(k.m, k.c)));
  row_m.push_back(isa::sendpic(60 - (neutral - 1), 0, isa::kMuxNeutral));
  row_m.push_back(isa::delaypic(30, 0, item));  // pointer at 90
  row_m.push_back(isa::delay(60));
  row_m.push_back(isa::send(n, item, dir(k.m, k.c)));
  row_m.push_back(isa::kReturnWord);
  const std::uint32_t p1 = x1 + 52 + 2 * (k.c >> 6);
  ASSERT_LT(x1 + n, p1);
  ASSERT_LT(p1, x2);
  const Words row_c = {isa::delayxpic(x1, 0, k.m),
                       isa::delayxpic(n, 0, isa::kMuxNeutral),
                       isa::delaypic(p1 - x1 - n, 0, 0x60000 / 4),
                       isa::delayxpic(x2 - p1, 0, k.m),
                       isa::delayxpic(n, 0, isa::kMuxNeutral),
                       isa::delay(120),
                       isa::kReturnWord};
  b.exchange({{k.a,
               {isa::delay(static_cast<std::uint32_t>(start_a)), isa::send(n, 0x60000 / 4, dir(k.a, k.m)),
                isa::kReturnWord}},
              {k.m, row_m},
              {k.c, row_c}});
  Started run(b);
  ASSERT_EQ(run.fault(), "none") << run.text();
  EXPECT_EQ(words_at(run.machine, k.m, 0x70000, n), pattern(k.a, n));
  EXPECT_EQ(words_at(run.machine, k.c, 0x60000, n), pattern(k.m, n)) << "read before the store";
  EXPECT_EQ(words_at(run.machine, k.c, 0x60000 + 4 * n, n), pattern(k.a, n)) << "read after the store";
}

// A multicast may come back to its source; a message whose only destination is its source is never delivered.
TEST(Exchange, Loopback) {
  for (const bool other : {true, false})
    for (const std::uint32_t control : {1u, 3u}) {
      Builder b;
      const std::uint32_t s = 0, d = 64;
      b.data(s, 0x60000, pattern(s, 3));
      const int tau = topology::tau(PhysId{s}, PhysId{s});
      ASSERT_LT(tau, 0);
      const std::uint32_t start = 50, x = static_cast<std::uint32_t>(static_cast<int>(start) + tau + 1);
      const std::uint32_t xd = start + static_cast<std::uint32_t>(topology::tau(PhysId{s}, PhysId{d}) + 1);
      std::map<std::uint32_t, Words> rows;
      // At row 0 the pointer is due at X + 52, behind the send of three words.
      rows[s] = {isa::delayxpic(x, 0, s),
                 isa::delayxpic(3, 0, isa::kMuxNeutral),
                 isa::delay(start - x - 3),
                 isa::send(3, 0x60000 / 4, control),
                 isa::delaypic(x + 52 - start - 3, 0, 0x80000 / 4),
                 isa::delay(9),
                 isa::kReturnWord};
      if (other)
        rows[d] = {isa::delayxpic(xd, 0, s), isa::delayxpic(3, 0, isa::kMuxNeutral),
                   isa::delaypic(51, 0, 0x80000 / 4), isa::delay(9), isa::kReturnWord};
      b.exchange(rows);
      Started run(b);
      EXPECT_EQ(run.fault(), other && control == 3 ? "none" : "empty-mux-window")
          << other << control << run.text();
      if (other && control == 3) {
        EXPECT_EQ(words_at(run.machine, s, 0x80000, 3), pattern(s, 3));
      }
    }
}

TEST(Exchange, UndefinedMarksTravelWithWords) {
  Builder b(1472);
  const std::uint32_t s = phys(0), d = phys(1286);
  b.data(s, 0x60004, {7});  // words 0 and 2 of the message were never written
  b.exchange({{s, {0x40a00016, 0x784c0001, 0x43a00000}},
              {d, {0x64000000, 0x64008640, 0x6181c000, 0x40a00007, 0x43a00000}}});
  b.emit(d, {isa::setzi(4, 0x70004), isa::ld32(3, 4, 15, 0), isa::setzi(4, 0x70008), isa::ld32(3, 4, 15, 0)});
  Started run(b);
  EXPECT_EQ(run.fault(), "undefined-read");
  ASSERT_TRUE(run.result.fault);
  EXPECT_EQ(run.result.fault->address, 0x70008u);
  EXPECT_EQ(run.result.fault->tile, d);
  EXPECT_EQ(run.result.fault->phase, 1u);
}

TEST(Exchange, SameResultForAnyThreadCount) {
  std::vector<std::uint64_t> digests;
  for (const unsigned threads : {1u, 4u}) {
    Builder b;
    const std::uint32_t s = phys(0), d = phys(1286);
    b.data(s, 0x60000, pattern(s, 3));
    b.exchange({{s, {0x40a00016, 0x784c0001, 0x43a00000}},
                {d, {0x64000000, 0x64008640, 0x6181c000, 0x40a00007, 0x43a00000}}});
    Started run(b, Options{.threads = threads});
    digests.push_back(run.machine.written_map_digest());
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace tw::sim::testing
