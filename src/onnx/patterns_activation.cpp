// GELU in its forms, SiLU, hard swish.
#include <algorithm>

#include "onnx/lower.h"
#include "onnx/patterns.h"

namespace tw::onnx {
namespace {

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

Node activation(const Node& node, const char* op, const std::string& x) {
  return {.op_type = op,
          .domain = kFused,
          .name = node.name,
          .inputs = {x},
          .outputs = node.outputs,
          .attributes = {}};
}

// x 0.5 (1 + erf(x / sqrt 2)) in any association, or its tanh form.
std::optional<Node> gelu(const Net& net, const Node& node) {
  if (node.op_type != "Mul" && node.op_type != "Div") return {};
  std::vector<std::string> parts;
  double scale = 1;
  factors(net, node.outputs[0], parts, scale);
  if (parts.size() != 2 || !near(scale, 0.5)) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string &x = parts[1 - i], &gate = parts[i];
    Node out = activation(node, "Gelu", x);
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

// clip(x + 3, 0, 6): gives x.
std::optional<std::string> clipped(const Net& net, const std::string& name) {
  const Node* clip = net.producer(name, "Clip");
  if (clip == nullptr) return {};
  const auto bound = [&](const char* key, std::size_t i) {
    const auto* given = clip->attribute<float>(key);
    return given != nullptr ? std::optional<float>(*given)
           : has(*clip, i)  ? net.scalar(clip->inputs[i])
                            : std::nullopt;
  };
  const Node* add = net.producer(clip->inputs[0], "Add");
  if (add == nullptr || bound("min", 1) != 0.0F || bound("max", 2) != 6.0F) return {};
  return net.other(*add, [&](const std::string& n) { return net.is(n, 3.0); });
}

// x sigmoid(x), x sigmoid(1.702 x), x clip(x + 3, 0, 6) / 6.
std::optional<Node> gated(const Net& net, const Node& node) {
  if (node.op_type != "Mul" && node.op_type != "Div") return {};
  std::vector<std::string> parts;
  double scale = 1;
  factors(net, node.outputs[0], parts, scale);
  if (parts.size() != 2) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string &x = parts[1 - i], &gate = parts[i];
    if (const Node* sigmoid = net.producer(gate, "Sigmoid"); sigmoid != nullptr && scale == 1) {
      const Scaled u = scaled(net, sigmoid->inputs[0]);
      if (u.value == x && u.scale == 1) return activation(node, "Silu", x);
      if (u.value == x && near(u.scale, 1.702)) return activation(node, "QuickGelu", x);
    }
    if (near(scale, 1.0 / 6) && clipped(net, gate) == x) return activation(node, "HardSwish", x);
    if (const Node* hard = net.producer(gate, "HardSigmoid"); hard != nullptr && scale == 1)
      if (hard->inputs[0] == x && near(real(*hard, "alpha", 0.2F), 1.0 / 6) &&
          near(real(*hard, "beta", 0.5F), 0.5))
        return activation(node, "HardSwish", x);
  }
  return {};
}

}  // namespace

std::optional<Node> find_activation(const Net& net, const Node& node) {
  if (!node.domain.empty()) return {};
  if (auto found = gelu(net, node)) return found;
  return gated(net, node);
}

}  // namespace tw::onnx
