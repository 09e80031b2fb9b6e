// An ONNX model as plain values (models.md D.2): what is read from a file, folded, matched and interpreted.
// Names of operators, attributes and element types are those of the ONNX specification.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tw::onnx {

// The numbers of TensorProto.DataType.
enum class Element : std::uint8_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20
};
std::string name_of(Element element);         // "FLOAT16"; a number without a name as "type 42"
bool is_floating(Element element);            // values stand in Tensor::floats
bool is_integer(Element element);             // Tensor::ints; BOOL is one of them
std::uint32_t bytes_of(Element element);      // in a file; 0: neither floating nor integer
std::int64_t wrap(Element to, std::int64_t);  // to the width of an integer type; BOOL: 0 or 1
float round_to(Element to, float value);      // to a floating type, nearest-even; DOUBLE stays FP32

using Dims = std::vector<std::int64_t>;
inline constexpr std::size_t kMostAxes = 32;
// The product of the extents. False: an extent is negative, or the extents other than 0 multiply to more than
// 2^48.
bool count_elements(const Dims& dims, std::int64_t& count);
std::string to_string(const Dims& dims);  // "[1,3,224,224]"

// Row-major. Exactly one of floats and ints has the elements, by the element type; DOUBLE values are rounded
// to FP32, UINT64 values are kept as the bit pattern, BOOL as 0 and 1.
struct Tensor {
  Element element = Element::Float;
  Dims dims;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;

  std::int64_t size() const {
    return static_cast<std::int64_t>(is_floating(element) ? floats.size() : ints.size());
  }
};

using Attribute = std::variant<float, std::int64_t, std::string, Tensor, std::vector<float>,
                               std::vector<std::int64_t>, std::vector<std::string>>;

struct Node {
  std::string op_type;
  std::string domain;                        // "" is ai.onnx
  std::string name;                          // may be empty
  std::vector<std::string> inputs, outputs;  // "" is an omitted optional one
  std::map<std::string, Attribute> attributes;

  // The value of an attribute of that type, else nothing.
  template <typename T>
  const T* attribute(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? nullptr : std::get_if<T>(&found->second);
  }
};
std::string title(const Node& node);  // "node 'name' (Op)", for messages; without a name its first output

// One extent of an input or output: a number, or a name that stands for one.
struct Dim {
  std::int64_t value = -1;  // -1: not known
  std::string name;         // dim_param; an input's extent that has neither is called INPUT.AXIS
  bool operator==(const Dim&) const = default;
};
struct Value {
  std::string name;
  Element element = Element::Undefined;
  bool has_shape = false;  // outputs may have none
  std::vector<Dim> dims;
};

struct Model {
  std::map<std::string, std::int64_t> opsets;  // by domain; "" is ai.onnx
  std::string producer;                        // name and version, for messages
  std::vector<Node> nodes;                     // each after the nodes whose outputs it reads
  std::map<std::string, Tensor> initializers;
  std::vector<Value> inputs;  // without those that have an initializer
  std::vector<Value> outputs;

  std::int64_t opset(const std::string& domain = "") const {
    const auto found = opsets.find(domain);
    return found == opsets.end() ? 0 : found->second;
  }
};

}  // namespace tw::onnx
