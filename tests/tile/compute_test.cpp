#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "machine.h"
#include "target/topology.h"
#include "tile/problems.h"

namespace tw::tile {
namespace {

using plan::LocalKind;
using plan::Role;
using tensor::AxisTiling;
using tensor::MemoryClass;
using tensor::Order;
using tensor::Padding;
using tensor::Precision;
using tensor::TensorType;
using testing::Machine;
using testing::Sketch;

TensorType make(tensor::Shape shape, Precision precision, tensor::ElementOrder order, std::uint32_t tiles,
                std::uint32_t replicas, std::vector<AxisTiling> axes,
                MemoryClass memory = MemoryClass::Standard) {
  return {std::move(shape), {precision, 0}, {order, {tiles, replicas, std::move(axes), 0}, memory}};
}

// Small integers that F143 holds exactly.
std::vector<float> small(std::size_t n, std::uint32_t seed) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>((i * 7 + seed + i / 5) % 5) - 2.0F;
  return v;
}

struct Gemm {
  std::uint32_t rows = 5, inner = 80, cols = 40;  // K groups: 5 of 16, 3 of 32
  std::uint32_t Rp = 2, Cp = 3, Kp = 2;
  Precision precision = Precision::F16;
  std::uint32_t out_rotation = 0;
  std::uint32_t result_owners = 6;  // rows x columns of the result
};

// Left grid, right stage, partials, sum: compiler.md 3.2 on few tiles.
void check_gemm(const Gemm& g) {
  const std::uint32_t mk = g.precision == Precision::F8 ? 32 : 16;
  const std::uint32_t lk = ((g.inner + mk - 1) / mk + g.Kp - 1) / g.Kp * mk, tiles = g.Rp * g.Cp * g.Kp;
  Sketch sketch;
  const TensorType left = make({g.rows, g.inner}, g.precision, {Order::AmpLeft}, tiles, g.Cp,
                               {{.axis = 1, .parts = g.Kp, .block = lk, .padding = Padding::Zero},
                                {.axis = 0, .parts = g.Rp, .block = 2, .padding = Padding::Zero}});
  const TensorType right =
      make({g.inner, g.cols}, g.precision, {Order::BlockMajor, lk, 16}, tiles, g.Rp,
           {{.axis = 1, .parts = g.Cp, .block = 16, .padding = Padding::Zero, .stride = 1},
            {.axis = 0, .parts = g.Kp, .block = lk, .padding = Padding::Zero, .stride = g.Cp}},
           MemoryClass::Interleaved);
  TensorType partials =
      make({g.Kp, g.rows, g.cols}, Precision::F16, {Order::AmpLeft}, tiles, 1,
           {{.axis = 2, .parts = g.Cp, .block = 16, .padding = Padding::Zero, .stride = 1},
            {.axis = 0, .parts = g.Kp, .stride = g.Cp},
            {.axis = 1, .parts = g.Rp, .block = 2, .padding = Padding::Zero, .stride = g.Cp * g.Kp}},
           MemoryClass::Interleaved);
  const TensorType result = make({g.rows, g.cols}, Precision::F16, {Order::AmpLeft}, g.result_owners, 1,
                                 {{.axis = 1, .parts = g.Cp, .block = 16, .padding = Padding::Zero},
                                  {.axis = 0,
                                   .parts = g.result_owners / g.Cp,
                                   .block = 1,
                                   .shard_multiple = 2,
                                   .padding = Padding::Zero}});
  const TensorId x = sketch.add("x", left, Role::Parameter), w = sketch.add("w", right, Role::Parameter);
  const TensorId parts = sketch.add("parts", partials, Role::Partials);
  const TensorId out = sketch.add("out", result, Role::Activation, g.out_rotation);
  plan::Product product{.left = x, .right = w, .out = parts, .k_parts = g.Kp};
  sketch.step(product);
  sketch.step(plan::Sum{parts, out});
  const Program program = lower(sketch.plan, {}, 2);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  EXPECT_EQ(program.separate.size(), tiles);
  for (const auto& [a, b] : program.separate) {
    EXPECT_EQ(program.buffers[a.value].tail, g.precision == Precision::F8 ? 8U : 16U);
    EXPECT_EQ(program.buffers[b.value].tensor, parts);
  }
  const std::vector<float> xs = small(g.rows * g.inner, 1), ws = small(g.inner * g.cols, 3);
  Machine machine(program);
  machine.upload(program.weights[0], testing::images(left, xs));
  machine.upload(program.weights[1], testing::images(right, ws));
  machine.run();
  const std::vector<float> got =
      testing::values_of(machine, program, out, result, sketch.plan.at(out).owners);
  for (std::uint32_t r = 0; r < g.rows; ++r)
    for (std::uint32_t c = 0; c < g.cols; ++c) {
      float want = 0;
      for (std::uint32_t k = 0; k < g.inner; ++k) want += xs[r * g.inner + k] * ws[k * g.cols + c];
      EXPECT_EQ(got[r * g.cols + c], want) << r << "," << c;
    }
}

TEST(Product, split_k_grid_multiplies_f16) { check_gemm({}); }
TEST(Product, split_k_grid_multiplies_f8) { check_gemm({.inner = 96, .Kp = 3, .precision = Precision::F8}); }
TEST(Product, tail_of_k_is_padding) { check_gemm({.inner = 70, .precision = Precision::F8}); }
TEST(Sum, result_elsewhere_takes_every_part_remotely) { check_gemm({.out_rotation = 20}); }
TEST(Sum, result_on_more_owners_than_partials) { check_gemm({.rows = 8, .Rp = 2, .result_owners = 12}); }
TEST(Sum, result_on_fewer_owners) { check_gemm({.rows = 7, .result_owners = 3}); }

TEST(Sum, reads_the_held_part_in_place) {
  Sketch sketch;
  const TensorId parts =
      sketch.add("parts", make({3, 2, 16}, Precision::F16, {Order::AmpLeft}, 3, 1, {{.axis = 0, .parts = 3}}),
                 Role::Partials);
  const TensorId out =
      sketch.add("out", make({2, 16}, Precision::F16, {Order::AmpLeft}, 1, 1, {}), Role::Activation, 1);
  sketch.step(plan::Sum{parts, out});
  const Program program = lower(sketch.plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  ASSERT_EQ(program.calls.size(), 1U);
  const Call& c = program.calls[0];
  EXPECT_EQ(c.tile.value, 1U);
  EXPECT_EQ(program.buffers[c.args[1].buffer.value].tensor, parts);  // seed: the part on tile 1
  EXPECT_EQ(program.buffers[c.args[2].buffer.value].bytes, 2U * 64);
  EXPECT_EQ(c.args[3].value, 32U);
  EXPECT_EQ(c.args[4].value, 3U);
  EXPECT_EQ(c.args[5].value, 1U);
  EXPECT_EQ(program.phases[0].transfers.size(), 2U);
  EXPECT_EQ(program.phases[0].receivers[0].offset, 0U);   // part 0
  EXPECT_EQ(program.phases[0].receivers[1].offset, 64U);  // part 2
}

TEST(Product, several_streams_on_a_tile_are_refused) {
  Sketch sketch;
  const TensorId q =
      sketch.add("q", make({2, 4, 16}, Precision::F16, {Order::AmpLeft}, 1, 1, {}), Role::Activation);
  const TensorId k =
      sketch.add("k", make({2, 16, 16}, Precision::F16, {Order::AmpRight}, 1, 1, {}), Role::Activation);
  const TensorId s =
      sketch.add("s", make({2, 4, 16}, Precision::F16, {Order::AmpLeft}, 1, 1, {}), Role::Activation);
  sketch.step(plan::Product{.left = q, .right = k, .out = s, .right_transposed = true});
  EXPECT_THROW(lower(sketch.plan, {}, 1), Error);
}

// One Local step on two owners: bytes of the output against the host's encoding.
std::vector<float> run_local(const TensorType& in, const TensorType& out, LocalKind kind,
                             const std::vector<float>& x) {
  Sketch sketch;
  const TensorId from = sketch.add("in", in, Role::Parameter), to = sketch.add("out", out, Role::Activation);
  plan::Local local;
  local.kind = kind;
  local.inputs = {from};
  local.outputs = {to};
  sketch.step(local);
  const Program program = lower(sketch.plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  Machine machine(program);
  machine.upload(program.weights[0], testing::images(in, x));
  machine.run();
  const tensor::ResolvedLayout layout(out);
  for (std::uint32_t t = 0; t < layout.owners(); ++t) {
    const std::vector<std::uint8_t> want = tensor::pack_shard(layout, t, x);
    for (std::uint32_t i = 0; i < program.buffers.size(); ++i)
      if (program.buffers[i].tensor == to && program.buffers[i].tile.value == t) {
        const std::uint8_t* got = machine.memory(BufferId(i));
        EXPECT_EQ(std::vector<std::uint8_t>(got, got + want.size()), want) << to_string(out);
      }
  }
  return testing::values_of(machine, program, to, out, sketch.plan.at(to).owners);
}

TEST(Local, casts_and_reorders_write_whole_shards) {
  const std::vector<AxisTiling> rows = {{.axis = 1, .parts = 2}};
  const auto padded = [](std::uint32_t row_block, std::uint32_t col_block) {
    return std::vector<AxisTiling>{
        {.axis = 1, .parts = 2, .block = 2, .shard_multiple = row_block, .padding = Padding::Zero},
        {.axis = 2, .block = col_block, .padding = Padding::Zero}};
  };
  const auto shape = tensor::Shape{2, 20, 40};
  const std::vector<float> x = small(2 * 20 * 40, 2);
  const TensorType row = make(shape, Precision::F16, {Order::Row}, 2, 1, rows);
  const TensorType left = make(shape, Precision::F16, {Order::AmpLeft}, 2, 1, padded(1, 16));
  EXPECT_EQ(run_local(row, left, LocalKind::Reorder, x), x);
  EXPECT_EQ(run_local(left, row, LocalKind::Reorder, x), x);
  EXPECT_EQ(run_local(row, make(shape, Precision::F16, {Order::AmpRight}, 2, 1, padded(16, 16)),
                      LocalKind::Reorder, x),
            x);
  const TensorType block = make(shape, Precision::F16, {Order::BlockMajor, 16, 16}, 2, 1, padded(16, 16));
  EXPECT_EQ(run_local(row, block, LocalKind::Reorder, x), x);
  EXPECT_EQ(run_local(block, row, LocalKind::Reorder, x), x);
  const TensorType f8 = make(shape, Precision::F8, {Order::AmpLeft}, 2, 1, padded(1, 32));
  EXPECT_EQ(run_local(row, f8, LocalKind::Cast, x), x);
  EXPECT_EQ(run_local(left, f8, LocalKind::Cast, x), x);
  EXPECT_EQ(run_local(row, make(shape, Precision::F8, {Order::Row}, 2, 1, rows), LocalKind::Cast, x), x);
  EXPECT_THROW(run_local(block, f8, LocalKind::Cast, x), Error);
}

// Plans of every other kind bind calls that their kernels accept.
TEST(Local, kernels_accept_their_calls) {
  const std::vector<AxisTiling> rows = {{.axis = 0, .parts = 4}};
  Sketch s;
  const auto add = [&](const char* name, TensorType type) {
    return s.add(name, std::move(type), Role::Activation);
  };
  const auto row = [&](const char* name) {
    return add(name, make({10, 48}, Precision::F16, {Order::Row}, 4, 1, {{.axis = 0, .parts = 4}}));
  };
  const auto vector = [&](const char* name) {
    return add(name, make({48}, Precision::F16, {Order::Row}, 4, 4, {}));
  };
  const auto step = [&](LocalKind kind, std::vector<TensorId> in, std::vector<TensorId> out) {
    plan::Local l;
    l.kind = kind;
    l.inputs = std::move(in);
    l.outputs = std::move(out);
    l.epsilon = 1e-6F;
    l.scale = 0.125F;
    s.step(l);
    return &std::get<plan::Local>(s.plan.steps.back().action);
  };
  const TensorId x = row("x"), y = row("y"), z = row("z"), bias = vector("bias"), scale = vector("scale");
  step(LocalKind::Add, {x, bias}, {y});
  step(LocalKind::Add, {x, y}, {z});
  step(LocalKind::Gelu, {z}, {y});
  step(LocalKind::BiasGelu, {y, bias}, {z});
  step(LocalKind::LayerNorm, {z, scale, bias}, {x});
  const TensorId own =
      add("own", make({1, 10, 2}, Precision::F32, {Order::Row}, 4, 1, {{.axis = 1, .parts = 4}}));
  const TensorId all =
      add("all", make({2, 10, 2}, Precision::F32, {Order::Row}, 4, 1, {{.axis = 1, .parts = 4}}));
  step(LocalKind::Moments, {x}, {own});
  step(LocalKind::Apply, {x, all, scale, bias}, {z});
  const auto panels = [](std::uint32_t cols, std::uint32_t block) {
    return make({4, 7, cols}, Precision::F16, {Order::AmpLeft}, 4, 1,
                {{.axis = 0, .parts = 4}, {.axis = 2, .block = block, .padding = Padding::Zero}},
                MemoryClass::Interleaved);
  };
  const TensorId scores = add("scores", panels(25, 64)), weights = add("weights", panels(25, 64)),
                 pv = add("pv", panels(72, 16));
  const TensorId state =
      add("state", make({2, 4, 7}, Precision::F32, {Order::Row}, 4, 1, {{.axis = 1, .parts = 4}}));
  const TensorId out =
      add("out", make({4, 7, 72}, Precision::F16, {Order::Row}, 4, 1,
                      {{.axis = 0, .parts = 4}, {.axis = 2, .block = 16, .padding = Padding::Zero}}));
  step(LocalKind::Softmax, {scores}, {weights, state});
  const TensorId wide = add("wide", panels(130, 64)), wide_weights = add("wide weights", panels(130, 64));
  step(LocalKind::Softmax, {wide}, {wide_weights, state})->split = true;
  step(LocalKind::Merge, {pv, state}, {out});
  const Program program = lower(s.plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  const auto& calls = program.calls;
  const auto words = [&](kernel::Code code) {
    for (const Call& c : calls)
      if (program.specs[c.spec].code == code) return c;
    return Call{};
  };
  const auto value = [&](kernel::Code code, std::size_t i) { return words(code).args[i].value; };
  EXPECT_EQ(value(kernel::Code::Add, 3), 3U * 48);
  EXPECT_EQ(value(kernel::Code::Add, 4), 48U);
  EXPECT_EQ(value(kernel::Code::Gelu, 2), 3U * 48);
  EXPECT_EQ(value(kernel::Code::LayerNorm, 4), 3U);
  EXPECT_EQ(value(kernel::Code::Apply, 7), 2U);
  EXPECT_EQ(value(kernel::Code::Softmax, 4), 25U);
  EXPECT_EQ(value(kernel::Code::Softmax, 5), 64U);
  EXPECT_EQ(value(kernel::Code::Merge, 5), 72U);
  EXPECT_EQ(value(kernel::Code::Merge, 6), 80U);
  EXPECT_EQ(program.specs[words(kernel::Code::Softmax).spec].words,
            (std::vector<std::uint32_t>{0x3000}));  // 1/8
  EXPECT_EQ(program.specs[words(kernel::Code::Merge).spec].words, (std::vector<std::uint32_t>{3}));
  EXPECT_EQ(program.specs[words(kernel::Code::LayerNorm).spec].words,
            (std::vector<std::uint32_t>{0x358637BD}));  // 1e-6
}

struct Loop {
  Sketch sketch;
  TensorId input, weights, carried, here, total, output;
  TensorType type = make({8, 8}, Precision::F16, {Order::Row}, 4, 1, {{.axis = 0, .parts = 4}});
  Loop() {
    const TensorType home = make({8, 8}, Precision::F16, {Order::Row}, 2, 1, {{.axis = 0, .parts = 2}});
    input = sketch.add("input", type, Role::Input);
    weights = sketch.add("weights", home, Role::Parameter, 9);
    sketch.plan.tensors[weights.value].members = {"w0", "w1", "w2"};
    carried = sketch.add("carried", type, Role::Carried);
    here = sketch.add("here", type, Role::Operand);
    total = sketch.add("total", type, Role::Activation);
    output = sketch.add("output", type, Role::Output, 1);
    sketch.plan.inputs = {input};
    sketch.plan.outputs = {output};
    sketch.step(plan::Copy{carried, input, tensor::identity_map(2), false}, "start");
    Sketch body;
    body.step(plan::Copy{here, weights, tensor::identity_map(2), false}, "body/fetch");
    plan::Local add;
    add.kind = LocalKind::Add;
    add.inputs = {carried, here};
    add.outputs = {total};
    body.step(add, "body/add");
    body.plan.steps.back().checkpoint = total;
    body.step(plan::Copy{carried, total, tensor::identity_map(2), false}, "body/yield");
    sketch.step(plan::Repeat{3, body.plan.steps}, "loop");
    sketch.step(plan::Copy{output, carried, tensor::identity_map(2), false}, "end");
  }
};

TEST(Repeat, sequences_advance_with_the_iteration) {
  Loop loop;
  const Program program = lower(loop.sketch.plan, {}, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  ASSERT_EQ(program.weights.size(), 3U);
  EXPECT_EQ(program.weights[2].name, "w2");
  EXPECT_EQ(program.weights[2].member, 2U);
  Machine machine(program);
  const std::vector<float> x = small(64, 4);
  std::vector<float> want = x;
  for (std::uint32_t m = 0; m < 3; ++m) {
    const std::vector<float> w = small(64, 10 + 3 * m);
    machine.upload(program.weights[m], testing::images(loop.sketch.plan.at(loop.weights).type, w));
    for (std::size_t i = 0; i < 64; ++i) want[i] += w[i];
  }
  TensorType host = loop.type;
  host.layout = {};
  machine.upload(program.inputs.at(0), testing::images(host, x));
  machine.run();
  const std::vector<std::uint8_t> got = machine.download(program.outputs.at(0));
  EXPECT_EQ(got, testing::images(host, want));
}

TEST(Repeat, lifetimes_cover_the_span_of_what_crosses_it) {
  Loop loop;
  LowerOptions options;
  options.checkpoints = true;
  const Program program = lower(loop.sketch.plan, options, 1);
  EXPECT_THAT(verify(program), ::testing::IsEmpty());
  std::vector<StepKind> kinds;
  for (const Step& s : program.steps) kinds.push_back(s.kind);
  using enum StepKind;
  // start (local copies); Repeat: fetch, add, checkpoint, yield; end (rotated by one tile: all travel)
  EXPECT_THAT(kinds, ::testing::ElementsAre(Compute, RepeatBegin, Exchange, Compute, Checkpoint, Compute,
                                            RepeatEnd, Exchange));
  EXPECT_EQ(program.phases[0].iterations, 3U);
  EXPECT_EQ(program.phases[1].iterations, 1U);
  const auto life = [&](TensorId id) {
    for (const Buffer& b : program.buffers)
      if (b.tensor == id) return std::tuple{b.first, b.last, b.pinned};
    return std::tuple{0U, 0U, false};
  };
  EXPECT_EQ(life(loop.input), std::tuple(0U, 1U, true));
  EXPECT_EQ(life(loop.weights), std::tuple(0U, kForever, true));
  EXPECT_EQ(life(loop.carried), std::tuple(1U, 8U, false));
  EXPECT_EQ(life(loop.here), std::tuple(3U, 4U, false));
  EXPECT_EQ(life(loop.total), std::tuple(4U, 6U, false));
  EXPECT_EQ(life(loop.output), std::tuple(8U, kForever, true));
}

TEST(Problems, placement_sees_the_memory_map_and_the_sequences) {
  Loop loop;
  const Program program = lower(loop.sketch.plan, {}, 1);
  const Device device = Device{};
  const auto tiles = placement_problems(device, program, 20000, 0x8000);
  ASSERT_EQ(tiles.size(), 1472U);
  // 20,000 bytes of code and the guard take two elements from 0x5C000, rows two more.
  EXPECT_EQ(tiles[0].problem.free,
            (std::vector<place::Range>{{0x586E0, 0x5C000}, {0x6C000, 0x80000}, {0x80000, 0xE7BB0}}));
  EXPECT_EQ(tiles[0].problem.aperture, (std::vector<place::Range>{{0x50000, 0x58000}}));
  ASSERT_EQ(tiles[9].problem.requests.size(), 1U);
  EXPECT_EQ(tiles[9].problem.requests[0].bytes, 3U * 64);
  EXPECT_EQ(tiles[9].problem.requests[0].last, place::kForever);
  EXPECT_EQ(tiles[20].problem.requests.size(), 0U);
}

TEST(Problems, exchange_has_physical_tiles_and_strides) {
  Loop loop;
  const Program program = lower(loop.sketch.plan, {}, 1);
  Addresses addresses;
  for (std::uint32_t i = 0; i < program.buffers.size(); ++i) addresses.of.push_back(0x80000 + 0x1000 * i);
  const exchange::Problem p = exchange_problem(program, program.phases[0], addresses);
  EXPECT_EQ(p.iterations, 3U);
  ASSERT_EQ(p.transfers.size(), 4U);
  const Transfer& t = program.phases[0].transfers[1];
  EXPECT_EQ(p.transfers[1].source, topology::physical(TileId(9)));
  EXPECT_EQ(p.transfers[1].source_address, addresses.of[t.source.value] + 32);
  EXPECT_EQ(p.transfers[1].source_stride, 64U);
  EXPECT_EQ(p.transfers[1].words, 8U);
  EXPECT_EQ(p.receivers[p.transfers[1].first_receiver].tile, topology::physical(TileId(1)));
  const exchange::Problem last = exchange_problem(program, program.phases[1], addresses);
  EXPECT_EQ(last.transfers[0].source_stride, 0U);
}

TEST(Verify, finds_what_is_broken) {
  Loop loop;
  const Program good = lower(loop.sketch.plan, {}, 1);
  const auto broken = [&](auto&& change) {
    Program p = good;
    change(p);
    return !verify(p).empty();
  };
  EXPECT_FALSE(broken([](Program&) {}));
  EXPECT_TRUE(broken([](Program& p) { p.phases[0].transfers[0].words += 100; }));
  EXPECT_TRUE(broken([](Program& p) { p.phases[0].receivers[0].offset += 2; }));
  EXPECT_TRUE(broken([](Program& p) { p.phases[0].receivers[1] = p.phases[0].receivers[0]; }));
  EXPECT_TRUE(broken([](Program& p) { p.phases[0].iterations = 1; }));
  EXPECT_TRUE(broken([](Program& p) { p.buffers[0].last = 0, p.buffers[0].first = 0; }));
  EXPECT_TRUE(broken([](Program& p) { p.calls[0].args[0].value = 4096; }));
  EXPECT_TRUE(broken([](Program& p) { p.calls[0].tile = TileId(3); }));
  EXPECT_TRUE(broken([](Program& p) { p.inputs[0].slices[0].bytes += 64; }));
  EXPECT_TRUE(broken([](Program& p) { p.steps[0].call_count = 1; }));
  EXPECT_TRUE(broken([&](Program& p) {
    for (Buffer& b : p.buffers)
      if (b.tensor == loop.weights) b.members = 2;
  }));
}

TEST(Print, is_stable) {
  Sketch sketch;
  const TensorId a = sketch.add(
      "a", make({2, 8}, Precision::F16, {Order::Row}, 2, 1, {{.axis = 0, .parts = 2}}), Role::Input);
  const TensorId b = sketch.add("b", make({2, 8}, Precision::F16, {Order::Row}, 1, 1, {}), Role::Output);
  sketch.plan.inputs = {a};
  sketch.plan.outputs = {b};
  sketch.step(plan::Copy{b, a, tensor::identity_map(2), false}, "gather");
  EXPECT_EQ(print(lower(sketch.plan, {}, 1)),
            "buffer 0 tile 0 tensor 0 bytes 16 align 8 Std live 0..2 pinned\n"
            "buffer 1 tile 1 tensor 0 bytes 16 align 8 Std live 0..1 pinned\n"
            "buffer 2 tile 0 tensor 1 bytes 32 align 8 Std live 1..end pinned\n"
            "step 0 exchange phase 0 gather\n"
            "    b1+0 words 4 -> b2+16\n"
            "step 1 compute gather\n"
            "    tile 0 CopyU32 b2 b0 4\n"
            "input a tensor 0 member 0 bytes 32\n"
            "    b0+0 <-> 0 bytes 16\n"
            "    b1+0 <-> 16 bytes 16\n"
            "output b tensor 1 member 0 bytes 32\n"
            "    b2+0 <-> 0 bytes 32\n");
}

}  // namespace
}  // namespace tw::tile
