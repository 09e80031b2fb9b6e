#include "onnx/lower.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "onnx/net.h"

namespace tw::onnx {
namespace {

using graph::Shape;
using numeric::Binary;
using numeric::Reduction;
using numeric::Unary;

const std::map<std::string, Unary> kUnary = {{"Erf", Unary::Erf},
                                             {"Exp", Unary::Exp},
                                             {"Log", Unary::Log},
                                             {"Sqrt", Unary::Sqrt},
                                             {"Neg", Unary::Negate},
                                             {"Reciprocal", Unary::Reciprocal},
                                             {"Abs", Unary::Absolute},
                                             {"Tanh", Unary::Tanh},
                                             {"Sigmoid", Unary::Sigmoid},
                                             {"Relu", Unary::Relu},
                                             {"HardSwish", Unary::HardSwish}};
const std::map<std::string, Binary> kBinary = {
    {"Add", Binary::Add},   {"Sub", Binary::Subtract}, {"Mul", Binary::Multiply}, {"Div", Binary::Divide},
    {"Pow", Binary::Power}, {"Max", Binary::Maximum},  {"Min", Binary::Minimum},  {"Sum", Binary::Add}};
const std::map<std::string, Reduction> kReductions = {
    {"ReduceMean", Reduction::Mean},     {"ReduceSum", Reduction::Sum},
    {"ReduceMax", Reduction::Maximum},   {"ReduceL2", Reduction::Sum},
    {"ReduceSumSquare", Reduction::Sum}, {"GlobalAveragePool", Reduction::Mean}};
const std::set<std::string> kMovements = {"Identity", "Dropout",   "Cast",      "Reshape", "Flatten",
                                          "Squeeze",  "Unsqueeze", "Transpose", "Expand",  "Slice",
                                          "Split",    "Concat",    "Gather",    "Tile"};
const std::set<std::string> kOthers = {"MatMul", "Gemm", "Softmax",     "LayerNormalization",
                                       "Gelu",   "Clip", "HardSigmoid", "LeakyRelu"};

// Inputs that say how, not what: they must be constant.
std::size_t first_parameter(const Node& node) {
  const std::string& op = node.op_type;
  if (is_fused(node)) return SIZE_MAX;
  if (op == "Concat" || op == "MatMul" || op == "Gemm" || op == "LayerNormalization" || op == "Clip" ||
      op == "Where" || kBinary.contains(op))
    return SIZE_MAX;
  return 1;
}

const Dims& dims_of(const Node& node, const Facts& facts, std::size_t i) {
  return facts.dims.at(node.inputs.at(i));
}

}  // namespace

std::int64_t number(const Node& node, const char* key, std::int64_t otherwise) {
  const auto* found = node.attribute<std::int64_t>(key);
  return found == nullptr ? otherwise : *found;
}
float real(const Node& node, const char* key, float otherwise) {
  const auto* found = node.attribute<float>(key);
  return found == nullptr ? otherwise : *found;
}
bool has(const Node& node, std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); }
std::vector<std::int64_t> list(const Node& node, const Facts& facts, const char* key, std::size_t i) {
  if (const auto* found = node.attribute<std::vector<std::int64_t>>(key)) return *found;
  if (has(node, i) && facts.constant(node.inputs[i])) return facts.constants.at(node.inputs[i]).ints;
  return {};
}
std::int64_t elements_of(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}
std::uint32_t axis_of(std::int64_t axis, std::size_t rank) {
  return static_cast<std::uint32_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

bool is_reshape(const Node& node) {
  static const std::set<std::string> kNames = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
  return node.domain.empty() && kNames.contains(node.op_type);
}

bool is_pointwise(const Node& node) {
  static const std::set<std::string> kNames = {"Gelu",     "Clip",    "HardSigmoid", "LeakyRelu",
                                               "Identity", "Dropout", "Cast"};
  return node.domain.empty() &&
         (kUnary.contains(node.op_type) || kBinary.contains(node.op_type) || kNames.contains(node.op_type));
}

bool is_movement(const Node& node) { return node.domain.empty() && kMovements.contains(node.op_type); }

std::string why_not(const Node& node, const Facts& facts, std::int64_t opset) {
  const std::string& op = node.op_type;
  const bool plain =
      node.domain.empty() && (op == "Where" || kUnary.contains(op) || kBinary.contains(op) ||
                              kReductions.contains(op) || kMovements.contains(op) || kOthers.contains(op));
  if (!plain && !is_fused(node)) return "no form for the device";
  if (opset < 7 && kBinary.contains(op)) return "its broadcasting before opset 7";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!has(node, i)) continue;
    const bool how = i >= first_parameter(node) || (op == "Where" && i == 0);
    if (how && !facts.constant(node.inputs[i])) return fmt::format("input {} is not constant", i);
    const bool given = facts.constant(node.inputs[i]) && is_integer(facts.elements.at(node.inputs[i]));
    if (!how && !given && !is_floating(facts.elements.at(node.inputs[i]))) return "integers";
    if (!how && elements_of(dims_of(node, facts, i)) < 1) return "an empty tensor";
  }
  for (const std::string& name : node.outputs) {
    if (name.empty() || !facts.dims.contains(name)) continue;
    if (!is_floating(facts.elements.at(name))) return "integers";
    const std::int64_t count = elements_of(facts.dims.at(name));
    if (count < 1 || count > (std::int64_t{1} << 31)) return "a tensor that is empty or absurdly large";
  }
  if (op == "Cast" && number(node, "to", 1) == static_cast<std::int64_t>(Element::BFloat16))
    return "BFLOAT16 rounding";
  if (op == "LeakyRelu" && !(real(node, "alpha", 0.01F) >= 0 && real(node, "alpha", 0.01F) <= 1))
    return "its slope";
  if (op == "Dropout" && node.outputs.size() > 1) return "its mask";
  return is_fused(node) ? why_no_fused(node, facts) : "";
}

