// Hand-made plans of a few steps for the exact interpreter's tests.
#pragma once
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>

#include "numeric/formats.h"
#include "plan/exact.h"

namespace tw::plan::test {

using tensor::AxisTiling;
using tensor::Padding;
using tensor::Precision;
using tensor::Shape;

inline float f16(float x) { return numeric::f16_to_f32(numeric::f32_to_f16(x)); }
inline float f8(float x, int scale) { return numeric::f143_to_f32(numeric::f32_to_f143(x, scale), scale); }
inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

inline AxisTiling tiling(std::uint32_t axis, std::uint32_t parts, std::uint32_t block) {
  AxisTiling t;
  t.axis = axis;
  t.parts = parts;
  t.block = block;
  t.padding = Padding::Zero;
  return t;
}

// Collects tensors, steps and host data of one plan.
struct Maker {
  Plan plan;
  std::map<std::string, Values> data;
  std::mt19937 random{7};

  TensorId add(const std::string& name, Shape shape, Role role, std::vector<AxisTiling> axes = {},
               tensor::Encoding encoding = {}) {
    Tensor t;
    t.name = name;
    t.role = role;
    t.type.shape = std::move(shape);
    t.type.encoding = encoding;
    for (const AxisTiling& axis : axes) t.type.layout.tiling.tile_count *= axis.parts;
    t.type.layout.tiling.axes = std::move(axes);
    plan.tensors.push_back(std::move(t));
    return TensorId(static_cast<std::uint32_t>(plan.tensors.size() - 1));
  }
  // An input with Gaussian values, already representable in the tensor's format.
  TensorId input(const std::string& name, Shape shape, float deviation = 1.0F,
                 std::vector<AxisTiling> axes = {}, tensor::Encoding encoding = {}) {
    const TensorId id = add(name, std::move(shape), Role::Input, std::move(axes), encoding);
    std::normal_distribution<float> normal(0.0F, deviation);
    Values& values = data[name];
    values.resize(tensor::elements(plan.at(id).type.shape));
    for (float& v : values) {
      v = normal(random);
      if (encoding.precision == Precision::F16) v = f16(v);
      if (encoding.precision == Precision::F8) v = f8(v, encoding.scale);
    }
    return id;
  }
  TensorId output(Shape shape, tensor::Encoding encoding = {}) {
    const TensorId id =
        add(fmt::format("out{}", plan.outputs.size()), std::move(shape), Role::Output, {}, encoding);
    plan.outputs.push_back(id);
    return id;
  }
  template <class Action>
  void step(Action action, const std::string& path = "op") {
    plan.steps.push_back({std::move(action), path, {}});
  }
  std::vector<Values> run(unsigned threads = 2, const std::string& drop = {}) const {
    ExactOptions options;
    options.threads = threads;
    options.drop_group_rounding = drop;
    return run_exact(plan, [&](const std::string& name) -> const Values& { return data.at(name); }, options);
  }
};

inline constexpr tensor::Encoding kF32{Precision::F32, 0};

// Bit equality, so that -0 and +0 differ.
inline void expect_same_bits(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(bits(actual[i]), bits(expected[i]))
        << "element " << i << ": " << actual[i] << " instead of " << expected[i];
}

}  // namespace tw::plan::test
