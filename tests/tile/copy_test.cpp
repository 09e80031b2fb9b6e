#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "../tensor/oracle.h"
#include "base/error.h"
#include "machine.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

using plan::Role;
using tensor::Order;
using tensor::Precision;
using tensor::TensorType;
using testing::Machine;
using testing::Sketch;

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i % 2000 + 1);
  return v;
}

// True when some element has no aligned word of its own on both sides: then a copy must be refused.
bool word_aligned(const TensorType& dst, const TensorType& src) {
  const tensor::ResolvedLayout to(dst), from(src);
  for (std::uint32_t t = 0; t < to.owners(); ++t)
    for (const tensor::Run& r :
         tensor::runs_with_padding(to, t, tensor::identity_map(dst.shape.size()), from))
      if ((r.src_offset | r.dst_offset | r.bytes) % 4 != 0) return false;
  return true;
}

RC_GTEST_PROP(Copy, every_shard_holds_its_image, (std::uint64_t seed)) {
  tensor::oracle::Generator gen(seed);
  const Precision precision = gen.pick(0, 2) == 0 ? Precision::F16 : Precision::F32;
  tensor::Shape shape = gen.shape();
  if (precision == Precision::F16) shape.back() = (shape.back() + 1) / 2 * 2;
  const TensorType src = gen.type(shape, precision), dst = gen.type(shape, precision);
  RC_PRE(src.layout.tiling.tile_count <= 64 && dst.layout.tiling.tile_count <= 64);
  Sketch sketch;
  const TensorId from = sketch.add("from", src, Role::Parameter, gen.pick(0, 3));
  const TensorId to = sketch.add("to", dst, Role::Activation, gen.pick(0, 3));
  sketch.step(plan::Copy{to, from, tensor::identity_map(shape.size()), true});
  if (!word_aligned(dst, src)) {
    RC_ASSERT_THROWS_AS(lower(sketch.plan, {}, 1), Error);
    return;
  }
  const Program program = lower(sketch.plan, {}, 1);
  RC_ASSERT(verify(program).empty());
  RC_ASSERT(print(program) == print(lower(sketch.plan, {}, 3)));
  const std::vector<float> values = counting(tensor::elements(shape));
  Machine machine(program);
  machine.upload(program.weights.at(0), testing::images(src, values));
  machine.run();
  const tensor::ResolvedLayout layout(dst);
  for (std::uint32_t t = 0; t < layout.owners(); ++t) {
    const std::vector<std::uint8_t> want = tensor::pack_shard(layout, t, values);
    for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& b = program.buffers[i];
      if (b.tensor != to || b.tile.value != sketch.plan.at(to).owners.tile_of(t)) continue;
      const std::uint8_t* got = machine.memory(BufferId(i));
      RC_ASSERT(std::vector<std::uint8_t>(got, got + want.size()) == want);
    }
  }
}

TensorType row_tensor(tensor::Shape shape, std::uint32_t owners, std::uint32_t replicas = 1) {
  TensorType type{std::move(shape), {Precision::F16, 0}, {}};
  type.layout.tiling.tile_count = owners * replicas;
  type.layout.tiling.replicas = replicas;
  type.layout.tiling.axes = {{.axis = 0, .parts = owners}};
  return type;
}

