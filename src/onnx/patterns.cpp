// What exporters take apart, as one node again; patches of a convolution as a product.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "onnx/facts.h"
#include "onnx/lower.h"

namespace tw::onnx {
namespace {

// The nodes by what they write, and how often values are read.
class Net {
 public:
  Net(const Model& model, const Facts& facts) : facts_(facts) {
    for (const Node& node : model.nodes) {
      for (const std::string& name : node.outputs) producer_[name] = &node;
      for (const std::string& name : node.inputs) ++readers_[name];
    }
    for (const Value& v : model.outputs) ++readers_[v.name];
  }
  const Node* producer(const std::string& name, const char* op) const {
    const auto found = producer_.find(name);
    return found != producer_.end() && found->second->op_type == op ? found->second : nullptr;
  }
  std::optional<float> scalar(const std::string& name) const {
    const auto found = facts_.constants.find(name);
    if (found == facts_.constants.end() || found->second.floats.size() != 1) return {};
    return found->second.floats[0];
  }
  bool is(const std::string& name, double wanted) const {
    const auto value = scalar(name);
    return value && std::abs(*value - wanted) <= 1e-4 * std::abs(wanted);
  }
  // The other input of a commutative node whose one input satisfies `test`.
  template <class Test>
  std::optional<std::string> other(const Node& node, Test&& test) const {
    if (node.inputs.size() != 2) return {};
    if (test(node.inputs[0])) return node.inputs[1];
    if (test(node.inputs[1])) return node.inputs[0];
    return {};
  }
  const Facts& facts() const { return facts_; }

