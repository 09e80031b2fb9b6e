#include "onnx/model.h"

#include <bit>
#include <cstring>

#include "import/problems.h"
#include "numeric/formats.h"

namespace tw::onnx {

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

struct ElementRow {
  const char* name;
  std::uint32_t bytes;
  bool floating, integer;
};
constexpr ElementRow kElements[] = {
    {"UNDEFINED", 0, false, false},     {"FLOAT", 4, true, false},      {"UINT8", 1, false, true},
    {"INT8", 1, false, true},           {"UINT16", 2, false, true},     {"INT16", 2, false, true},
    {"INT32", 4, false, true},          {"INT64", 8, false, true},      {"STRING", 0, false, false},
    {"BOOL", 1, false, true},           {"FLOAT16", 2, true, false},    {"DOUBLE", 8, true, false},
    {"UINT32", 4, false, true},         {"UINT64", 8, false, true},     {"COMPLEX64", 0, false, false},
    {"COMPLEX128", 0, false, false},    {"BFLOAT16", 2, true, false},   {"FLOAT8E4M3FN", 1, true, false},
    {"FLOAT8E4M3FNUZ", 1, true, false}, {"FLOAT8E5M2", 1, true, false}, {"FLOAT8E5M2FNUZ", 1, true, false}};

const ElementRow& row_of(Element element) {
  const auto i = static_cast<std::size_t>(element);
  return kElements[i < std::size(kElements) ? i : 0];
}

float round_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return std::bit_cast<float>((bits | 0x00400000U) & 0xFFFF0000U);
  return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U);
}

}  // namespace

std::string name_of(Element element) {
  const auto i = static_cast<std::size_t>(element);
  return i < std::size(kElements) ? kElements[i].name : "type " + std::to_string(i);
}
bool is_floating(Element element) { return row_of(element).floating; }
bool is_integer(Element element) { return row_of(element).integer; }
std::uint32_t bytes_of(Element element) { return row_of(element).bytes; }

std::int64_t wrap(Element to, std::int64_t v) {
  switch (to) {
    case Element::Bool:
      return v != 0;
    case Element::UInt8:
      return static_cast<std::uint8_t>(v);
    case Element::Int8:
      return static_cast<std::int8_t>(v);
    case Element::UInt16:
      return static_cast<std::uint16_t>(v);
    case Element::Int16:
      return static_cast<std::int16_t>(v);
    case Element::UInt32:
      return static_cast<std::uint32_t>(v);
    case Element::Int32:
      return static_cast<std::int32_t>(v);
    default:
      return v;
  }
}

float round_to(Element to, float value) {
  if (to == Element::Float16) return numeric::f16_to_f32(numeric::f32_to_f16(value));
  if (to == Element::BFloat16) return round_bfloat16(value);
  return value;
}

bool count_elements(const Dims& dims, std::int64_t& count) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t d : dims) {
    if (d < 0) return false;
    if (d == 0) {
      empty = true;
    } else if (d > kMostElements / product) {
      return false;
    } else {
      product *= d;
    }
  }
  count = empty ? 0 : product;
  return true;
}

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return out + "]";
}

std::string title(const Node& node) {
  std::string name = node.name;
  for (std::size_t i = 0; name.empty() && i < node.outputs.size(); ++i) name = node.outputs[i];
  return "node '" + import::printable(name) + "' (" + import::printable(node.op_type) + ")";
}

}  // namespace tw::onnx
