// What exporters take apart is put together again, near misses are not, and both give what the interpreter
// gives (models.md D.4, users.md L49 and L64).
#include "program.h"

namespace tw::onnx {
namespace {

constexpr std::int64_t kWidth = 12;

struct NormSpelling {
  bool square_by_mul = false, reciprocal = false, power = false, two_subs = false, axes_input = false;
  bool scale = true, bias = true, scale_first = false;
};
std::string norm(Draft& d, const std::string& x, const NormSpelling& s, bool epsilon_outside = false) {
  const auto mean = [&](const std::string& v) {
    if (s.axes_input) return d.op("ReduceMean", {v, d.ints({-1})}, {{"keepdims", std::int64_t{1}}});
    return d.op("ReduceMean", {v}, {{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}});
  };
  const std::string m = mean(x), centred = d.op("Sub", {x, m}),
                    again = s.two_subs ? d.op("Sub", {x, m}) : centred;
  const std::string square =
      s.square_by_mul ? d.op("Mul", {again, again}) : d.op("Pow", {again, d.scalar(2)});
  const std::string variance = mean(square), epsilon = d.scalar(1e-2F);
  std::string y;
  if (epsilon_outside) {
    y = d.op("Div", {centred, d.op("Add", {d.op("Sqrt", {variance}), epsilon})});
  } else if (s.power) {
    y = d.op("Mul", {centred, d.op("Pow", {d.op("Add", {variance, epsilon}), d.scalar(-0.5F)})});
  } else {
    const std::string deviation = d.op("Sqrt", {d.op("Add", {epsilon, variance})});
    y = s.reciprocal ? d.op("Mul", {d.op("Reciprocal", {deviation}), centred})
                     : d.op("Div", {centred, deviation});
  }
  const std::string gamma = d.constant(drawn({kWidth}, 3)), beta = d.constant(drawn({kWidth}, 4));
  if (s.scale) y = s.scale_first ? d.op("Mul", {gamma, y}) : d.op("Mul", {y, gamma});
  if (s.bias) y = s.scale_first ? d.op("Add", {beta, y}) : d.op("Add", {y, beta});
  return y;
}
Kinds norm_kinds(const NormSpelling& s, bool epsilon_outside = false) {
  Draft d(s.axes_input ? 18 : 14);
  d.output(norm(d, d.op("Tanh", {d.input("x", {2, 5, kWidth})}), s, epsilon_outside));
  return kinds(checked(d));
}

TEST(Pattern, LayerNorm) {
  const Kinds whole{{"tanh", 1}, {"layer_norm", 1}};
  EXPECT_EQ(norm_kinds({}), whole);
  EXPECT_EQ(norm_kinds({.square_by_mul = true}), whole);
  EXPECT_EQ(norm_kinds({.reciprocal = true}), whole);
  EXPECT_EQ(norm_kinds({.power = true}), whole);
  EXPECT_EQ(norm_kinds({.two_subs = true}), whole);
  EXPECT_EQ(norm_kinds({.axes_input = true}), whole);
  EXPECT_EQ(norm_kinds({.scale_first = true}), whole);
  EXPECT_EQ(norm_kinds({.bias = false}), whole);
  EXPECT_EQ(norm_kinds({.scale = false}), whole);
  EXPECT_EQ(norm_kinds({.scale = false, .bias = false}), whole);
}

TEST(Pattern, LayerNormNearMisses) {
  EXPECT_FALSE(norm_kinds({}, true).contains("layer_norm"));  // the epsilon outside of the root
  Draft d(14);                                                // the mean of other rows
  const std::string x = d.op("Tanh", {d.input("x", {5, 5})});
  const Attributes last{{"axes", Ints{-1}}}, first{{"axes", Ints{0}}};
  const std::string c = d.op("Sub", {x, d.op("ReduceMean", {x}, first)});
  const std::string v = d.op("ReduceMean", {d.op("Mul", {c, c})}, last);
  d.output(d.op("Div", {c, d.op("Sqrt", {d.op("Add", {v, d.scalar(1e-2F)})})}));
  EXPECT_FALSE(kinds(checked(d)).contains("layer_norm"));
}

TEST(Pattern, LayerNormalizationOfSeveralAxesWithoutBias) {
  for (const std::int64_t opset : {17, 20, 23}) {
    Draft d(opset);
    const std::string x = d.op("Tanh", {d.input("x", {2, 3, 4})});
    d.output(d.op("LayerNormalization", {x, d.constant(drawn({3, 4}, 1))}, {{"axis", std::int64_t{-2}}}));
    EXPECT_EQ(kinds(checked(d)).at("layer_norm"), 1);
  }
}

// x 0.5 (1 + erf(x / sqrt 2)) in the associations of exporters.
std::string erf_gelu(Draft& d, const std::string& x, int spelling, float root = 1.4142135F) {
  const std::string u =
      spelling == 2 ? d.op("Mul", {x, d.scalar(1 / root)}) : d.op("Div", {x, d.scalar(root)});
  const std::string gate = d.op("Add", {d.op("Erf", {u}), d.scalar(1)}), half = d.scalar(0.5F);
  if (spelling == 0) return d.op("Mul", {d.op("Mul", {x, gate}), half});
  if (spelling == 1) return d.op("Mul", {d.op("Mul", {half, x}), gate});
  if (spelling == 2) return d.op("Mul", {x, d.op("Mul", {half, gate})});
  return d.op("Div", {d.op("Mul", {gate, x}), d.scalar(2)});
}
// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
std::string tanh_gelu(Draft& d, const std::string& x, int spelling, float cubic = 0.044715F) {
  std::string cube;
  if (spelling == 0)
    cube = d.op("Mul", {d.op("Pow", {x, d.scalar(3)}), d.scalar(cubic)});
  else if (spelling == 1)
    cube = d.op("Mul", {d.op("Mul", {d.op("Mul", {d.scalar(cubic), x}), x}), x});
  else
    cube = d.op("Mul", {d.scalar(cubic), d.op("Mul", {x, d.op("Mul", {x, x})})});
  const std::string u = d.op("Mul", {d.op("Add", {x, cube}), d.scalar(0.7978846F)});
  const std::string gate = d.op("Add", {d.scalar(1), d.op("Tanh", {u})});
  return spelling == 1 ? d.op("Mul", {x, d.op("Mul", {gate, d.scalar(0.5F)})})
                       : d.op("Mul", {d.op("Mul", {d.scalar(0.5F), x}), gate});
}
template <class Build>
Kinds activation(Build&& build) {
  Draft d(14);
  const std::string x = d.op("MatMul", {d.input("x", {3, 8}), d.constant(drawn({8, 8}, 1))});
  d.output(build(d, x));
  Kinds out = kinds(checked(d));
  EXPECT_EQ(out.at("gemm"), 1);
  out.erase("gemm");
  return out;
}

TEST(Pattern, GeluStaysWhichItIs) {
  for (int s = 0; s < 4; ++s)
    EXPECT_EQ(activation([&](Draft& d, const std::string& x) { return erf_gelu(d, x, s); }),
              (Kinds{{"gelu_erf", 1}}));
  for (int s = 0; s < 3; ++s)
    EXPECT_EQ(activation([&](Draft& d, const std::string& x) { return tanh_gelu(d, x, s); }),
              (Kinds{{"gelu", 1}}));
  const auto op = [](const char* form) {
    Draft d(20);
    d.output(d.op("Gelu", {d.input("x", {3, 8})}, {{"approximate", std::string(form)}}));
    return kinds(checked(d));
  };
  EXPECT_EQ(op("none"), (Kinds{{"gelu_erf", 1}}));
  EXPECT_EQ(op("tanh"), (Kinds{{"gelu", 1}}));
}

TEST(Pattern, GeluNearMisses) {
  const auto none = [](const Kinds& k) { return !k.contains("gelu") && !k.contains("gelu_erf"); };
  EXPECT_TRUE(none(
      activation([](Draft& d, const std::string& x) { return erf_gelu(d, x, 0, 1.4142135F * 1.001F); })));
  EXPECT_TRUE(none(
      activation([](Draft& d, const std::string& x) { return tanh_gelu(d, x, 0, 0.044715F * 1.001F); })));
  EXPECT_TRUE(none(activation([](Draft& d, const std::string& x) {  // another value in the gate
    return d.op(
        "Mul",
        {d.op("Neg", {x}),
         d.op("Mul", {d.scalar(0.5F),
                      d.op("Add", {d.op("Erf", {d.op("Mul", {x, d.scalar(0.70710678F)})}), d.scalar(1)})})});
  })));
}

TEST(Pattern, GatedActivations) {
  EXPECT_EQ(activation([](Draft& d, const std::string& x) { return d.op("Mul", {d.op("Sigmoid", {x}), x}); }),
            (Kinds{{"silu", 1}}));
  EXPECT_EQ(activation([](Draft& d, const std::string& x) {
              return d.op("Mul", {x, d.op("Sigmoid", {d.op("Mul", {d.scalar(1.702F), x})})});
            }),
            (Kinds{{"quick_gelu", 1}}));
  EXPECT_EQ(activation([](Draft& d, const std::string& x) {  // 1.7 is another function
              return d.op("Mul", {x, d.op("Sigmoid", {d.op("Mul", {d.scalar(1.7F), x})})});
            }),
            (Kinds{{"mul", 2}, {"sigmoid", 1}}));
  EXPECT_EQ(activation([](Draft& d, const std::string& x) {
              const std::string c = d.op("Clip", {d.op("Add", {x, d.scalar(3)}), d.scalar(0), d.scalar(6)});
              return d.op("Div", {d.op("Mul", {x, c}), d.scalar(6)});
            }),
            (Kinds{{"hard_swish", 1}}));
  EXPECT_EQ(activation([](Draft& d, const std::string& x) {
              return d.op("Mul", {x, d.op("HardSigmoid", {x}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}})});
            }),
            (Kinds{{"hard_swish", 1}}));
  EXPECT_EQ(activation([](Draft& d, const std::string& x) {
              return d.op("Mul", {x, d.op("HardSigmoid", {x}, {{"alpha", 0.2F}})});
            }).count("hard_swish"),
            0U);
}

