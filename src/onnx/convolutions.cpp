#include "onnx/convolutions.h"

#include <algorithm>
#include <cmath>

#include "onnx/lower.h"
#include "onnx/net.h"
#include "onnx/replace.h"

namespace tw::onnx {
namespace {

// y = factor x + sum, per channel.
struct Affine {
  std::vector<float> factor, sum;
};
std::optional<Affine> affine_of(const Node& node, const Facts& facts) {
  if (!node.domain.empty() || node.op_type != "BatchNormalization" || number(node, "training_mode", 0) != 0)
    return {};
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) return {};
  for (std::size_t i = 1; i < 5; ++i)
    if (!has(node, i) || !facts.constant(node.inputs[i]) || !is_floating(facts.elements.at(node.inputs[i])))
      return {};
  const auto vector = [&](std::size_t i) -> const std::vector<float>& {
    return facts.constants.at(node.inputs[i]).floats;
  };
  Affine a{vector(1), vector(2)};
  const double epsilon = real(node, "epsilon", 1e-5F);
  for (std::size_t c = 0; c < a.factor.size(); ++c) {
    const double factor = a.factor[c] / std::sqrt(vector(4)[c] + epsilon);
    a.sum[c] = static_cast<float>(a.sum[c] - factor * vector(3)[c]);
    a.factor[c] = static_cast<float>(factor);
  }
  return a;
}

// The convolution with the affine map behind it.
Node scaled_convolution(const Node& conv, const Node& norm, const Affine& a, Facts& facts,
                        std::vector<Node>& nodes) {
  Replacement r(norm, facts, nodes);
  Tensor w = facts.constants.at(conv.inputs[1]);
  const std::size_t channels = a.factor.size(), per = w.floats.size() / channels;
  Tensor bias{
      .element = Element::Float, .dims = {static_cast<std::int64_t>(channels)}, .floats = a.sum, .ints = {}};
  for (std::size_t o = 0; o < channels; ++o) {
    for (std::size_t i = 0; i < per; ++i) w.floats[o * per + i] *= a.factor[o];
    if (has(conv, 2)) bias.floats[o] += a.factor[o] * facts.constants.at(conv.inputs[2]).floats[o];
  }
  Node out = conv;
  out.inputs = {conv.inputs[0], r.constant(".weights", std::move(w)), r.constant(".bias", std::move(bias))};
  out.outputs = {norm.outputs[0]};
  return out;
}

void as_factor_and_sum(const Node& norm, Affine a, Facts& facts, std::vector<Node>& nodes) {
  Replacement r(norm, facts, nodes);
  const Dims x = facts.dims.at(norm.inputs[0]);
  Dims dims(x.size() > 1 ? x.size() - 1 : 1, 1);
  dims[0] = static_cast<std::int64_t>(a.factor.size());
  const auto constant = [&](const char* suffix, std::vector<float> v) {
    return r.constant(suffix, {.element = Element::Float, .dims = dims, .floats = std::move(v), .ints = {}});
  };
  const std::string y =
      r.add("Mul", {norm.inputs[0], constant(".factor", std::move(a.factor))}, r.out() + ".scaled", x);
  r.add("Add", {y, constant(".sum", std::move(a.sum))}, r.out(), x);
}

}  // namespace

Window window_of(const Node& node, const Facts& facts) {
  const Dims &x = facts.dims.at(node.inputs[0]), &w = facts.dims.at(node.inputs[1]),
             &out = facts.dims.at(node.outputs[0]);
  const auto given = [&](const char* key, std::int64_t otherwise, std::size_t n) {
    const auto* found = node.attribute<Ints>(key);
    return found == nullptr || found->size() != n ? Ints(n, otherwise) : *found;
  };
  Window at{given("strides", 1, 2), given("dilations", 1, 2), given("pads", 0, 4)};
  const auto* pad = node.attribute<std::string>("auto_pad");
  const bool same = pad != nullptr && pad->starts_with("SAME");
  if (pad != nullptr && *pad == "VALID") at.pad.assign(4, 0);
  for (std::size_t a = 0; a < 2 && same; ++a) {
    const std::int64_t all = std::max<std::int64_t>(
        (out[a + 2] - 1) * at.stride[a] + at.dilation[a] * (w[a + 2] - 1) + 1 - x[a + 2], 0);
    at.pad[a] = *pad == "SAME_LOWER" ? all - all / 2 : all / 2;
    at.pad[a + 2] = all - at.pad[a];
  }
  return at;
}

