#include "onnx/replace.h"

#include "onnx/net.h"

namespace tw::onnx {

std::string Replacement::add(const char* op, std::vector<std::string> inputs, const std::string& out,
                             const Dims& dims, std::map<std::string, Attribute> attributes) {
  const std::string name = out == node_.outputs[0] ? out : fresh(out);
  const Element element = facts_.elements.at(node_.outputs[0]);
  append(nodes_, facts_,
         {.op_type = op,
          .domain = {},
          .name = node_.name,
          .inputs = std::move(inputs),
          .outputs = {name},
          .attributes = std::move(attributes)},
         dims);
  facts_.elements[name] = element;
  return name;
}

std::string Replacement::fresh(std::string name) const {
  while (facts_.dims.contains(name)) name += '_';
  return name;
}

std::string Replacement::constant(const std::string& suffix, Tensor t) {
  const std::string name = fresh(node_.outputs[0] + suffix);
  const Element element = facts_.elements.at(node_.outputs[0]);
  if (is_floating(t.element) && is_floating(element)) {
    t.element = element;
    for (float& v : t.floats) v = round_to(element, v);
  }
  facts_.dims[name] = t.dims;
  facts_.elements[name] = t.element;
  facts_.constants[name] = std::move(t);
  return name;
}

std::string Replacement::integers(const std::string& out, const char* suffix, Ints values) {
  return constant(out.substr(node_.outputs[0].size()) + suffix,
                  {.element = Element::Int64,
                   .dims = {static_cast<std::int64_t>(values.size())},
                   .floats = {},
                   .ints = std::move(values)});
}

std::string Replacement::reshape(const std::string& x, const std::string& out, const Dims& dims) {
  return add("Reshape", {x, integers(out, ".shape", dims)}, out, dims);
}

std::string Replacement::transpose(const std::string& x, const std::string& out, const Ints& perm) {
  Dims dims;
  for (const std::int64_t p : perm) dims.push_back(facts_.dims.at(x)[static_cast<std::size_t>(p)]);
  return add("Transpose", {x}, out, dims, {{"perm", perm}});
}

std::string Replacement::slice(const std::string& x, const std::string& out, std::int64_t axis,
                               std::int64_t start, std::int64_t count, std::int64_t step) {
  Dims dims = facts_.dims.at(x);
  dims.at(static_cast<std::size_t>(axis)) = count;
  const auto list = [&](const char* suffix, std::int64_t v) { return integers(out, suffix, {v}); };
  return add("Slice",
             {x, list(".start", start), list(".end", start + (count - 1) * step + 1), list(".axis", axis),
              list(".step", step)},
             out, dims);
}

}  // namespace tw::onnx