 private:
  const Facts& facts_;
  std::map<std::string, const Node*> producer_;
  std::map<std::string, int> readers_;
};

// name = c * value for a scalar c; scale 1 when it is no such product.
struct Scaled {
  std::string value;
  double scale = 1;
};
Scaled scaled(const Net& net, const std::string& name) {
  Scaled s{name, 1};
  for (bool more = true; more;) {
    more = false;
    if (const Node* mul = net.producer(s.value, "Mul")) {
      for (std::size_t i = 0; i < 2; ++i) {
        const auto c = net.scalar(mul->inputs[i]);
        if (!c) continue;
        s = {mul->inputs[1 - i], s.scale * *c};
        more = true;
        break;
      }
    } else if (const Node* div = net.producer(s.value, "Div")) {
      if (const auto c = net.scalar(div->inputs[1]); c && *c != 0) {
        s = {div->inputs[0], s.scale / *c};
        more = true;
      }
    }
  }
  return s;
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

// 1 + f(u): gives u's node.
const Node* one_plus(const Net& net, const std::string& name, const char* f) {
  const Node* add = net.producer(name, "Add");
  if (add == nullptr) return nullptr;
  const auto inner = net.other(*add, [&](const std::string& n) { return net.is(n, 1.0); });
  return inner ? net.producer(*inner, f) : nullptr;
}

// The factors of a product and its scalar.
void factors(const Net& net, const std::string& name, std::vector<std::string>& out, double& scale,
             int depth = 0) {
  const Scaled s = scaled(net, name);
  scale *= s.scale;
  const Node* mul = depth < 3 ? net.producer(s.value, "Mul") : nullptr;
  if (mul == nullptr) {
    out.push_back(s.value);
    return;
  }
  factors(net, mul->inputs[0], out, scale, depth + 1);
  factors(net, mul->inputs[1], out, scale, depth + 1);
}

// u = sqrt(2/pi) (x + 0.044715 x^3)?
bool is_tanh_argument(const Net& net, const std::string& name, const std::string& x) {
  const Scaled outer = scaled(net, name);
  const Node* add = net.producer(outer.value, "Add");
  if (add == nullptr || !near(outer.scale, 0.7978845608)) return false;
  const auto cubic = net.other(*add, [&](const std::string& n) { return n == x; });
  if (!cubic) return false;
  std::vector<std::string> parts;
  double scale = 1;
  factors(net, *cubic, parts, scale);
  if (!near(scale, 0.044715)) return false;
  if (parts.size() == 1) {
    const Node* pow = net.producer(parts[0], "Pow");
    return pow != nullptr && pow->inputs[0] == x && net.is(pow->inputs[1], 3.0);
  }
  return parts.size() == 3 && std::ranges::all_of(parts, [&](const std::string& p) { return p == x; });
}

// x 0.5 (1 + erf(x / sqrt 2)) in any association, or its tanh form.
std::optional<Node> gelu(const Net& net, const Node& node) {
  if (node.op_type != "Mul") return {};
  std::vector<std::string> parts;
  double scale = 1;
  factors(net, node.outputs[0], parts, scale);
  if (parts.size() != 2 || !near(scale, 0.5)) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string &x = parts[1 - i], &gate = parts[i];
    Node out{.op_type = "Gelu",
             .domain = {},
             .name = node.name,
             .inputs = {x},
             .outputs = node.outputs,
             .attributes = {}};
    if (const Node* erf = one_plus(net, gate, "Erf")) {
      const Scaled u = scaled(net, erf->inputs[0]);
      if (u.value == x && near(u.scale, 0.70710678)) return out;
    }
    if (const Node* tanh = one_plus(net, gate, "Tanh");
        tanh != nullptr && is_tanh_argument(net, tanh->inputs[0], x)) {
      out.attributes["approximate"] = std::string("tanh");
      return out;
    }
  }
  return {};
}

bool reduces_last(const Net& net, const Node& node) {
  const auto axes = list(node, net.facts(), "axes", 1);
  const std::size_t rank = net.facts().dims.at(node.inputs[0]).size();
  return axes.size() == 1 && axis_of(axes[0], rank) + 1 == rank && number(node, "keepdims", 1) == 1;
}

// x - mean(x): gives x.
std::optional<std::string> centred(const Net& net, const std::string& name) {
  const Node* sub = net.producer(name, "Sub");
  if (sub == nullptr) return {};
  const Node* mean = net.producer(sub->inputs[1], "ReduceMean");
  if (mean == nullptr || mean->inputs[0] != sub->inputs[0] || !reduces_last(net, *mean)) return {};
  return sub->inputs[0];
}

// sqrt(mean((x - mean(x))^2) + epsilon)?
std::optional<float> deviation(const Net& net, const std::string& name, const std::string& x) {
  const Node* root = net.producer(name, "Sqrt");
  const Node* add = root == nullptr ? nullptr : net.producer(root->inputs[0], "Add");
  if (add == nullptr) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto epsilon = net.scalar(add->inputs[i]);
    const Node* mean = net.producer(add->inputs[1 - i], "ReduceMean");
    if (!epsilon || *epsilon <= 0 || mean == nullptr || !reduces_last(net, *mean)) continue;
    const Node* square = net.producer(mean->inputs[0], "Pow");
    if (square != nullptr && !net.is(square->inputs[1], 2.0)) square = nullptr;
    if (square == nullptr) {
      square = net.producer(mean->inputs[0], "Mul");
      if (square != nullptr && square->inputs[0] != square->inputs[1]) square = nullptr;
    }
    if (square != nullptr && centred(net, square->inputs[0]) == x) return *epsilon;
  }
  return {};
}

bool is_vector_of(const Net& net, const std::string& name, std::int64_t width) {
  const auto found = net.facts().constants.find(name);
  return found != net.facts().constants.end() && found->second.size() == width &&
         !found->second.dims.empty() && found->second.dims.back() == width;
}

struct Norm {
  std::string x;
  float epsilon = 0;
};
std::optional<Norm> plain_norm(const Net& net, const std::string& name) {
  const Node* div = net.producer(name, "Div");
  std::string numerator, divisor;
  if (div != nullptr) {
    numerator = div->inputs[0];
    divisor = div->inputs[1];
  } else if (const Node* mul = net.producer(name, "Mul")) {
    for (std::size_t i = 0; i < 2; ++i)
      if (const Node* r = net.producer(mul->inputs[i], "Reciprocal"))
        numerator = mul->inputs[1 - i], divisor = r->inputs[0];
  }
  if (numerator.empty()) return {};
  const auto x = centred(net, numerator);
  if (!x) return {};
  const auto epsilon = deviation(net, divisor, *x);
  if (!epsilon) return {};
  return Norm{*x, *epsilon};
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias; either vector may be missing.
std::optional<Node> layer_norm(const Net& net, const Node& node) {
  std::string at = node.outputs[0], scale, bias;
  const auto width = [&] { return net.facts().dims.at(node.outputs[0]).back(); };
  if (net.facts().dims.at(at).empty()) return {};
  const auto vector = [&](const std::string& n) { return is_vector_of(net, n, width()); };
  if (const Node* add = net.producer(at, "Add")) {
    const auto rest = net.other(*add, vector);
    if (!rest) return {};
    bias = *rest == add->inputs[0] ? add->inputs[1] : add->inputs[0];
    at = *rest;
  }
  if (const Node* mul = net.producer(at, "Mul")) {
    if (const auto rest = net.other(*mul, vector)) {
      scale = *rest == mul->inputs[0] ? mul->inputs[1] : mul->inputs[0];
      at = *rest;
    }
  }
  const auto norm = plain_norm(net, at);
  if (!norm) return {};
  Node out{.op_type = "LayerNormalization",
           .domain = {},
           .name = node.name,
           .inputs = {norm->x, scale, bias},
           .outputs = node.outputs,
           .attributes = {}};
  out.attributes["epsilon"] = norm->epsilon;
  return out;
}

}  // namespace

void fuse_patterns(Model& model, const Facts& facts) {
  std::vector<Node> fused = model.nodes;
  const Net net(model, facts);
  for (std::size_t i = 0; i < fused.size(); ++i) {
    if (auto norm = layer_norm(net, model.nodes[i])) {
      fused[i] = std::move(*norm);
    } else if (auto g = gelu(net, model.nodes[i])) {
      fused[i] = std::move(*g);
    }
  }
  for (const Node& node : fused)  // constant vectors that only a pattern still reads
    for (const std::string& name : node.inputs)
      if (facts.constant(name)) model.initializers[name] = facts.constants.at(name);
  model.nodes = std::move(fused);
  drop_dead(model);
}

void rewrite_patches(Model& model, const Facts& facts) {
  std::vector<Node> nodes;
  for (Node& node : model.nodes) {
    const Dims x = node.op_type == "Conv" ? facts.dims.at(node.inputs[0]) : Dims{};
    const bool weights = x.size() == 4 && facts.constant(node.inputs[1]);
    if (!weights) {
      nodes.push_back(std::move(node));
      continue;
    }
    const Tensor& w = facts.constants.at(node.inputs[1]);
    const std::vector<std::int64_t> strides = list(node, facts, "strides", SIZE_MAX),
                                    pads = list(node, facts, "pads", SIZE_MAX),
                                    dilations = list(node, facts, "dilations", SIZE_MAX);
    const auto all = [](const std::vector<std::int64_t>& v, std::int64_t n) {
      return std::ranges::all_of(v, [&](std::int64_t e) { return e == n; });
    };
    const auto* pad = node.attribute<std::string>("auto_pad");
    const std::int64_t ph = w.dims[2], pw = w.dims[3];
    const bool patches = strides == std::vector<std::int64_t>{ph, pw} && ph > 1 && all(pads, 0) &&
                         all(dilations, 1) && number(node, "group", 1) == 1 &&
                         (pad == nullptr || *pad == "NOTSET" || *pad == "VALID") && x[2] % ph == 0 &&
                         x[3] % pw == 0 && (!has(node, 2) || facts.constant(node.inputs[2]));
    if (!patches) {
      nodes.push_back(std::move(node));
      continue;
    }
    const std::string base = node.outputs[0];
    const std::int64_t b = x[0], c = x[1], gh = x[2] / ph, gw = x[3] / pw, d = w.dims[0], k = c * ph * pw;
    const auto ints = [&](const std::string& name, std::vector<std::int64_t> v) {
      Tensor t{.element = Element::Int64,
               .dims = {static_cast<std::int64_t>(v.size())},
               .floats = {},
               .ints = std::move(v)};
      model.initializers[base + name] = std::move(t);
      return base + name;
    };
    const auto add = [&](const char* op, std::vector<std::string> in, const std::string& out,
                         std::map<std::string, Attribute> attributes = {}) {
      nodes.push_back({.op_type = op,
                       .domain = {},
                       .name = node.name,
                       .inputs = std::move(in),
                       .outputs = {out},
                       .attributes = std::move(attributes)});
      return out;
    };
    Tensor matrix{
        .element = Element::Float, .dims = {k, d}, .floats = std::vector<float>(w.floats.size()), .ints = {}};
    for (std::int64_t o = 0; o < d; ++o)
      for (std::int64_t i = 0; i < k; ++i)
        matrix.floats[static_cast<std::size_t>(i * d + o)] = w.floats[static_cast<std::size_t>(o * k + i)];
    model.initializers[base + ".matrix"] = std::move(matrix);
    std::string y =
        add("Reshape", {node.inputs[0], ints(".grid", {b, c, gh, ph, gw, pw})}, base + ".gridded");
    y = add("Transpose", {y}, base + ".turned", {{"perm", std::vector<std::int64_t>{0, 2, 4, 1, 3, 5}}});
    y = add("Reshape", {y, ints(".rows", {b, gh * gw, k})}, base + ".patches");
    y = add("MatMul", {y, base + ".matrix"}, base + ".product");
    if (has(node, 2)) y = add("Add", {y, node.inputs[2]}, base + ".biased");
    y = add("Transpose", {y}, base + ".channels", {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    add("Reshape", {y, ints(".shape", {b, d, gh, gw})}, base);
  }
  model.nodes = std::move(nodes);
}

}  // namespace tw::onnx