namespace {

bool is_product_of_shifts(const Node& node, const Facts& facts) {
  if (!node.domain.empty() || node.op_type != "Conv" || !facts.constant(node.inputs[1])) return false;
  const Dims &x = facts.dims.at(node.inputs[0]), &w = facts.dims.at(node.inputs[1]);
  if (x.size() != 4 || (has(node, 2) && !facts.constant(node.inputs[2]))) return false;
  const Window at = window_of(node, facts);
  if (w[2] * w[3] > 9 || number(node, "group", 1) != 1 || std::ranges::min(at.pad) < 0) return false;
  // Something else than padding is read.
  for (std::size_t a = 0; a < 2; ++a) {
    bool inside = false;
    for (std::int64_t i = 0; i < facts.dims.at(node.outputs[0])[a + 2]; ++i)
      for (std::int64_t k = 0; k < w[a + 2]; ++k) {
        const std::int64_t from = at.stride[a] * i + at.dilation[a] * k - at.pad[a];
        inside = inside || (from >= 0 && from < x[a + 2]);
      }
    if (!inside) return false;
  }
  return true;
}

// [c_out,c_in,kh,kw] as [c_in, kh kw c_out].
Tensor matrix_of(const Tensor& w) {
  const std::int64_t o = w.dims[0], c = w.dims[1], k = w.dims[2] * w.dims[3];
  Tensor m{.element = Element::Float,
           .dims = {c, k * o},
           .floats = std::vector<float>(w.floats.size()),
           .ints = {}};
  for (std::int64_t row = 0; row < c; ++row)
    for (std::int64_t at = 0; at < k; ++at)
      for (std::int64_t col = 0; col < o; ++col)
        m.floats[static_cast<std::size_t>((row * k + at) * o + col)] =
            w.floats[static_cast<std::size_t>((col * c + row) * k + at)];
  return m;
}

// y[i] = x[stride i + shift] along an axis, `extent` elements; zero where there is no x. Empty: all of y is
// zero.
std::string shifted(Replacement& r, Facts& facts, std::string x, const std::string& path, std::int64_t axis,
                    std::int64_t stride, std::int64_t shift, std::int64_t extent) {
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t length = facts.dims.at(x)[at];
  const auto reads = [&](std::int64_t i) { return stride * i + shift; };
  std::int64_t first = 0, end = extent;
  while (first < extent && reads(first) < 0) ++first;
  while (end > first && reads(end - 1) >= length) --end;
  if (end == first) return {};
  if (reads(first) > 0 || reads(end - 1) + 1 < length || stride > 1)
    x = r.slice(x, path + ".part", axis, reads(first), end - first, stride);
  if (first == 0 && end == extent) return x;
  Dims dims = facts.dims.at(x);
  std::vector<std::string> parts;
  const auto zeros = [&](std::int64_t count, const char* name) {
    if (count == 0) return;
    dims[at] = count;
    Tensor t{.element = Element::Float, .dims = dims, .floats = {}, .ints = {}};
    t.floats.assign(static_cast<std::size_t>(elements_of(dims)), 0.0F);
    parts.push_back(r.constant(path.substr(r.out().size()) + name, std::move(t)));
  };
  zeros(first, ".before");
  parts.push_back(x);
  zeros(extent - end, ".behind");
  dims[at] = extent;
  return r.add("Concat", std::move(parts), path + ".shifted", dims, {{"axis", axis}});
}

void replace_convolution(const Node& node, Facts& facts, std::vector<Node>& nodes) {
  Replacement r(node, facts, nodes);
  const Tensor& w = facts.constants.at(node.inputs[1]);
  const Dims x = facts.dims.at(node.inputs[0]), out = facts.dims.at(node.outputs[0]);
  const std::int64_t o = w.dims[0], kh = w.dims[2], kw = w.dims[3];
  const Window at = window_of(node, facts);
  const std::string& base = r.out();
  std::string y = r.transpose(node.inputs[0], base + ".rows", {0, 2, 3, 1});
  y = r.reshape(y, base + ".matrix", {x[0] * x[2] * x[3], x[1]});
  y = r.add("MatMul", {y, r.constant(".weights", matrix_of(w))}, base + ".product",
            {x[0] * x[2] * x[3], kh * kw * o});
  y = r.reshape(y, base + ".positions", {x[0], x[2], x[3], kh * kw * o});
  std::string sum;
  const Dims rows{out[0], out[2], out[3], o};
  for (std::int64_t i = 0; i < kh * kw; ++i) {
    const std::string path = base + ".at" + std::to_string(i);
    std::string part = kh * kw == 1 ? y : r.slice(y, path, 3, i * o, o);
    for (const std::int64_t a : {0, 1}) {
      const auto axis = static_cast<std::size_t>(a);
      const std::int64_t k = a == 0 ? i / kw : i % kw;
      if (!part.empty())
        part = shifted(r, facts, part, path + (a == 0 ? ".y" : ".x"), a + 1, at.stride[axis],
                       at.dilation[axis] * k - at.pad[axis], out[axis + 2]);
    }
    if (part.empty()) continue;
    sum = sum.empty() ? part : r.add("Add", {sum, part}, path + ".sum", rows);
  }
  if (has(node, 2)) sum = r.add("Add", {sum, node.inputs[2]}, base + ".biased", rows);
  r.transpose(sum, base, {0, 3, 1, 2});
}

}  // namespace

