// Layer norms that exporters take apart.
#include "onnx/lower.h"
#include "onnx/patterns.h"

namespace tw::onnx {
namespace {

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

// mean((x - mean(x))^2) + epsilon: gives epsilon.
std::optional<float> variance(const Net& net, const std::string& name, const std::string& x) {
  const Node* add = net.producer(name, "Add");
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

// A root of that, or with `inverse` its reciprocal.
std::optional<float> deviation(const Net& net, const std::string& name, const std::string& x, bool inverse) {
  if (const Node* pow = net.producer(name, "Pow");
      pow != nullptr && net.is(pow->inputs[1], inverse ? -0.5 : 0.5))
    return variance(net, pow->inputs[0], x);
  if (inverse) {
    if (const Node* r = net.producer(name, "Reciprocal")) return deviation(net, r->inputs[0], x, false);
    const Node* div = net.producer(name, "Div");
    return div != nullptr && net.is(div->inputs[0], 1.0) ? deviation(net, div->inputs[1], x, false)
                                                         : std::nullopt;
  }
  const Node* root = net.producer(name, "Sqrt");
  return root == nullptr ? std::nullopt : variance(net, root->inputs[0], x);
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
  if (const Node* div = net.producer(name, "Div"))
    if (const auto x = centred(net, div->inputs[0]))
      if (const auto epsilon = deviation(net, div->inputs[1], *x, false)) return Norm{*x, *epsilon};
  if (const Node* mul = net.producer(name, "Mul"))
    for (std::size_t i = 0; i < 2; ++i)
      if (const auto x = centred(net, mul->inputs[i]))
        if (const auto epsilon = deviation(net, mul->inputs[1 - i], *x, true)) return Norm{*x, *epsilon};
  return {};
}

}  // namespace

std::optional<Node> find_layer_norm(const Net& net, const Node& node) {
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

}  // namespace tw::onnx
