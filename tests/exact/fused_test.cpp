// Fused steps of the exact interpreter: the bits of the chain that they replace.
#include <gtest/gtest.h>

#include "base/error.h"
#include "support.h"

namespace tw::plan {
namespace {

using namespace test;

Local local(LocalKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
  Local l;
  l.kind = kind;
  l.inputs = std::move(inputs);
  l.outputs = std::move(outputs);
  l.epsilon = 1e-6F;
  return l;
}

const tensor::Encoding kF8{Precision::F8, -4};

TEST(Fused, F8ResultIsTheCastOfTheHalfResult) {
  for (const LocalKind kind : {LocalKind::Gelu, LocalKind::BiasGelu, LocalKind::LayerNorm}) {
    Maker m;
    const Shape shape{2, 5, 36};
    std::vector<TensorId> in{m.input("x", shape, 6.0F)};
    if (kind != LocalKind::Gelu) in.push_back(m.input("scale", {36}));
    if (kind == LocalKind::LayerNorm) in.push_back(m.input("bias", {36}));
    const TensorId half = m.add("half", shape, Role::Activation);
    m.step(local(kind, in, {half}));
    m.step(local(LocalKind::Cast, {half}, {m.output(shape, kF8)}));
    m.step(local(kind, in, {m.output(shape, kF8)}));
    const auto out = m.run();
    expect_same_bits(out[1], out[0]);
  }
}

// 2048 + 1 is no half: the statistics are those of the sum as stored.
TEST(Fused, SumIsRoundedBeforeItsStatistics) {
  Maker m;
  const TensorId a = m.input("a", {1, 4}), b = m.input("b", {1, 4}), scale = m.input("scale", {4}),
                 bias = m.input("bias", {4});
  m.data["a"] = {2048, 2048, 2048, 2048};
  m.data["b"] = {0, 1, 0, 1};
  m.data["scale"] = {1, 1, 1, 1};
  m.data["bias"] = {0.25F, 0.5F, 0.75F, 1};
  m.step(local(LocalKind::AddLayerNorm, {a, b, scale, bias}, {m.output({1, 4})}));
  m.step(local(LocalKind::AddMoments, {a, b}, {m.output({1, 4}), m.output({1, 1, 2}, kF32)}));
  const auto out = m.run();
  EXPECT_EQ(out[0], (Values{0.25F, 0.5F, 0.75F, 1}));
  EXPECT_EQ(out[1], (Values{2048, 2048, 2048, 2048}));
  EXPECT_EQ(out[2], (Values{2048, 0}));
}

TEST(Fused, AddThenNormInOneStepOrThree) {
  for (const std::uint32_t width : {30U, 96U, 200U}) {
    Maker m;
    const Shape shape{2, 5, width};
    const TensorId a = m.input("a", shape, 3.0F), b = m.input("b", shape, 1.0F),
                   scale = m.input("scale", {width}), bias = m.input("bias", {width}),
                   sum = m.add("sum", shape, Role::Activation);
    m.step(local(LocalKind::Add, {a, b}, {sum}));
    m.step(local(LocalKind::LayerNorm, {sum, scale, bias}, {m.output(shape)}));
    m.step(local(LocalKind::AddLayerNorm, {a, b, scale, bias}, {m.output(shape)}));
    if (width % 4 == 0) {
      const TensorId kept = m.output(shape),
                     statistics = m.add("statistics", {1, 2, 5, 2}, Role::Scratch, {}, kF32);
      m.step(local(LocalKind::AddMoments, {a, b}, {kept, statistics}));
      m.step(local(LocalKind::Apply, {kept, statistics, scale, bias}, {m.output(shape)}));
    }
    const auto out = m.run();
    expect_same_bits(out[1], out[0]);
    if (width % 4 == 0) expect_same_bits(out[3], out[0]);
  }
}

TEST(Fused, OverflowOfTheSumIsAFault) {
  Maker m;
  const TensorId a = m.input("a", {1, 4}), b = m.input("b", {1, 4}), scale = m.input("scale", {4});
  m.data["a"] = m.data["b"] = {40000, 0, 0, 0};
  Maker other = m;
  m.step(local(LocalKind::AddLayerNorm, {a, b, scale, scale}, {m.output({1, 4})}));
  EXPECT_THROW(m.run(), Error);
  other.step(local(LocalKind::AddMoments, {a, b}, {other.output({1, 4}), other.output({1, 1, 2}, kF32)}));
  EXPECT_THROW(other.run(), Error);
}

}  // namespace
}  // namespace tw::plan
