// One evaluation of a node: its inputs and attributes with their checks, and what the operators share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "onnx/interpret.h"
#include "onnx/model.h"

namespace tw::onnx {

class Call {
 public:
  Call(const Node& n, std::span<const Tensor* const> inputs, std::int64_t version, const Limits& l)
      : node(n), opset(version), limits(l), inputs_(inputs) {}
  const Node& node;
  const std::int64_t opset;
  const Limits& limits;

  std::size_t count() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  const Tensor& input(std::size_t i) const;   // must be there
  const Tensor& floats(std::size_t i) const;  // must be floating
  const Tensor& ints(std::size_t i) const;    // must be an integer type

  std::int64_t attribute(const char* key, std::int64_t otherwise) const;
  float attribute(const char* key, float otherwise) const;
  std::string attribute(const char* key, const char* otherwise) const;
  const std::vector<std::int64_t>* list(const char* key) const {
    return node.attribute<std::vector<std::int64_t>>(key);
  }
  // A list that newer opsets pass as input i and older ones as an attribute; nullptr: neither.
  const std::vector<std::int64_t>* list(const char* key, std::size_t i) const;

  [[noreturn]] void fail(const std::string& what) const;    // Error{Shape}: the node and what
  [[noreturn]] void refuse(const std::string& what) const;  // Error{UnsupportedOp}
  void support(bool condition, const char* what) const {
    if (!condition) refuse(what);
  }
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }
  std::size_t axis(std::int64_t axis, std::size_t rank) const;  // -rank..rank-1 to 0..rank-1
  std::int64_t size_of(const Dims& dims) const;                 // within the limits
  Tensor make(Element element, Dims dims) const;                // zeros
  // Within the limits. False: only the shape of the result is wanted.
  bool work(double multiply_adds) const;

 private:
  std::span<const Tensor* const> inputs_;
};

using Results = std::vector<Tensor>;
struct Operator {
  const char* op_type;
  Results (*run)(const Call&);
  const char* domain = "";
  std::int64_t since = 1;
};
// One list per file of operators.
std::span<const Operator> pointwise_operators();
std::span<const Operator> compare_operators();
std::span<const Operator> reduce_operators();
std::span<const Operator> product_operators();
std::span<const Operator> window_operators();
std::span<const Operator> shape_operators();
std::span<const Operator> index_operators();
std::span<const Operator> resize_operators();
std::span<const Operator> transformer_operators();

Results one(Tensor t);  // a single result

// Extents before an axis, of it, after it.
struct Around {
  std::int64_t outer = 1, extent = 1, inner = 1;
};
Around around(const Dims& dims, std::size_t axis);
std::vector<std::int64_t> strides_of(const Dims& dims);  // row-major, in elements

// Numpy broadcasting: the result's shape, and rows of it in which every input moves by a constant stride (0
// or more).
struct Broadcast {
  Dims dims;
  std::int64_t size = 0;
  std::vector<std::int64_t> extents;               // collapsed, outermost first; the last one is the row
  std::vector<std::vector<std::int64_t>> strides;  // [input][axis]
};
Broadcast broadcast(const Call& call, std::span<const Dims* const> shapes);
// fn(first, n, offsets): n elements of the result from `first`, and where each input starts. In parallel.
void each_row(const Broadcast& b, unsigned threads,
              const std::function<void(std::int64_t first, std::int64_t n, const std::int64_t* offsets)>& fn);

// fn(begin, end) over ranges of [0,n), in parallel where there is enough to do.
void ranges(std::int64_t n, std::int64_t cost, unsigned threads,
            const std::function<void(std::int64_t begin, std::int64_t end)>& fn);

std::int64_t truncate(double v);                    // towards 0, saturating; NaN is 0
double to_double(Element element, std::int64_t v);  // UINT64 as what it is
double scalar(const Call& call, const Tensor& t);   // the only element
Tensor permute(const Call& call, const Tensor& x,
               const std::vector<std::size_t>& order);               // axis i of the result was order[i]
Tensor expand(const Call& call, const Tensor& x, const Dims& dims);  // dims: a broadcast of x

}  // namespace tw::onnx
