// What the small PE-Core L/14 computes (models.md B.2): against a slow reading of the formulas, and what its
// rotary positions do to permuted patches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <random>

#include "model/model.h"
#include "model/tensors.h"
#include "ref/ref.h"

namespace tw {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

model::Model small(const std::string& name, std::uint32_t layers, std::uint32_t size) {
  model::Config c;
  c.name = name;
  c.layers = layers;
  c.small = true;
  c.image_size = size;
  return model::build(c);
}
std::vector<float> embedding(const model::Model& model, const Tensors& tensors) {
  return ref::run(model.graph,
                  [&](const std::string& n) -> const std::vector<float>& { return tensors.at(n); })[0];
}

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;
  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  Matrix(std::size_t r, std::size_t c, const std::vector<float>& from)
      : rows(r), columns(c), values(from.begin(), from.end()) {}
  double& at(std::size_t r, std::size_t c) { return values[r * columns + c]; }
  double at(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
  Matrix part(std::size_t first, std::size_t count) const {  // columns
    Matrix out(rows, count);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < count; ++c) out.at(r, c) = at(r, first + c);
    return out;
  }
};
Matrix plus(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

// The formulas of B.2, step by step in double precision.
class PeCore {
 public:
  PeCore(const Tensors& tensors, std::size_t layers, std::size_t side)
      : tensors_(tensors), layers_(layers), side_(side) {}

  std::vector<double> operator()() const {
    const std::size_t tokens = side_ * side_ + 1;
    Matrix x = product({tokens, 588, tensors_.at("vit.pe.image.patches")}, "vit.embedding.weight", kWidth);
    x = norm(plus(x, {tokens, kWidth, tensors_.at("vit.position")}), "vit.embedding.norm");
    for (std::size_t i = 0; i < layers_; ++i) {
      const std::string layer = "vit.encoder.layer" + std::to_string(i) + ".";
      const Matrix qkv = linear(norm(x, layer + "attention_norm"), layer + "attention.qkv", 3 * kWidth);
      const Matrix o = attend(turn(qkv.part(0, kWidth)), turn(qkv.part(kWidth, kWidth)),
                              qkv.part(2 * kWidth, kWidth), kWidth / 64);
      x = plus(x, linear(o, layer + "attention.output", kWidth));
      x = plus(x, mlp(norm(x, layer + "mlp_norm"), layer));
    }
    x = norm(x, "vit.encoder.final_norm");
    const Matrix q = linear({1, kWidth, tensors_.at("vit.map.probe")}, "vit.map.attention.query", kWidth);
    const Matrix kv = linear(x, "vit.map.attention.kv", 2 * kWidth);
    const Matrix o =
        linear(attend(q, kv.part(0, kWidth), kv.part(kWidth, kWidth), 8), "vit.map.attention.output", kWidth);
    return product(plus(o, mlp(norm(o, "vit.map.norm"), "vit.map.")), "vit.projection.weight", kWidth).values;
  }

 private:
  static constexpr std::size_t kWidth = 128, kHidden = 512;

  Matrix product(const Matrix& x, const std::string& name, std::size_t columns) const {
    const Matrix w(x.columns, columns, tensors_.at(name));
    Matrix y(x.rows, columns);
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        for (std::size_t k = 0; k < x.columns; ++k) y.at(r, c) += x.at(r, k) * w.at(k, c);
    return y;
  }
  Matrix linear(const Matrix& x, const std::string& name, std::size_t columns) const {
    Matrix y = product(x, name + ".weight", columns);
    const std::vector<float>& bias = tensors_.at(name + ".bias");
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += static_cast<double>(bias[i % columns]);
    return y;
  }
  Matrix norm(Matrix x, const std::string& name) const {
    const std::vector<float>&scale = tensors_.at(name + ".scale"), &bias = tensors_.at(name + ".bias");
    for (std::size_t r = 0; r < x.rows; ++r) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < x.columns; ++c) mean += x.at(r, c) / static_cast<double>(x.columns);
      for (std::size_t c = 0; c < x.columns; ++c)
        variance += std::pow(x.at(r, c) - mean, 2) / static_cast<double>(x.columns);
      for (std::size_t c = 0; c < x.columns; ++c)
        x.at(r, c) = (x.at(r, c) - mean) / std::sqrt(variance + 1e-5) * static_cast<double>(scale[c]) +
                     static_cast<double>(bias[c]);
    }
    return x;
  }
  Matrix mlp(const Matrix& x, const std::string& path) const {
    Matrix h = linear(x, path + "mlp.up", kHidden);
    for (double& v : h.values) v *= (1 + std::erf(v / std::numbers::sqrt2)) / 2;
    return linear(h, path + "mlp.down", kWidth);
  }
  // Heads of 64: the first 32 channels turn by the column, the others by the row, pairs as complex numbers.
  Matrix turn(Matrix x) const {
    for (std::size_t patch = 0; patch < side_ * side_; ++patch)
      for (std::size_t pair = 0; pair < kWidth / 2; ++pair) {
        const std::size_t in_head = pair % 32;
        const std::size_t position = 1 + (in_head < 16 ? patch % side_ : patch / side_);
        const double angle = static_cast<double>(position) *
                             std::pow(10000.0, -2.0 * static_cast<double>(in_head % 16) / 32.0);
        double &re = x.at(1 + patch, 2 * pair), &im = x.at(1 + patch, 2 * pair + 1);
        const std::complex<double> z = std::complex<double>(re, im) * std::polar(1.0, angle);
        re = z.real();
        im = z.imag();
      }
    return x;
  }
  static Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, std::size_t heads) {
    const std::size_t width = kWidth / heads;
    Matrix o(q.rows, kWidth);
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t r = 0; r < q.rows; ++r) {
        std::vector<double> weight(k.rows);
        double sum = 0;
        for (std::size_t t = 0; t < k.rows; ++t) {
          double score = 0;
          for (std::size_t c = head * width; c < (head + 1) * width; ++c) score += q.at(r, c) * k.at(t, c);
          sum += weight[t] = std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (std::size_t t = 0; t < k.rows; ++t)
          for (std::size_t c = head * width; c < (head + 1) * width; ++c)
            o.at(r, c) += weight[t] / sum * v.at(t, c);
      }
    return o;
  }

  const Tensors& tensors_;
  std::size_t layers_, side_;
};

