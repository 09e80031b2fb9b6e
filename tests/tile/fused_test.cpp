// Fused Local steps as calls on tile memory against the exact interpreter of the same plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "machine.h"
#include "plan/exact.h"

namespace tw::tile {
namespace {

using plan::LocalKind;
using plan::Role;
using tensor::Order;
using tensor::Padding;
using tensor::Precision;
using tensor::TensorType;
using testing::Machine;
using testing::Sketch;

struct Bench {
  std::uint32_t rows, width, owners;
  Sketch sketch;
  std::map<std::string, std::vector<float>> data;

  TensorType row_type() const {
    TensorType type{.shape = {2, rows, width}, .encoding = {}, .layout = {}};
    type.layout.tiling.tile_count = owners;
    type.layout.tiling.axes = {{.axis = 1, .parts = owners}};
    return type;
  }
  TensorType panel_type() const {
    TensorType type = row_type();
    type.encoding = {Precision::F8, -4};
    type.layout.order.kind = Order::AmpLeft;
    type.layout.tiling.axes.push_back({.axis = 2, .block = 32, .padding = Padding::Zero});
    return type;
  }
  TensorType statistics_type() const {
    TensorType type{.shape = {1, 2, rows, 2}, .encoding = {Precision::F32, 0}, .layout = {}};
    type.layout.tiling.tile_count = owners;
    type.layout.tiling.axes = {{.axis = 2, .parts = owners}};
    return type;
  }
  TensorType vector_type() const {
    TensorType type{.shape = {1, 1, width}, .encoding = {}, .layout = {}};
    type.layout.tiling.tile_count = type.layout.tiling.replicas = owners;
    return type;
  }
  TensorId parameter(const std::string& name, const TensorType& type) {
    std::mt19937 random(static_cast<unsigned>(name.size() * 131 + static_cast<unsigned char>(name.back())));
    std::normal_distribution<float> normal(0, 2);
    std::vector<float>& values = data[name];
    values.resize(tensor::elements(type.shape));
    for (float& v : values) v = normal(random);
    return sketch.add(name, type, Role::Parameter);
  }
  void local(LocalKind kind, std::vector<TensorId> in, std::vector<TensorId> out) {
    plan::Local l;
    l.kind = kind;
    l.inputs = std::move(in);
    l.outputs = std::move(out);
    l.epsilon = 1e-6F;
    sketch.step(l);
  }
  // Values and, for panels, the bytes: padding is written with zeros.
  void check(const std::vector<TensorId>& results) {
    const Program program = lower(sketch.plan, {}, 1);
    EXPECT_THAT(verify(program), ::testing::IsEmpty());
    Machine machine(program);
    for (const Binding& b : program.weights)
      machine.upload(b, testing::images(sketch.plan.at(b.tensor).type, data.at(b.name)));
    machine.run();
    plan::Plan plan = sketch.plan;
    plan.outputs = results;
    const auto exact = plan::run_exact(
        plan, [&](const std::string& name) -> const std::vector<float>& { return data.at(name); });
    for (std::size_t r = 0; r < results.size(); ++r) {
      const plan::Tensor& t = sketch.plan.at(results[r]);
      const tensor::ResolvedLayout layout(t.type);
      for (std::uint32_t o = 0; o < layout.owners(); ++o) {
        const std::vector<std::uint8_t> want = tensor::pack_shard(layout, o, exact[r]);
        for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
          if (program.buffers[i].tensor != results[r] || program.buffers[i].tile.value != o) continue;
          const std::uint8_t* got = machine.memory(BufferId(i));
          EXPECT_EQ(std::vector<std::uint8_t>(got, got + want.size()), want) << t.name << " owner " << o;
        }
      }
    }
  }
};

TEST(Fused, F8ResultsOfRows) {
  for (const std::uint32_t width : {32U, 72U, 100U}) {
    for (const LocalKind kind : {LocalKind::Gelu, LocalKind::BiasGelu, LocalKind::LayerNorm}) {
      Bench b{.rows = 5, .width = width, .owners = 3, .sketch = {}, .data = {}};
      std::vector<TensorId> in{b.parameter("x", b.row_type())};
      if (kind != LocalKind::Gelu) in.push_back(b.parameter("scale", b.vector_type()));
      if (kind == LocalKind::LayerNorm) in.push_back(b.parameter("bias", b.vector_type()));
      const TensorId out = b.sketch.add("out", b.panel_type(), Role::Activation);
      b.local(kind, in, {out});
      b.check({out});
    }
  }
}

TEST(Fused, AddIntoLayerNorm) {
  Bench b{.rows = 7, .width = 50, .owners = 3, .sketch = {}, .data = {}};
  const TensorId x = b.parameter("x", b.row_type()), y = b.parameter("residual", b.row_type());
  const TensorId scale = b.parameter("scale", b.vector_type()), bias = b.parameter("bias", b.vector_type());
  const TensorId out = b.sketch.add("out", b.row_type(), Role::Activation);
  b.local(LocalKind::AddLayerNorm, {x, y, scale, bias}, {out});
  b.check({out});
}

TEST(Fused, AddMomentsThenApply) {
  Bench b{.rows = 7, .width = 52, .owners = 3, .sketch = {}, .data = {}};
  const TensorId x = b.parameter("x", b.row_type()), y = b.parameter("residual", b.row_type());
  const TensorId scale = b.parameter("scale", b.vector_type()), bias = b.parameter("bias", b.vector_type());
  const TensorId sum = b.sketch.add("sum", b.row_type(), Role::Activation),
                 statistics = b.sketch.add("statistics", b.statistics_type(), Role::Scratch),
                 out = b.sketch.add("out", b.row_type(), Role::Activation);
  b.local(LocalKind::AddMoments, {x, y}, {sum, statistics});
  b.local(LocalKind::Apply, {sum, statistics, scale, bias}, {out});
  b.check({sum, statistics, out});
}

}  // namespace
}  // namespace tw::tile
