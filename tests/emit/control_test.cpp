// Supervisor programs of tiny hand-made tile programs against the words of hardware.md 3.8 and 4.2.
#include "emit/control.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::emit {
namespace {

using Words = std::vector<std::uint32_t>;

// Tile 0 (physical 0) copies inside a Repeat through an iterated buffer and sends one word to tile 1.
struct Sample {
  tile::Program program;
  tile::Addresses addresses;
  std::uint32_t code = 0;
};

tile::Buffer buffer(std::uint32_t tile, std::uint32_t bytes, std::uint32_t members) {
  tile::Buffer b;
  b.tile = TileId(tile);
  b.bytes = bytes;
  b.members = members;
  b.first = 0;
  b.last = tile::kForever;
  return b;
}

Sample repeat_sample() {
  Sample s;
  s.program.buffers = {buffer(0, 0x1200, 27), buffer(0, 48, 1), buffer(1, 48, 1)};
  s.addresses.of = {0x84000, 0x60000, 0x60000};
  s.program.specs = {{kernel::Code::CopyU64, {}}};
  tile::Call call;
  call.tile = TileId(0);
  call.args[0] = {BufferId(1), 0};
  call.args[1] = {BufferId(0), 0x40};
  call.args[2] = {BufferId(), 1};
  call.args[3] = {BufferId(), 0};
  s.program.calls = {call};
  tile::Phase phase;
  phase.iterations = 27;
  phase.transfers = {{BufferId(1), 0, 1, 0, 1}};
  phase.receivers = {{BufferId(2), 0}};
  s.program.phases = {phase};
  s.program.paths = {"op"};
  tile::Step begin, compute, exchange, end;
  begin.kind = tile::StepKind::RepeatBegin;
  begin.count = 27;
  compute.call_count = 1;
  exchange.kind = tile::StepKind::Exchange;
  end.kind = tile::StepKind::RepeatEnd;
  s.program.steps = {begin, compute, exchange, end};
  return s;
}

struct Built {
  Device device = c600();
  Runtime runtime;
  HostPlan host;
  std::vector<TileRows> rows;
  std::vector<TileWork> work;
  Words tile0, tile9;
};

Built build(const Sample& s) {
  Built b;
  b.runtime = make_runtime(b.device, s.program);
  b.host = host_plan(s.program, s.addresses);
  const auto problem = tile::exchange_problem(s.program, s.program.phases[0], s.addresses);
  const auto encoded = exchange::encode(b.device, exchange::schedule(b.device, problem, {}));
  b.rows = build_rows(b.device, {encoded}, {27});
  ControlContext context{b.device, s.program, b.runtime, b.host, &s.addresses, &b.rows, 0x6C000,
                         {},       {},        {},        {}};
  fill_slots(context);
  b.work = tile_work(b.device, s.program);
  b.tile0 = tile_program(context, 0, b.work[0]);
  b.tile9 = tile_program(context, 9, b.work[9]);
  return b;
}

bool contains(const Words& words, const Words& part) {
  return std::search(words.begin(), words.end(), part.begin(), part.end()) != words.end();
}

// "count 27, one pointer 0x84000" of hardware.md 4.2, word for word.
TEST(Control, RepeatPrologueAndPointerStep) {
  const Built b = build(repeat_sample());
  EXPECT_TRUE(contains(b.tile0, {0x22BBFFF0, 0x1900001B, 0x4FB0F000, 0x19084000, 0x4FB0F001}));
  EXPECT_TRUE(contains(b.tile0, {0x01B0F001, 0x22001200, 0x4FB0F001, 0x01B0F000, 0x2200FFFF, 0x4FB0F000}));
  EXPECT_TRUE(contains(b.tile0, {0x43000000, 0x22BB0010})) << "br m0; add m11,16";
}

TEST(Control, IteratedArgumentsAreLoadedFromTheFrame) {
  const Built b = build(repeat_sample());
  const std::uint32_t kernel = b.runtime.kernel_of_spec[0];
  EXPECT_TRUE(contains(b.tile0, {isa::setzi(2, 0x60000), isa::ld32(3, 11, 15, 1), isa::add(3, 3, 0x40),
                                 isa::setzi(4, 1), isa::setzi(5, 0), isa::call(10, kernel)}));
}

// The inactive sequence of 3.8 (row word aside) and the active one.
TEST(Control, ExchangeSequences) {
  const Built b = build(repeat_sample());
  EXPECT_TRUE(contains(b.tile9,
                       {0x19800000, 0x438080A4, 0x43F080A7, 0x40C00000, 0x41800001, isa::call(10, 0x6C000)}));
  EXPECT_TRUE(contains(
      b.tile0, {0x19800000, 0x438080A4, 0x43F080A7, isa::call(7, b.runtime.worker_barrier), 0x19800001,
                0x438080A6, 0x41800003, isa::call(10, 0x6C000 + b.rows[0].uses[0].row)}));
}

TEST(Control, SizesAreKnownBeforeAddresses) {
  const Sample s = repeat_sample();
  const Built b = build(s);
  ControlContext sizing{b.device, s.program, b.runtime, b.host, nullptr, nullptr, 0, {}, {}, {}, {}};
  fill_slots(sizing);
  for (const std::uint32_t t : {0U, 2U, 9U})
    EXPECT_GE(tile_program(sizing, t, b.work[t]).size(), t == 0 ? b.tile0.size() : b.tile9.size());
}

// Addresses have 20 bits, more than a tile has memory: such a program does not fit, whatever else.
TEST(Control, ProgramsBeyondAllAddressesDoNotFit) {
  Sample s = repeat_sample();
  const tile::Step compute = s.program.steps[1];
  s.program.steps.insert(s.program.steps.begin() + 1, 100'000, compute);
  try {
    build(s);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Code);
    ASSERT_TRUE(e.capacity.has_value());
    EXPECT_GT(e.capacity->missing_bytes, 0U);
  }
}

// A moving sender: its base slot stands behind the pointers and the row runs with OUTGOING_BASE = m6.
TEST(Control, MovingSendersLoadTheBase) {
  Sample s = repeat_sample();
  s.program.phases[0].transfers[0].source = BufferId(0);
  const Built b = build(s);
  ASSERT_EQ(b.work[0].bases, (std::vector<std::uint32_t>{0x1200}));
  ASSERT_EQ(b.rows[0].uses[0].base_stride, 0x1200U);
  EXPECT_TRUE(contains(b.tile0, {isa::ld32(6, 11, 15, 2), 0x19800000, 0x438080A4, 0x436080A7}));
  EXPECT_TRUE(contains(b.tile0, {isa::ld32(0, 11, 15, 2), isa::add(0, 0, 0x1200), isa::st32(0, 11, 15, 2)}));
}

TEST(Control, BootJumpsToTheProgram) {
  const Built b = build(repeat_sample());
  const auto& bytes = b.runtime.bytes;
  Words words;
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4)
    words.push_back(bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 |
                    static_cast<std::uint32_t>(bytes[i + 3]) << 24);
  EXPECT_TRUE(contains(words, {isa::setzi(0, b.runtime.program), isa::br(0)}));
  EXPECT_EQ(b.runtime.entry, b.device.code_base);
  EXPECT_EQ(b.runtime.program % 8, 0U);
}

}  // namespace
}  // namespace tw::emit