// Every bias, scale and epsilon is large enough to be seen.
Tensors strong_tensors(const model::Model& model) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Tensors out = model.constants;
  for (const graph::Value& v : model.graph.values) {
    if (v.kind != graph::ValueKind::Host && !model::is_trained(model, v)) continue;
    const bool weight = v.name.ends_with(".weight"), scale = v.name.ends_with(".scale");
    const float deviation = weight                         ? 2.0F / std::sqrt(static_cast<float>(v.shape[0]))
                            : v.name.ends_with(".patches") ? 0.01F
                            : v.name.starts_with("vit.position") ? 0.01F
                                                                 : 0.2F;
    std::vector<float>& data = out[v.name];
    for (std::size_t i = 0; i < tensor::elements(v.shape); ++i)
      data.push_back((scale ? 1.0F : 0.0F) + deviation * normal(random));
  }
  return out;
}

TEST(PeCore, ComputesTheFormulasOfTheSpecification) {
  const std::uint32_t layers = 2, side = 3;
  const model::Model model = small("pe-core-l14", layers, side * 14);
  const Tensors tensors = strong_tensors(model);
  const std::vector<float> actual = embedding(model, tensors);
  const std::vector<double> expected = PeCore(tensors, layers, side)();
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 1e-4 * largest) << i;
}

// Largest difference that another order of the patches makes, without learned positions, as a part of the
// largest value.
double effect_of_order(const std::string& name) {
  constexpr std::size_t kPatch = 588, kWidth = 128;
  const model::Model model = small(name, 2, 42);
  Tensors tensors = strong_tensors(model);
  std::vector<float>& position = tensors.at("vit.position");
  std::fill(position.begin() + kWidth, position.end(), 0.0F);  // the class vector stays
  const std::vector<float> before = embedding(model, tensors);
  std::vector<float>& patches = tensors.at(model.vision.input);
  std::rotate(patches.begin() + kPatch, patches.begin() + 5 * kPatch, patches.end());
  const std::vector<float> after = embedding(model, tensors);
  double largest = 0;
  for (const float x : before) largest = std::max(largest, static_cast<double>(std::abs(x)));
  return ref::max_abs_error(before, after) / largest;
}

TEST(PeCore, RotaryPositionsTellTheOrderOfPatches) {
  EXPECT_GT(effect_of_order("pe-core-l14"), 1e-2);
  EXPECT_LT(effect_of_order("pe-core-l14-capacity"), 1e-5);
}

}  // namespace
}  // namespace tw