double work_of(const Node& node, const Facts& facts) {
  if (node.op_type != "MatMul" && node.op_type != "Gemm") return 0;
  const Dims& x = dims_of(node, facts, 0);
  const bool turned = node.op_type == "Gemm" && number(node, "transA", 0) != 0;
  const std::int64_t k = x.empty() ? 1 : turned ? x.front() : x.back();
  return static_cast<double>(elements_of(facts.dims.at(node.outputs[0]))) * static_cast<double>(k);
}

Lowering::Lowering(const std::string& name, const Facts& facts, std::int64_t opset)
    : facts_(facts), opset_(opset), builder_(name) {}

void Lowering::host(const std::string& name) {
  values_[name] = builder_.host(name, graph_shape(facts_.dims.at(name)));
}

std::string Lowering::path(const char* suffix) {
  const std::string name = node_ + suffix;
  const int n = paths_[name]++;
  return n == 0 ? name : fmt::format("{}#{}", name, n + 1);
}

Shape Lowering::out_shape(const Node& node, std::size_t i) const {
  return graph_shape(facts_.dims.at(node.outputs.at(i)));
}

void Lowering::give(const Node& node, ValueId id, std::size_t i) {
  TW_CHECK(tensor::elements(builder_.shape(id)) == tensor::elements(out_shape(node, i)),
           "another number of elements: " + node.outputs.at(i));
  values_[node.outputs.at(i)] = id;
}

ValueId Lowering::parameter(const std::string& name, const Shape& shape, std::vector<float> values) {
  std::string unique = name;
  for (int n = 2; parameters.contains(unique); ++n) unique = fmt::format("{}#{}", name, n);
  parameters[unique] = std::move(values);
  return builder_.parameter(unique, shape);
}

