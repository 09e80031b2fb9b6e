// Convolutions behind products, batch norms, and the transposes around them.
#include <numeric>

#include "program.h"

namespace tw::onnx {
namespace {

// A product's rows [2,h w,8] as [2,8,h,w], channels first.
std::string product(Draft& d, std::int64_t h, std::int64_t w) {
  const std::string y = d.op("MatMul", {d.input("x", {2, h * w, 6}), d.constant(drawn({6, 8}, 1, 0.5F))});
  return d.reshape(d.transpose(y, {0, 2, 1}), {2, 8, h, w});
}

struct Window {
  std::string name;
  std::int64_t h, w;
  Dims kernel;  // [out, in, kh, kw]
  Attributes attributes;
};
std::ostream& operator<<(std::ostream& out, const Window& w) { return out << w.name; }

class Behind : public testing::TestWithParam<Window> {};

TEST_P(Behind, ConvolutionIsAProduct) {
  const Window& c = GetParam();
  for (const bool biased : {false, true}) {
    Draft d(17);
    std::vector<std::string> inputs{product(d, c.h, c.w), d.constant(drawn(c.kernel, 2, 0.5F))};
    if (biased) inputs.push_back(d.constant(drawn({c.kernel[0]}, 3)));
    d.output(d.op("Conv", inputs, c.attributes));
    const Program p = checked(d);
    EXPECT_EQ(kinds(p).at("gemm"), 2);
    EXPECT_TRUE(p.suffix.nodes.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Windows, Behind,
    testing::Values(
        Window{"Point", 3, 4, {5, 8, 1, 1}, {}},
        Window{"Row", 1, 12, {5, 8, 1, 3}, {{"pads", Ints{0, 1, 0, 1}}}},
        Window{"Square", 3, 4, {5, 8, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}},
        Window{"NoPadding", 3, 4, {5, 8, 2, 3}, {}},
        Window{"Lopsided", 3, 4, {5, 8, 3, 2}, {{"pads", Ints{2, 0, 0, 1}}}},
        Window{"Strides", 6, 4, {5, 8, 3, 3}, {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 2}}}},
        Window{"Dilations", 6, 4, {5, 8, 3, 2}, {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 1, 1, 1}}}},
        Window{"SameUpper",
               4,
               5,
               {5, 8, 2, 2},
               {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{1, 2}}}},
        Window{"SameLower", 4, 5, {5, 8, 2, 2}, {{"auto_pad", std::string("SAME_LOWER")}}},
        Window{"Valid", 4, 5, {5, 8, 2, 2}, {{"auto_pad", std::string("VALID")}}},
        Window{"KernelLargerThanInput", 1, 2, {5, 8, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}}),
    [](const auto& info) { return info.param.name; });

std::string batch_norm(Draft& d, const std::string& x, std::int64_t channels) {
  Tensor variance = drawn({channels}, 13);
  for (float& v : variance.floats) v = v * v + 0.1F;
  return d.op("BatchNormalization",
              {x, d.constant(drawn({channels}, 10)), d.constant(drawn({channels}, 11)),
               d.constant(drawn({channels}, 12)), d.constant(std::move(variance))},
              {{"epsilon", 1e-3F}});
}

TEST(BatchNorm, BecomesPartOfTheConvolutionBeforeIt) {
  for (const bool biased : {false, true}) {
    Draft d(14);
    std::vector<std::string> inputs{product(d, 3, 4), d.constant(drawn({6, 8, 1, 1}, 2, 0.5F))};
    if (biased) inputs.push_back(d.constant(drawn({6}, 3)));
    d.output(batch_norm(d, d.op("Conv", inputs), 6));
    const Program p = checked(d);
    EXPECT_EQ(kinds(p).count("mul"), 0U);
    EXPECT_EQ(kinds(p).at("add"), 1);  // the bias, the norm's own part included
  }
}

TEST(BatchNorm, IsAFactorAndASumElsewhere) {
  Draft d(14);
  const std::string y = d.op("Conv", {product(d, 3, 4), d.constant(drawn({6, 8, 1, 1}, 2, 0.5F))});
  d.output(batch_norm(d, y, 6));
  d.output(y);  // someone reads what the norm gets
  Draft rows(14);
  rows.output(
      batch_norm(rows, rows.op("MatMul", {rows.input("x", {5, 6}), rows.constant(drawn({6, 8}, 1))}), 8));
  for (const Draft& draft : {d, rows}) EXPECT_EQ(kinds(checked(draft)).at("mul"), 1);
}