TEST(Copy, replicas_share_one_multicast_and_stay_local_where_the_source_is) {
  Sketch sketch;
  const TensorId from = sketch.add("from", row_tensor({4, 8}, 4), Role::Input);
  const TensorId to = sketch.add("to", row_tensor({4, 8}, 1, 4), Role::Activation);
  sketch.plan.inputs = {from};
  sketch.step(plan::Copy{to, from, tensor::identity_map(2), false});
  const Program program = lower(sketch.plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  ASSERT_EQ(program.phases.size(), 1U);
  ASSERT_EQ(program.phases[0].transfers.size(), 4U);
  for (const Transfer& t : program.phases[0].transfers) {
    EXPECT_EQ(t.receiver_count, 3U);
    EXPECT_EQ(t.words, 4U);
  }
  ASSERT_EQ(program.calls.size(), 4U);  // the local row of each tile
  EXPECT_EQ(program.specs[program.calls[0].spec].code, kernel::Code::CopyU32);
  EXPECT_EQ(fragments_per_tile(program, 4), (std::vector<std::uint32_t>{4, 4, 4, 4}));
  EXPECT_EQ(program.buffers[0].first, 0U);
  EXPECT_EQ(program.buffers[0].last, 2U);  // exchange is event 1, the local copies event 2
}

TEST(Copy, source_replicas_take_turns) {
  Sketch sketch;
  const TensorId from = sketch.add("from", row_tensor({8, 8}, 1, 2), Role::Input);
  const TensorId to = sketch.add("to", row_tensor({8, 8}, 8), Role::Activation, 8);
  sketch.plan.inputs = {from};
  sketch.step(plan::Copy{to, from, tensor::identity_map(2), false});
  const Program program = lower(sketch.plan, {}, 1);
  std::map<std::uint32_t, std::uint32_t> words;
  for (const Transfer& t : program.phases.at(0).transfers) words[t.source.value] += t.words;
  EXPECT_EQ(words.size(), 2U);
  for (const auto& [buffer, sent] : words) EXPECT_EQ(sent, 16U);
}

TEST(Copy, independent_neighbours_of_one_operation_share_a_phase) {
  Sketch s;
  const auto map = tensor::identity_map(2);
  const TensorId a = s.add("a", row_tensor({8, 8}, 4), Role::Input),
                 b = s.add("b", row_tensor({8, 8}, 4), Role::Input);
  const TensorId x = s.add("x", row_tensor({8, 8}, 2), Role::Activation, 9);
  const TensorId y = s.add("y", row_tensor({8, 8}, 2), Role::Activation, 2);
  const TensorId z = s.add("z", row_tensor({8, 8}, 8), Role::Output);
  s.plan.inputs = {a, b};
  s.plan.outputs = {z};
  s.step(plan::Copy{x, a, map, true}, "op");
  s.step(plan::Copy{y, b, map, true}, "op");   // shares the phase
  s.step(plan::Copy{z, x, map, true}, "op");   // reads x: a phase of its own
  s.step(plan::Copy{x, b, map, true}, "op");   // overwrites what the last one reads
  s.step(plan::Copy{y, a, map, true}, "two");  // another operation
  const Program program = lower(s.plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  EXPECT_EQ(program.phases.size(), 4U);
  EXPECT_EQ(program.phases[0].transfers.size(), 4U + 3U);  // one row pair of b is on its tile already
}

TEST(Copy, sub_word_runs_name_both_tensors) {
  Sketch sketch;
  const TensorId from = sketch.add("narrow", row_tensor({4, 3}, 4), Role::Input);
  const TensorId to = sketch.add("whole", row_tensor({4, 3}, 1), Role::Activation);
  sketch.plan.inputs = {};
  sketch.plan.tensors[from.value].role = Role::Activation;
  sketch.step(plan::Copy{to, from, tensor::identity_map(2), false});
  try {
    lower(sketch.plan, {}, 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::SubWord);
    EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("narrow"), ::testing::HasSubstr("whole")));
  }
}

TEST(Copy, zero_padding_travels_with_its_panels) {
  // Keys packed on one tile (Row to AR) and sent to two others: one piece each, and nothing left to clear.
  TensorType rows{{20, 24}, {Precision::F16, 0}, {}};
  TensorType packed = rows;
  packed.layout.order.kind = Order::AmpRight;
  packed.layout.tiling.axes = {{.axis = 0, .block = 16, .padding = tensor::Padding::Zero},
                               {.axis = 1, .block = 16, .padding = tensor::Padding::Zero}};
  TensorType sent = packed;
  sent.layout.tiling.tile_count = sent.layout.tiling.replicas = 2;
  for (const bool from_host : {false, true}) {
    Sketch s;
    const TensorId in = s.add("in", rows, Role::Input),
                   keys = s.add("keys", packed, from_host ? Role::Input : Role::Operand);
    const TensorId out = s.add("out", sent, Role::Operand, 1);
    s.plan.inputs = {in};
    if (from_host) s.plan.inputs.push_back(keys);  // the host writes elements only: the padding is not zero
    plan::Local pack;
    pack.kind = plan::LocalKind::Reorder;
    pack.inputs = {in};
    pack.outputs = {keys};
    if (!from_host) s.step(pack);
    s.step(plan::Copy{out, keys, tensor::identity_map(2), true});
    const Program program = lower(s.plan, {}, 1);
    EXPECT_THAT(verify(program), ::testing::IsEmpty());
    EXPECT_EQ(program.phases.at(0).transfers.size() == 1, !from_host);
    EXPECT_EQ(program.calls.size() == 1, !from_host);  // the pack alone, or clears
  }
}