ValueId Lowering::value(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end())
    return reshaped(found->second, graph_shape(facts_.dims.at(name)));
  const Tensor& tensor = facts_.constants.at(name);
  std::vector<float> values = tensor.floats;
  if (is_integer(tensor.element)) values.assign(tensor.ints.begin(), tensor.ints.end());
  return values_[name] = parameter(name, graph_shape(tensor.dims), std::move(values));
}

// A vector of a norm; its axes may be several.
ValueId Lowering::vector(const Node& node, std::size_t input, std::uint32_t width, float otherwise) {
  if (!has(node, input))
    return parameter(node_ + (input == 1 ? ".scale" : ".bias"), {width},
                     std::vector<float>(width, otherwise));
  return reshaped(value(node.inputs[input]), {width});
}

void Lowering::lower(const Node& node) {
  node_ = node.outputs.at(0);
  if (node.domain == kFused || is_fused(node))
    fused(node);
  else if (node.op_type == "Where")
    choose(node);
  else if (kUnary.contains(node.op_type) || kBinary.contains(node.op_type) || node.op_type == "Gelu")
    pointwise(node);
  else if (kReductions.contains(node.op_type))
    reduce(node);
  else if (kMovements.contains(node.op_type))
    move(node);
  else if (node.op_type == "MatMul")
    matmul(node);
  else if (node.op_type == "Gemm")
    gemm(node);
  else if (node.op_type == "Softmax")
    softmax(node);
  else if (node.op_type == "LayerNormalization")
    layer_norm(node);
  else if (node.op_type == "HardSigmoid")
    hard_sigmoid(node);
  else if (node.op_type == "LeakyRelu")
    leaky_relu(node);
  else
    clip(node);
}

void Lowering::pointwise(const Node& node) {
  ValueId x = value(node.inputs[0]);
  if (node.op_type == "Gelu") {
    x = as_rows(x);
    const auto* form = node.attribute<std::string>("approximate");
    return give(node, form != nullptr && *form == "tanh" ? builder_.gelu(path(), x)
                                                         : builder_.unary(path(), Unary::GeluErf, x));
  }
  if (const auto f = kUnary.find(node.op_type); f != kUnary.end())
    return give(node, builder_.unary(path(), f->second, as_rows(x)));
  const Binary f = kBinary.at(node.op_type);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) x = binary(f, x, value(node.inputs[i]));
  give(node, x);
}

ValueId Lowering::binary(Binary f, ValueId x, ValueId y) {
  Shape a = builder_.shape(x), b = builder_.shape(y);
  const auto one = [](const Shape& s) { return s.size() < 2 || s[s.size() - 2] == 1; };
  const auto drop = [](Shape& s) {
    if (s.size() > 1) s.erase(s.end() - 2);
  };
  while (std::max(a.size(), b.size()) > 2 && one(a) && one(b)) drop(a), drop(b);
  x = reshaped(x, a);
  y = reshaped(y, b);
  if (f != Binary::Add) return builder_.binary(path(), f, x, y);
  const bool turned = tensor::elements(a) < tensor::elements(b);  // a bias stands second
  return builder_.add(path(), turned ? y : x, turned ? x : y);
}

ValueId Lowering::as_rows(ValueId x) {
  Shape shape = builder_.shape(x);
  while (shape.size() > 2 && shape[shape.size() - 2] == 1) shape.erase(shape.end() - 2);
  return reshaped(x, shape);
}

void Lowering::matmul(const Node& node) {
  ValueId x = value(node.inputs[0]), y = value(node.inputs[1]);
  if (facts_.constant(node.inputs[1]) && builder_.shape(y).size() == 2) x = as_rows(x);
  Shape left = builder_.shape(x), right = builder_.shape(y);
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  give(node, builder_.gemm(path(), reshaped(x, left), reshaped(y, right)));
}

