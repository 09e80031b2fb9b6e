// Rotary positions in every spelling as one node.
#include <algorithm>

#include "onnx/lower.h"
#include "onnx/patterns.h"

namespace tw::onnx {
namespace {

struct Rotation {
  std::string x;
  std::vector<float> cosine, sine;  // [rows, width]
  bool interleaved = false;
};

// A constant that is the same for all streams, as [rows, width].
std::optional<std::vector<float>> table(const Net& net, const std::string& name, const Dims& dims) {
  const auto found = net.facts().constants.find(name);
  if (found == net.facts().constants.end() || !is_floating(found->second.element)) return {};
  const Tensor& t = found->second;
  const std::int64_t rows = dims[dims.size() - 2], width = dims.back();
  Dims own(2, 1);
  for (std::size_t i = 0; i < t.dims.size(); ++i) {
    const std::size_t from_end = t.dims.size() - i;
    if (from_end <= 2)
      own[2 - from_end] = t.dims[i];
    else if (t.dims[i] != 1)
      return {};
  }
  if ((own[0] != 1 && own[0] != rows) || (own[1] != 1 && own[1] != width)) return {};
  std::vector<float> out;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < width; ++c)
      out.push_back(
          t.floats[static_cast<std::size_t>((own[0] == 1 ? 0 : r) * own[1] + (own[1] == 1 ? 0 : c))]);
  return out;
}

// Is `origin` the exchange of pairs? Then `signs` has the sign of every column.
bool is_exchange(const std::vector<std::int64_t>& origin, std::int64_t width, bool interleaved,
                 std::vector<float>& signs) {
  signs.assign(static_cast<std::size_t>(width), 0);
  const std::int64_t half = width / 2;
  for (std::size_t i = 0; i < origin.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i), c = at % width;
    const std::int64_t partner = interleaved ? c ^ 1 : c < half ? c + half : c - half;
    const float sign = origin[i] < 0 ? -1.0F : 1.0F;
    float& known = signs[static_cast<std::size_t>(c)];
    if (std::abs(origin[i]) - 1 != at - c + partner || (known != 0 && known != sign)) return false;
    known = sign;
  }
  return true;
}

std::optional<Rotation> rotation(const Net& net, const std::string& name) {
  const Node* add = net.producer(name, "Add");
  if (add == nullptr || net.dims(name).size() < 2 || net.dims(name).back() % 2 != 0) return {};
  const Dims& dims = net.dims(name);
  const std::int64_t width = dims.back();
  for (std::size_t first = 0; first < 2; ++first) {
    const Node *plain = net.producer(add->inputs[first], "Mul"),
               *turned = net.producer(add->inputs[1 - first], "Mul");
    if (plain == nullptr || turned == nullptr) return {};
    for (std::size_t i = 0; i < 4; ++i) {
      const std::string &x = plain->inputs[i % 2], &r = turned->inputs[i / 2];
      const auto cosine = table(net, plain->inputs[1 - i % 2], dims),
                 sine = table(net, turned->inputs[1 - i / 2], dims);
      if (!cosine || !sine || net.facts().constant(x) || net.dims(x) != dims || net.dims(r) != dims) continue;
      const std::vector<std::int64_t> origin = origins(net, x, r);
      for (const bool interleaved : {true, false}) {
        std::vector<float> signs;
        if (origin.empty() || !is_exchange(origin, width, interleaved, signs)) continue;
        Rotation out{.x = x, .cosine = *cosine, .sine = *sine, .interleaved = interleaved};
        for (std::size_t e = 0; e < out.sine.size(); ++e) {  // the graph's operation negates the second ones
          const auto c = static_cast<std::int64_t>(e) % width;
          const bool negated = interleaved ? c % 2 == 0 : c < width / 2;
          out.sine[e] *= signs[static_cast<std::size_t>(c)] * (negated ? -1.0F : 1.0F);
        }
        return out;
      }
    }
  }
  return {};
}

// The single value from which a movement takes its elements.
std::string above(const Net& net, std::string name) {
  for (const Node* node = net.producer(name);
       node != nullptr && is_movement(*node) && node->op_type != "Concat" &&
       !net.facts().constant(node->inputs[0]);
       node = net.producer(name))
    name = node->inputs[0];
  return name;
}

// All rows of x but the first ones, which stay as they are.
std::optional<Rotation> partial_rotation(const Net& net, const Node& node) {
  if (!node.domain.empty() || node.op_type != "Concat" || node.inputs.size() != 2) return {};
  const Dims& dims = net.dims(node.outputs[0]);
  if (dims.size() < 2 || axis_of(number(node, "axis", 0), dims.size()) + 2 != dims.size()) return {};
  auto rest = rotation(net, node.inputs[1]);
  if (!rest) return {};
  // Join what comes before the rotation: it must be all of x.
  const std::string x = above(net, rest->x);
  const Dims &first = net.dims(node.inputs[0]), &second = net.dims(rest->x);
  const std::vector<std::int64_t> head = origins(net, x, node.inputs[0]), tail = origins(net, x, rest->x);
  if (head.empty() || tail.empty()) return {};
  std::string whole;
  for (std::string name = rest->x; whole.empty(); name = net.producer(name)->inputs[0]) {
    if (net.dims(name) == dims) whole = name;
    if (name == x) break;
  }
  if (whole.empty()) return {};
  const std::vector<std::int64_t> all = origins(net, x, whole);
  const std::int64_t width = dims.back(), rows = dims[dims.size() - 2];
  const std::int64_t before = first[first.size() - 2], after = second[second.size() - 2];
  if (before + after != rows) return {};
  std::size_t h = 0, t = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool in_head = static_cast<std::int64_t>(i) / width % rows < before;
    const std::vector<std::int64_t>& part = in_head ? head : tail;
    std::size_t& at = in_head ? h : t;
    if (at >= part.size() || part[at++] != all[i]) return {};
  }
  rest->x = whole;
  const auto extra = static_cast<std::size_t>(before * width);
  rest->cosine.insert(rest->cosine.begin(), extra, 1.0F);
  rest->sine.insert(rest->sine.begin(), extra, 0.0F);
  return rest;
}

}  // namespace

bool Heads::rotate(const Node& node) {
  auto found = rotation(net_, node.outputs[0]);
  if (!found) found = partial_rotation(net_, node);
  if (!found) return false;
  const std::string& out = node.outputs[0];
  const Dims& dims = net_.dims(out);
  const Dims table{dims[dims.size() - 2], dims.back()};
  const auto constant = [&](const std::string& name, std::vector<float> values) {
    facts_.constants[name] = {
        .element = Element::Float, .dims = table, .floats = std::move(values), .ints = {}};
    facts_.dims[name] = table;
    facts_.elements[name] = Element::Float;
    return name;
  };
  const std::string x = split(found->x, out + ".x", false, nullptr);
  append(nodes_, facts_,
         {.op_type = "Rope",
          .domain = kFused,
          .name = node.name,
          .inputs = {x, constant(out + ".cos", std::move(found->cosine)),
                     constant(out + ".sin", std::move(found->sine))},
          .outputs = {out + ".streams"},
          .attributes = {{"interleaved", std::int64_t{found->interleaved ? 1 : 0}}}},
         facts_.dims.at(x));
  add("Reshape", "", out + ".streams", out, Dims(dims));
  return true;
}

}  // namespace tw::onnx
