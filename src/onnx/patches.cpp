// Operators that are matrix products in disguise: convolutions of patches, Einsum. Guards that do nothing.
#include <algorithm>
#include <numeric>

#include "onnx/convolutions.h"
#include "onnx/lower.h"
#include "onnx/net.h"
#include "onnx/replace.h"

namespace tw::onnx {
namespace {

// No element of the input is read by two positions; rows and columns that no patch needs may be left.
bool is_of_patches(const Node& node, const Facts& facts) {
  if (!node.domain.empty() || node.op_type != "Conv" || !facts.constant(node.inputs[1])) return false;
  const Dims &x = facts.dims.at(node.inputs[0]), &w = facts.dims.at(node.inputs[1]);
  if (x.size() != 4 || (has(node, 2) && !facts.constant(node.inputs[2]))) return false;
  const Window at = window_of(node, facts);
  return w[2] * w[3] > 1 && at.stride == Ints{w[2], w[3]} && at.pad == Ints(4, 0) &&
         at.dilation == Ints(2, 1) && number(node, "group", 1) == 1 && x[2] >= w[2] && x[3] >= w[3];
}

// [b,c,h,w] as rows of patches times a matrix.
void replace_patches(const Node& node, Facts& facts, std::vector<Node>& nodes) {
  const Tensor& w = facts.constants.at(node.inputs[1]);
  const Dims& x = facts.dims.at(node.inputs[0]);
  const std::int64_t ph = w.dims[2], pw = w.dims[3], b = x[0], c = x[1], gh = x[2] / ph, gw = x[3] / pw,
                     d = w.dims[0], k = c * ph * pw;
  Tensor matrix{
      .element = Element::Float, .dims = {k, d}, .floats = std::vector<float>(w.floats.size()), .ints = {}};
  for (std::int64_t o = 0; o < d; ++o)
    for (std::int64_t i = 0; i < k; ++i)
      matrix.floats[static_cast<std::size_t>(i * d + o)] = w.floats[static_cast<std::size_t>(o * k + i)];
  Replacement r(node, facts, nodes);
  const std::string base = r.out();
  std::string y = node.inputs[0];
  if (x[2] % ph != 0) y = r.slice(y, base + ".whole_rows", 2, 0, gh * ph);
  if (x[3] % pw != 0) y = r.slice(y, base + ".whole_columns", 3, 0, gw * pw);
  y = r.reshape(y, base + ".grid", {b, c, gh, ph, gw, pw});
  y = r.transpose(y, base + ".turned", {0, 2, 4, 1, 3, 5});
  y = r.reshape(y, base + ".patches", {b, gh * gw, k});
  y = r.add("MatMul", {y, r.constant(".matrix", std::move(matrix))}, base + ".product", {b, gh * gw, d});
  if (has(node, 2)) y = r.add("Add", {y, node.inputs[2]}, base + ".biased", {b, gh * gw, d});
  y = r.transpose(y, base + ".channels", {0, 2, 1});
  r.reshape(y, base, {b, d, gh, gw});
}

// An equation of two inputs without repeated labels in one of them: its labels by what they are.
struct Equation {
  std::string a, b, out;
  std::string batch, rows, inner, cols;
};
std::optional<Equation> equation_of(const Node& node) {
  const auto* text = node.attribute<std::string>("equation");
  if (!node.domain.empty() || node.op_type != "Einsum" || text == nullptr || node.inputs.size() != 2)
    return {};
  std::string plain;
  for (const char ch : *text)
    if (ch != ' ') plain += ch;
  const std::size_t comma = plain.find(','), arrow = plain.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return {};
  Equation e{.a = plain.substr(0, comma),
             .b = plain.substr(comma + 1, arrow - comma - 1),
             .out = plain.substr(arrow + 2),
             .batch = {},
             .rows = {},
             .inner = {},
             .cols = {}};
  for (const std::string& labels : {e.a, e.b, e.out})
    for (const char l : labels)
      if (std::ranges::count(labels, l) != 1 || l == '.') return {};
  const auto in = [](const std::string& labels, char l) { return labels.find(l) != std::string::npos; };
  for (const char l : e.a) {
    if (!in(e.b, l) && !in(e.out, l)) return {};
    (in(e.b, l) ? in(e.out, l) ? e.batch : e.inner : e.rows) += l;
  }
  for (const char l : e.b) {
    if (in(e.a, l)) continue;
    if (!in(e.out, l)) return {};
    e.cols += l;
  }
  if (e.out.size() != e.batch.size() + e.rows.size() + e.cols.size() || e.inner.empty()) return {};
  return e;
}

void replace_einsum(const Node& node, const Equation& e, Facts& facts, std::vector<Node>& nodes) {
  Replacement r(node, facts, nodes);
  std::map<char, std::int64_t> extent;
  const Dims a_dims = facts.dims.at(node.inputs[0]), b_dims = facts.dims.at(node.inputs[1]);
  for (std::size_t i = 0; i < e.a.size(); ++i) extent[e.a[i]] = a_dims.at(i);
  for (std::size_t i = 0; i < e.b.size(); ++i) extent[e.b[i]] = b_dims.at(i);
  const auto size = [&](const std::string& labels) {
    std::int64_t n = 1;
    for (const char l : labels) n *= extent.at(l);
    return n;
  };
  const auto order = [](const std::string& from, const std::string& to) {
    Ints perm;
    for (const char l : to) perm.push_back(static_cast<std::int64_t>(from.find(l)));
    return perm;
  };
  const auto matrix = [&](const std::string& x, const std::string& labels, const std::string& first,
                          const std::string& second, const std::string& suffix) {
    Dims dims;
    for (const char l : e.batch) dims.push_back(extent.at(l));
    dims.push_back(size(first));
    dims.push_back(size(second));
    const std::string y = r.transpose(x, r.out() + suffix, order(labels, e.batch + first + second));
    return r.reshape(y, r.out() + suffix + ".matrix", dims);
  };
  const std::string a = matrix(node.inputs[0], e.a, e.rows, e.inner, ".a"),
                    b = matrix(node.inputs[1], e.b, e.inner, e.cols, ".b");
  Dims product, open;
  for (const char l : e.batch) product.push_back(extent.at(l));
  product.push_back(size(e.rows));
  product.push_back(size(e.cols));
  const std::string all = e.batch + e.rows + e.cols;
  for (const char l : all) open.push_back(extent.at(l));
  const std::string y = r.add("MatMul", {a, b}, r.out() + ".product", product);
  r.transpose(r.reshape(y, r.out() + ".open", open), r.out(), order(all, e.out));
}

}  // namespace

void rewrite_products(Model& model, Facts& facts) {
  std::vector<Node> nodes;
  for (Node& node : model.nodes) {
    if (is_of_patches(node, facts))
      replace_patches(node, facts, nodes);
    else if (const auto equation = equation_of(node))
      replace_einsum(node, *equation, facts, nodes);
    else
      nodes.push_back(std::move(node));
  }
  model.nodes = std::move(nodes);
}

void drop_nan_guards(Model& model, const Facts& facts) {
  const Net net(model, facts);
  std::vector<Node> nodes = model.nodes;
  for (Node& node : nodes) {
    const Node* guard = node.op_type == "Where" ? net.producer(node.inputs[0], "IsNaN") : nullptr;
    if (guard == nullptr || guard->inputs[0] != node.inputs[2] ||
        net.dims(node.outputs[0]) != net.dims(node.inputs[2]))
      continue;
    std::string value = node.inputs[2];
    const Node* from = net.producer(value);
    while (from != nullptr && (from->op_type == "Cast" || from->op_type == "Dropout"))
      from = net.producer(from->inputs[0]);
    if (from == nullptr || !from->domain.empty() || from->op_type != "Softmax") continue;
    node = {.op_type = "Identity",
            .domain = {},
            .name = node.name,
            .inputs = {value},
            .outputs = node.outputs,
            .attributes = {}};
  }
  model.nodes = std::move(nodes);
  drop_dead(model);
}

}  // namespace tw::onnx