void Lowering::gemm(const Node& node) {
  ValueId x = value(node.inputs[0]);
  if (number(node, "transA", 0) != 0) x = builder_.transpose(path(), x, {1, 0});
  const float alpha = real(node, "alpha", 1.0F), beta = real(node, "beta", 1.0F);
  const bool turned = number(node, "transB", 0) != 0;
  ValueId y;
  if (facts_.constant(node.inputs[1])) {  // as the matrix that a product takes
    const Tensor& t = facts_.constants.at(node.inputs[1]);
    const auto rows = static_cast<std::size_t>(t.dims[0]), cols = static_cast<std::size_t>(t.dims[1]);
    std::vector<float> matrix(t.floats.size());
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        matrix[turned ? c * rows + r : r * cols + c] = alpha * t.floats[r * cols + c];
    const Shape shape = graph_shape(turned ? Dims{t.dims[1], t.dims[0]} : t.dims);
    y = parameter(node.inputs[1], shape, std::move(matrix));
  } else {
    y = value(node.inputs[1]);
    if (turned) y = builder_.transpose(path(), y, {1, 0});
  }
  ValueId out = builder_.gemm(path(), x, y);
  if (alpha != 1.0F && !facts_.constant(node.inputs[1]))
    out = builder_.binary(path(), Binary::Multiply, out, parameter(node_ + ".alpha", {1}, {alpha}));
  if (has(node, 2)) {
    ValueId c = value(node.inputs[2]);
    if (beta != 1.0F)
      c = builder_.binary(path(), Binary::Multiply, c, parameter(node_ + ".beta", {1}, {beta}));
    out = builder_.add(path(), out, c);
  }
  give(node, out);
}

void Lowering::softmax(const Node& node) {
  const ValueId x = value(node.inputs[0]);
  const Shape shape = builder_.shape(x);
  const std::uint32_t axis = axis_of(number(node, "axis", opset_ < 13 ? 1 : -1), shape.size());
  if (opset_ < 13) {  // over all axes from `axis` on
    std::uint32_t outer = 1;
    for (std::uint32_t i = 0; i < axis; ++i) outer *= shape[i];
    const Shape flat{outer, static_cast<std::uint32_t>(tensor::elements(shape)) / outer};
    return give(node, builder_.softmax(path(), reshaped(x, flat)));
  }
  std::vector<std::uint32_t> back(shape.size());
  std::iota(back.begin(), back.end(), 0U);
  if (axis + 1 == shape.size()) return give(node, builder_.softmax(path(), as_rows(x)));
  const ValueId y = builder_.softmax(path(), moved_last(x, {axis}));
  for (std::uint32_t i = 0; i < back.size(); ++i)
    back[i] = i < axis ? i : i == axis ? static_cast<std::uint32_t>(shape.size()) - 1 : i - 1;
  give(node, builder_.transpose(path(), y, back));
}

void Lowering::reduce(const Node& node) {
  ValueId x = value(node.inputs[0]);
  const Shape shape = builder_.shape(x);
  std::vector<std::uint32_t> axes;
  for (const std::int64_t a : list(node, facts_, "axes", 1)) axes.push_back(axis_of(a, shape.size()));
  if (node.op_type == "GlobalAveragePool")
    for (std::uint32_t i = 2; i < shape.size(); ++i) axes.push_back(i);
  if (axes.empty() && number(node, "noop_with_empty_axes", 0) != 0) return give(node, x);
  if (axes.empty()) {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0U);
  }
  std::ranges::sort(axes);
  std::uint32_t width = 1;
  for (const std::uint32_t a : axes) width *= shape[a];
  const bool root = node.op_type == "ReduceL2";
  if (root || node.op_type == "ReduceSumSquare") x = builder_.binary(path(), Binary::Multiply, x, x);
  const auto rows = static_cast<std::uint32_t>(tensor::elements(shape)) / width;
  ValueId y =
      builder_.reduce(path(), kReductions.at(node.op_type), reshaped(moved_last(x, axes), {rows, width}));
  if (root) y = builder_.unary(path(), Unary::Sqrt, y);
  give(node, y);
}