TEST(Pattern, ValuesInsideThatAreReadElsewhereStay) {
  Draft d(14);
  const std::string x = d.op("Tanh", {d.input("x", {3, 8})});
  const std::string e = d.op("Erf", {d.op("Div", {x, d.scalar(1.4142135F)})});
  d.output(d.op("Mul", {d.op("Mul", {x, d.op("Add", {e, d.scalar(1)})}), d.scalar(0.5F)}));
  d.output(e);
  const Kinds k = kinds(checked(d));
  EXPECT_EQ(k.at("gelu_erf"), 1);
  EXPECT_EQ(k.at("erf"), 1);
}

TEST(Pattern, PatchesOfAConvolutionAreAProduct) {
  Draft d(17);
  const std::string x = d.input("image", {2, 3, 8, 12});
  const std::string y = d.op("Conv", {x, d.constant(drawn({5, 3, 4, 4}, 1)), d.constant(drawn({5}, 2))},
                             {{"strides", Ints{4, 4}}, {"kernel_shape", Ints{4, 4}}});
  d.output(d.transpose(d.op("Flatten", {y}, {{"axis", std::int64_t{2}}}), {1, 0}));
  d.output(d.transpose(d.reshape(y, {2, 5, 6}), {0, 2, 1}));
  const Program p = checked(d);
  EXPECT_EQ(kinds(p).at("gemm"), 1);
  for (const graph::Value& v : p.graph.values)
    if (v.kind == graph::ValueKind::Host) {
      EXPECT_EQ(v.shape, (graph::Shape{2, 6, 48}));  // patches
    }
  Draft left(17);  // pixels that no patch reads, as SigLIP's 384 = 27 x 14 + 6
  left.output(left.op("Conv", {left.input("image", {2, 3, 10, 15}), left.constant(drawn({5, 3, 4, 4}, 1))},
                      {{"strides", Ints{4, 4}}}));
  EXPECT_EQ(kinds(checked(left)).at("gemm"), 1);
  Draft s(17);  // patches that overlap are none
  s.output(s.op("Relu", {s.op("Conv", {s.input("image", {1, 1, 8, 8}), s.constant(drawn({5, 1, 4, 4}, 1))},
                              {{"strides", Ints{2, 2}}})}));
  EXPECT_FALSE(kinds(checked(s)).contains("gemm"));
}