TEST(Clears, leave_out_what_runs_write) {
  const tensor::ByteRange padding[] = {{0, 16}, {32, 64}, {100, 104}};
  const tensor::Run written[] = {{0, 0, 8, 28}, {0, 0, 48, 4}, {0, 0, 60, 60}};
  EXPECT_EQ(uncovered(padding, written), (std::vector<tensor::ByteRange>{{0, 8}, {36, 48}, {52, 60}}));
}

TEST(Clears, join_across_small_gaps_and_round_outward) {
  const tensor::ByteRange padding[] = {{4, 6}, {500, 512}, {1100, 1102}};
  EXPECT_EQ(clear_ranges(padding), (std::vector<tensor::ByteRange>{{0, 512}, {1096, 1104}}));
}

// Calls for local runs, as "code args...".
std::vector<std::string> calls_for(std::vector<LocalRun> runs) {
  Sketch sketch;
  TensorType type{{65536}, {Precision::F32, 0}, {}};
  sketch.add("a", type, Role::Input);
  sketch.add("b", type, Role::Output);
  sketch.plan.inputs = {TensorId(0)};
  sketch.plan.outputs = {TensorId(1)};
  Lowering lowering(sketch.plan, 1);
  for (LocalRun& r : runs) r.tile = TileId(0), r.dst = BufferId(1), r.src = BufferId(0);
  copy_calls(lowering, runs);
  lowering.flush();
  lowering.set_path("");
  lowering.finish();
  std::vector<std::string> result;
  for (const Call& c : lowering.program.calls) {
    const kernel::Kernel* k = kernel::find(lowering.program.specs[c.spec].code);
    std::string text = k->name;
    for (std::uint32_t i = 0; i < k->arguments; ++i) text += " " + std::to_string(c.args[i].value);
    result.push_back(text);
  }
  return result;
}
LocalRun run(std::uint32_t dst, std::uint32_t src, std::uint32_t bytes) {
  LocalRun r;
  r.dst_offset = dst, r.src_offset = src, r.bytes = bytes;
  return r;
}

TEST(CopyCalls, follow_the_merge_rule) {
  using ::testing::ElementsAre;
  EXPECT_THAT(calls_for({run(0, 0, 48)}), ElementsAre("CopyU64 0 0 1 0"));
  EXPECT_THAT(calls_for({run(8, 16, 104)}), ElementsAre("CopyU64 8 16 2 1"));
  EXPECT_THAT(calls_for({run(0, 0, 40)}), ElementsAre("CopyU32 0 0 10"));
  EXPECT_THAT(calls_for({run(0, 4, 48)}), ElementsAre("CopyU32 0 4 12"));
  // Equal runs at constant strides.
  EXPECT_THAT(calls_for({run(0, 0, 32), run(64, 32, 32), run(128, 64, 32)}),
              ElementsAre("CopyStrided64 0 0 4 3 32 64"));
  EXPECT_THAT(calls_for({run(0, 4, 32), run(64, 36, 32)}), ElementsAre("CopyStrided32 0 4 8 2 32 64"));
  // Few rows, many bytes, all aligned: contiguous calls.
  EXPECT_THAT(calls_for({run(0, 0, 512), run(1024, 512, 512)}),
              ElementsAre("CopyU64 0 0 10 4", "CopyU64 1024 512 10 4"));
  // A change of stride or length ends a call.
  EXPECT_THAT(calls_for({run(0, 0, 32), run(64, 32, 32), run(120, 64, 32)}),
              ElementsAre("CopyStrided64 0 0 4 2 32 64", "CopyU32 120 64 8"));
  EXPECT_THAT(calls_for({run(0, 64, 32), run(64, 0, 32)}), ElementsAre("CopyU32 0 64 8", "CopyU32 64 0 8"));
}

}  // namespace
}  // namespace tw::tile
