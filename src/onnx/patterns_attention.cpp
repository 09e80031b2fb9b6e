// softmax(scale q k^T) v in every spelling as one node, heads as the graph splits and merges them.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "onnx/lower.h"
#include "onnx/patterns.h"

namespace tw::onnx {
namespace {

// A value [..., rows, width] as attention takes it: [streams, rows, width].
struct Operand {
  std::int64_t streams = 1, rows = 1, width = 1;
};
Operand operand_of(const Dims& dims) {
  Operand o{.streams = 1, .rows = dims[dims.size() - 2], .width = dims.back()};
  for (std::size_t i = 0; i + 2 < dims.size(); ++i) o.streams *= dims[i];
  return o;
}

// Values from which `name` comes by movements and, on demand, by scalar factors; itself first.
struct Source {
  std::string name;
  double scale = 1;
};
std::vector<Source> sources(const Net& net, const std::string& name, bool through_scalars) {
  std::vector<Source> out{{.name = name, .scale = 1}};
  for (;;) {
    Source next = out.back();
    const Node* node = net.producer(next.name);
    if (const Scaled s = scaled_once(net, next.name); through_scalars && s.value != next.name) {
      next = {.name = s.value, .scale = next.scale * s.scale};
    } else if (node != nullptr && is_movement(*node) && node->op_type != "Concat" &&
               !net.facts().constant(node->inputs[0])) {
      next.name = node->inputs[0];
    } else {
      return out;
    }
    out.push_back(std::move(next));
  }
}

// Heads that are neighbouring columns of a value?
std::optional<Heads::Columns> split_of(const std::vector<std::int64_t>& origin, std::int64_t batch,
                                       const Operand& o, std::int64_t total) {
  const std::int64_t heads = o.streams / batch;
  if (o.streams % batch != 0 || total % (batch * o.rows) != 0 || origin.empty()) return {};
  const Heads::Columns split{.batch = batch, .width = total / (batch * o.rows), .start = origin[0] - 1};
  if (split.start < 0 || split.start + heads * o.width > split.width) return {};
  std::size_t at = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < o.rows; ++r)
        for (std::int64_t c = 0; c < o.width; ++c)
          if (origin[at++] - 1 != (b * o.rows + r) * split.width + split.start + h * o.width + c) return {};
  return split;
}

// Numbers of images that the streams may belong to, the likely one first.
std::vector<std::int64_t> batches(const Dims& dims, std::int64_t streams) {
  std::vector<std::int64_t> out{dims.size() > 3 ? dims[0] : 1};
  for (std::int64_t b = 1; b <= streams; ++b)
    if (streams % b == 0 && b != out[0]) out.push_back(b);
  return out;
}

// The last two axes exchanged.
std::vector<std::int64_t> turned_over(const std::vector<std::int64_t>& x, const Dims& dims) {
  const std::int64_t rows = dims[dims.size() - 2], cols = dims.back();
  std::vector<std::int64_t> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t block = at / (rows * cols), r = at / cols % rows, c = at % cols;
    out[static_cast<std::size_t>(block * rows * cols + c * rows + r)] = x[i];
  }
  return out;
}

bool is_zero_mask(const Net& net, const std::string& name) {
  const auto found = net.facts().constants.find(name);
  if (found == net.facts().constants.end() || !is_floating(found->second.element)) return false;
  return std::ranges::all_of(found->second.floats, [](float v) { return v == 0.0F; });
}

const Node* softmax_of_rows(const Net& net, const std::string& name) {
  const Node* node = net.producer(name, "Softmax");
  if (node == nullptr) return nullptr;
  const std::size_t rank = net.dims(name).size();
  const std::uint32_t axis = axis_of(number(*node, "axis", net.opset() < 13 ? 1 : -1), rank);
  return axis + 1 == rank ? node : nullptr;
}

struct Attention {
  std::string q, k, v;
  bool turned = false;  // k is [..., width, keys]
  double scale = 1;
};
std::optional<Attention> attention(const Net& net, const Node& node) {
  if (!node.domain.empty() || node.op_type != "MatMul") return {};
  const Node* softmax = softmax_of_rows(net, node.inputs[0]);
  if (softmax == nullptr || net.readers(node.inputs[0]) != 1) return {};
  Attention a{.q = {}, .k = {}, .v = node.inputs[1], .turned = true, .scale = 1};
  std::string scores = softmax->inputs[0];
  for (bool more = true; more;) {
    more = false;
    const Scaled s = scaled(net, scores);
    a.scale *= s.scale;
    scores = s.value;
    if (const Node* add = net.producer(scores, "Add")) {
      const auto rest = net.other(*add, [&](const std::string& n) { return is_zero_mask(net, n); });
      if (!rest || net.dims(*rest) != net.dims(scores)) return {};
      scores = *rest;
      more = true;
    }
  }
  const Node* product = net.producer(scores, "MatMul");
  if (product == nullptr || net.readers(scores) != 1) return {};
  a.q = product->inputs[0];
  a.k = product->inputs[1];
  const Dims &q = net.dims(a.q), &k = net.dims(a.k), &v = net.dims(a.v);
  const auto leading = [](const Dims& d) { return Dims(d.begin(), d.end() - 2); };
  if (q.size() < 2 || k.size() != q.size() || v.size() != q.size()) return {};
  if (leading(q) != leading(k) || leading(q) != leading(v)) return {};
  return a;
}

}  // namespace

Heads::Heads(const Net& net, Facts& facts, std::vector<Node>& nodes)
    : net_(net), facts_(facts), nodes_(nodes) {}