// The plan spreads the axis before the last one over the tiles: sequence-first rows [tokens, 1, width] are
// [tokens, width] for products, norms and functions. A bias that is written first stands second, as a fused
// GELU needs it.
TEST(Pattern, AxesOfExtentOneLeaveTheRows) {
  Draft d(17);
  std::string y = d.op("MatMul", {d.input("x", {9, 1, 4}), d.constant(drawn({4, 6}, 1))});
  y = d.op("Add", {d.constant(drawn({6}, 2)), y});
  y = d.op("Mul", {y, d.op("Sigmoid", {d.op("Add", {y, d.constant(drawn({9, 1, 1}, 3))})})});
  y = d.op("LayerNormalization", {y, d.constant(drawn({6}, 4))}, {{"axis", std::int64_t{-1}}});
  d.output(d.op("Softmax", {y}, {{"axis", std::int64_t{-1}}}));
  const Program p = checked(d);
  for (const graph::Op& op : p.graph.ops) {
    const graph::Shape& shape = p.graph.at(op.results.at(0)).shape;
    if (op.kind != graph::OpKind::Reshape) {
      EXPECT_EQ(shape.size(), 2U) << op.path;
    }
    if (op.kind == graph::OpKind::Add) {
      EXPECT_EQ(p.graph.at(op.inputs.at(0)).shape, shape);
    }
  }
}

TEST(Pattern, EinsumIsAProduct) {
  for (const char* equation : {"bij,bjk->bik", "bij,bkj->bki", "ijb,bjk->bik"}) {
    Draft d(14);
    const bool last = equation[2] == 'b';
    const std::string a = d.input("a", last ? Dims{3, 4, 2} : Dims{2, 3, 4});
    const std::string b = d.input("b", equation[5] == 'k' ? Dims{2, 5, 4} : Dims{2, 4, 5});
    d.output(d.op("Einsum", {d.op("Tanh", {a}), d.op("Tanh", {b})}, {{"equation", std::string(equation)}}));
    EXPECT_EQ(kinds(checked(d)).at("gemm"), 1) << equation;
  }
}

}  // namespace
}  // namespace tw::onnx