void fold_batch_norms(Model& model, Facts& facts) {
  const Net net(model, facts);
  std::vector<Node> nodes;
  for (const Node& node : model.nodes) {
    const auto affine = affine_of(node, facts);
    if (!affine) {
      nodes.push_back(node);
      continue;
    }
    const Node* conv = net.producer(node.inputs[0], "Conv");
    const auto weights = [&](std::size_t i) {
      return facts.constant(conv->inputs[i]) && is_floating(facts.elements.at(conv->inputs[i])) &&
             facts.dims.at(conv->inputs[i]).at(0) == static_cast<std::int64_t>(affine->factor.size());
    };
    const bool whole =
        conv != nullptr && net.readers(node.inputs[0]) == 1 && weights(1) && (!has(*conv, 2) || weights(2));
    if (whole)
      nodes.push_back(scaled_convolution(*conv, node, *affine, facts, nodes));
    else
      as_factor_and_sum(node, *affine, facts, nodes);
  }
  model.nodes = std::move(nodes);
  drop_dead(model);
}

std::set<std::size_t> convolutions_for_device(const Model& model, const Facts& facts) {
  std::set<std::string> behind;  // values that depend on a product
  const bool alone = std::ranges::none_of(model.nodes, [&](const Node& n) { return work_of(n, facts) > 0; });
  std::set<std::size_t> found;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const Node& node = model.nodes[i];
    const bool reads =
        std::ranges::any_of(node.inputs, [&](const auto& name) { return behind.contains(name); });
    if (reads || work_of(node, facts) > 0) behind.insert(node.outputs.begin(), node.outputs.end());
    if ((reads || alone) && is_product_of_shifts(node, facts)) found.insert(i);
  }
  return found;
}

void rewrite_convolutions(Model& model, Facts& facts, const std::set<std::size_t>& which) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    if (which.contains(i))
      replace_convolution(model.nodes[i], facts, nodes);
    else
      nodes.push_back(model.nodes[i]);
  }
  model.nodes = std::move(nodes);
}

}  // namespace tw::onnx