std::string Heads::add(const char* op, const char* domain, const std::string& input, const std::string& name,
                       const Dims& dims, std::map<std::string, Attribute> attributes) {
  append(nodes_, facts_,
         {.op_type = op,
          .domain = domain,
          .name = name,
          .inputs = {input},
          .outputs = {name},
          .attributes = std::move(attributes)},
         dims);
  return name;
}

std::string Heads::fixed(const std::string& value, const std::string& path, bool turned) {
  Tensor tensor = net_.facts().constants.at(value);
  Dims dims = tensor.dims;
  if (turned) {
    std::swap(dims[dims.size() - 2], dims.back());
    std::vector<float> floats(tensor.floats.size());
    std::vector<std::int64_t> order(floats.size());
    std::iota(order.begin(), order.end(), 0);
    order = turned_over(order, tensor.dims);
    for (std::size_t i = 0; i < order.size(); ++i)
      floats[i] = tensor.floats[static_cast<std::size_t>(order[i])];
    tensor.floats = std::move(floats);
  }
  const Operand o = operand_of(dims);
  tensor.dims = {o.streams, o.rows, o.width};
  facts_.dims[path] = tensor.dims;
  facts_.elements[path] = tensor.element;
  facts_.constants[path] = std::move(tensor);
  return path;
}

std::string Heads::split(const std::string& value, const std::string& path, bool turned, double* scale) {
  if (net_.facts().constant(value)) return fixed(value, path, turned);
  Dims dims = net_.dims(value);
  std::vector<std::int64_t> perm(dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  if (turned) {
    std::swap(dims[dims.size() - 2], dims.back());
    std::swap(perm[perm.size() - 2], perm.back());
  }
  const Operand o = operand_of(dims);
  const std::vector<Source> above = sources(net_, value, scale != nullptr);
  for (auto source = above.rbegin(); source != above.rend(); ++source) {
    std::vector<std::int64_t> origin = origins(net_, source->name, value, scale != nullptr);
    if (turned) origin = turned_over(origin, net_.dims(value));
    for (const std::int64_t batch : batches(dims, o.streams)) {
      const auto found = split_of(origin, batch, o, elements_of(net_.dims(source->name)));
      if (!found) continue;
      if (scale != nullptr) *scale *= source->scale;
      return columns(source->name, path, *found, o.streams / batch, o.rows, o.width);
    }
  }
  std::string name = value;
  if (turned) name = add("Transpose", "", name, path + ".turned", dims, {{"perm", perm}});
  return add("Reshape", "", name, path, {o.streams, o.rows, o.width});
}

std::string Heads::columns(std::string name, const std::string& path, const Columns& at, std::int64_t heads,
                           std::int64_t rows, std::int64_t width) {
  const Dims all{at.batch, rows, at.width};
  if (net_.dims(name) != all) name = add("Reshape", "", name, path + ".rows", all);
  if (heads * width != at.width)
    name = add("Slice", "", name, path + ".columns", {at.batch, rows, heads * width},
               {{"axes", std::vector<std::int64_t>{2}},
                {"starts", std::vector<std::int64_t>{at.start}},
                {"ends", std::vector<std::int64_t>{at.start + heads * width}}});
  if (heads == 1) return name;
  return add("SplitHeads", kFused, name, path, {at.batch * heads, rows, width}, {{"heads", heads}});
}

bool Heads::merge(const Node& node) {
  if (!is_movement(node)) return false;
  const std::vector<Source> above = sources(net_, node.outputs[0], false);
  const auto known = streams_.find(above.back().name);
  if (above.size() < 2 || known == streams_.end()) return false;
  const std::string& source = above.back().name;
  const Dims& dims = net_.dims(source);
  const Operand o = operand_of(dims);
  const std::vector<std::int64_t> origin = origins(net_, source, node.outputs[0]);
  for (const std::int64_t batch : batches(dims, o.streams)) {
    const std::int64_t heads = o.streams / batch;
    if (heads == 1) continue;
    bool good = static_cast<std::int64_t>(origin.size()) == elements_of(dims);
    std::size_t at = 0;
    for (std::int64_t b = 0; b < batch && good; ++b)
      for (std::int64_t r = 0; r < o.rows && good; ++r)
        for (std::int64_t h = 0; h < heads && good; ++h)
          for (std::int64_t c = 0; c < o.width && good; ++c)
            good = origin[at++] - 1 == ((b * heads + h) * o.rows + r) * o.width + c;
    if (!good) continue;
    const std::string merged = add("MergeHeads", kFused, known->second, node.outputs[0] + ".merged",
                                   {batch, o.rows, heads * o.width}, {{"heads", heads}});
    add("Reshape", "", merged, node.outputs[0], Dims(net_.dims(node.outputs[0])));
    return true;
  }
  return false;
}

bool Heads::attend(const Node& node) {
  const auto a = attention(net_, node);
  if (!a) return false;
  const std::string& out = node.outputs[0];
  double scale = a->scale;
  const std::size_t before = nodes_.size();
  const std::string q = split(a->q, out + ".q", false, &scale), k = split(a->k, out + ".k", true, &scale),
                    v = split(a->v, out + ".v", false, nullptr);
  if (!(scale > 0) || !std::isfinite(scale)) {
    nodes_.resize(before);
    return false;
  }
  const Operand queries = operand_of(net_.dims(a->q)), values = operand_of(net_.dims(a->v));
  append(nodes_, facts_,
         {.op_type = "Attention",
          .domain = kFused,
          .name = node.name,
          .inputs = {q, k, v},
          .outputs = {out + ".streams"},
          .attributes = {{"scale", static_cast<float>(scale)}}},
         {queries.streams, queries.rows, values.width});
  streams_[out] = out + ".streams";
  add("Reshape", "", out + ".streams", out, Dims(net_.dims(out)));
  return true;
}

}  // namespace tw::onnx