void Lowering::layer_norm(const Node& node) {
  const ValueId x = value(node.inputs[0]);
  const Shape shape = builder_.shape(x);
  const std::uint32_t axis = axis_of(number(node, "axis", -1), shape.size());
  const float epsilon = real(node, "epsilon", 1e-5F);
  std::uint32_t rows = 1;
  for (std::uint32_t i = 0; i < axis; ++i) rows *= shape[i];
  const std::uint32_t width = static_cast<std::uint32_t>(tensor::elements(shape)) / rows;
  const bool last = axis + 1 == shape.size();
  const ValueId flat = last ? as_rows(x) : reshaped(x, {rows, width});
  give(node, builder_.layer_norm(path(), flat, vector(node, 1, width, 1.0F), vector(node, 2, width, 0.0F),
                                 epsilon));
  const auto wanted = [&](std::size_t i) { return i < node.outputs.size() && !node.outputs[i].empty(); };
  if (!wanted(1) && !wanted(2)) return;
  const ValueId mean = builder_.reduce(path(), Reduction::Mean, flat);
  if (wanted(1)) give(node, mean, 1);
  if (!wanted(2)) return;
  const ValueId centred = builder_.binary(path(), Binary::Subtract, flat, mean);
  const ValueId variance =
      builder_.reduce(path(), Reduction::Mean, builder_.binary(path(), Binary::Multiply, centred, centred));
  const ValueId sum = builder_.add(path(), variance, parameter(node_ + ".epsilon", {1}, {epsilon}));
  give(node, builder_.unary(path(), Unary::Reciprocal, builder_.unary(path(), Unary::Sqrt, sum)), 2);
}

void Lowering::clip(const Node& node) {
  ValueId x = value(node.inputs[0]);
  const auto bound = [&](const char* key, std::size_t i) -> std::optional<ValueId> {
    if (has(node, i)) return value(node.inputs[i]);
    const auto* found = node.attribute<float>(key);
    if (found == nullptr) return {};
    return parameter(fmt::format("{}.{}", node_, key), {1}, {*found});
  };
  if (const auto low = bound("min", 1)) x = builder_.binary(path(), Binary::Maximum, x, *low);
  if (const auto high = bound("max", 2)) x = builder_.binary(path(), Binary::Minimum, x, *high);
  give(node, x);
}

void Lowering::hard_sigmoid(const Node& node) {
  const auto number_of = [&](const char* suffix, float v) { return parameter(node_ + suffix, {1}, {v}); };
  ValueId x = builder_.binary(path(), Binary::Multiply, value(node.inputs[0]),
                              number_of(".alpha", real(node, "alpha", 0.2F)));
  x = builder_.add(path(), x, number_of(".beta", real(node, "beta", 0.5F)));
  x = builder_.binary(path(), Binary::Maximum, x, number_of(".min", 0.0F));
  give(node, builder_.binary(path(), Binary::Minimum, x, number_of(".max", 1.0F)));
}

// The larger of x and alpha x, for alpha from 0 to 1.
void Lowering::leaky_relu(const Node& node) {
  const ValueId x = value(node.inputs[0]);
  const ValueId low = builder_.binary(path(), Binary::Multiply, x,
                                      parameter(node_ + ".alpha", {1}, {real(node, "alpha", 0.01F)}));
  give(node, builder_.binary(path(), Binary::Maximum, x, low));
}

graph::Graph Lowering::finish(const std::vector<std::string>& outputs) {
  std::vector<ValueId> ids;
  for (const std::string& name : outputs) {
    ValueId id = value(name);
    if (std::ranges::find(ids, id) != ids.end()) {  // the same value under two names
      node_ = name;
      id = builder_.reshape(path(".again"), id, builder_.shape(id));
    }
    ids.push_back(id);
  }
  return builder_.finish(ids);
}

}  // namespace tw::onnx