// The neck of a text recogniser: channels first around convolutions, rows around products, a join with what
// the backbone gives.
TEST(Transposes, NoneIsLeftBetweenProductsAndConvolutions) {
  Draft d(14);
  const std::string wide = d.op("AveragePool", {d.input("pooled", {2, 8, 6, 4})},
                                {{"kernel_shape", Ints{2, 1}}, {"strides", Ints{2, 1}}});
  std::string y = d.op("Conv", {product(d, 3, 4), d.constant(drawn({8, 8, 1, 1}, 2, 0.5F))});
  y = batch_norm(d, y, 8);
  y = d.op("Mul", {y, d.op("Sigmoid", {d.op("Mul", {y, d.scalar(1.0F)})})});
  y = d.op("Concat", {wide, y}, {{"axis", std::int64_t{1}}});
  y = d.op("Conv", {y, d.constant(drawn({6, 16, 1, 3}, 3, 0.5F))}, {{"pads", Ints{0, 1, 0, 1}}});
  y = d.op("Add", {y, d.constant(drawn({6, 1, 1}, 4))});
  y = d.transpose(d.reshape(d.op("LeakyRelu", {y}, {{"alpha", 0.1F}}), {2, 6, 12}), {0, 2, 1});
  d.output(d.op("MatMul", {y, d.constant(drawn({6, 10}, 5))}));
  const Program p = checked(d);
  EXPECT_EQ(kinds(p).at("gemm"), 4);
  EXPECT_EQ(kinds(p).count("transpose"), 0U);
  EXPECT_TRUE(p.suffix.nodes.empty());
}

// Pointwise functions and joins over transposes in all orders: whatever is cancelled, the values stay.
TEST(Transposes, AnyTreeKeepsItsValues) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    Draft d(17);
    std::vector<std::pair<std::string, Dims>> pool;
    const auto rows = [&](Dims dims) {
      const std::string x = d.input("x" + std::to_string(pool.size()), dims);
      pool.emplace_back(d.op("MatMul", {x, d.constant(drawn({dims.back(), dims.back()}, seed))}), dims);
    };
    const std::int64_t h = 1 + rng() % 2;
    rows({2, h, 3, 4});
    rows({2, h, 3, 4});
    for (int step = 0; step < 14; ++step) {
      const auto [x, dims] = pool[rng() % pool.size()];
      const auto [y, other] = pool[rng() % pool.size()];
      switch (rng() % 6) {
        case 0:
        case 1: {
          Ints perm{0, 1, 2, 3};
          std::shuffle(perm.begin(), perm.end(), rng);
          Dims turned;
          for (const std::int64_t a : perm) turned.push_back(dims[static_cast<std::size_t>(a)]);
          pool.emplace_back(d.transpose(x, perm), turned);
          break;
        }
        case 2:
          pool.emplace_back(d.op("Tanh", {x}), dims);
          break;
        case 3:
          pool.emplace_back(d.op("Add", {x, d.constant(drawn({dims[2], 1}, seed))}), dims);
          break;
        case 4:
          if (dims == other) pool.emplace_back(d.op("Sub", {x, y}), dims);
          break;
        default:
          if (dims == other) {
            Dims joined = dims;
            const std::size_t axis = rng() % 4;
            joined[axis] *= 2;
            if (std::accumulate(joined.begin(), joined.end(), std::int64_t{1}, std::multiplies<>()) < 400)
              pool.emplace_back(d.op("Concat", {x, y}, {{"axis", static_cast<std::int64_t>(axis)}}), joined);
          }
      }
    }
    const auto& [last, dims] = pool.back();
    const std::string flat = d.reshape(last, {-1, dims[3]});
    d.output(d.op("MatMul", {flat, d.constant(drawn({dims[3], 3}, seed))}));
    checked(d, 1e-3);
  }
}

}  // namespace
}  // namespace tw::onnx
