// Semantic SSA graph of a model with Repeat regions (compiler.md 1): shapes and names, nothing physical.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "numeric/functions.h"
#include "tensor/layout.h"

namespace tw::graph {

using tensor::Shape;

enum class ValueKind : std::uint8_t { Host, Parameter, Result, Argument };
struct Value {
  ValueKind kind = ValueKind::Result;
  std::string name;  // Host and Parameter: the tensor's name (models.md B); others: op path + suffix
  Shape shape;
};

enum class OpKind : std::uint8_t {
  Gemm,
  Gelu,  // tanh form
  LayerNorm,
  Add,
  SplitHeads,
  MergeHeads,
  Slice,
  Attention,
  Rope,
  // General operations: any shape, slower.
  Unary,    // any function but the tanh GELU
  Binary,   // any function but Add; numpy broadcasting
  Softmax,  // along the last axis
  Reduce,   // of the last axis, which stays with extent 1
  Reshape,
  Transpose,
  Expand,
  Concat,
  Repeat
};
const char* name_of(OpKind kind);

// Attributes of all kinds in one record; only those of the kind are meaningful.
struct Op {
  OpKind kind = OpKind::Add;
  std::string path;  // e.g. "vit.encoder.layer.attention.qkv"; unique inside its region
  // Gemm x,w; LayerNorm x,scale,bias; Add, Binary a,b; Attention q,k,v; Rope x,cos,sin; Concat any number;
  // others x.
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;                             // one, but Repeat: one per carried
  std::uint32_t heads = 0;                                  // SplitHeads/MergeHeads
  std::uint32_t axis = 0;                                   // Slice, Concat
  std::uint32_t start = 0, length = 0, step = 1;            // Slice: elements start, start + step, ...
  numeric::Unary unary = numeric::Unary::Relu;              // Unary
  numeric::Binary binary = numeric::Binary::Multiply;       // Binary
  numeric::Reduction reduction = numeric::Reduction::Mean;  // Reduce
  Shape shape;                                              // Reshape, Expand: of the result
  std::vector<std::uint32_t> permutation;                   // Transpose: result axis i is axis permutation[i]
  // Rope: pairs are neighbours (2i, 2i+1), else halves (i, i + width/2); y = x cos + r sin with
  // r = (-second, first) in the places of (first, second).
  bool interleaved = true;
  float scale = 0;           // Attention: explicit positive scale
  float epsilon = 1e-6F;     // LayerNorm
  std::uint32_t repeat = 0;  // Repeat: index into Graph::repeats
};

// Repeat: `count` iterations of body. Arguments in the order carried, invariant, iterated.
struct Repeat {
  std::uint32_t count = 1;
  std::vector<ValueId> carried_in, invariant_in;
  std::vector<std::uint32_t> iterated;  // sequence indexes
  std::vector<ValueId> arguments;       // body arguments (kind Argument)
  std::vector<Op> body;
  std::vector<ValueId> yields;  // one per carried
};
struct Sequence {
  std::string name;              // role, e.g. "vit.encoder.layer{}.mlp.up.weight"
  std::vector<ValueId> members;  // equal shapes, one per iteration (prefix used)
};

struct Graph {
  std::string model;  // "siglip-so400m", ...
  std::vector<Value> values;
  std::vector<Op> ops;  // top level, in order
  std::vector<Repeat> repeats;
  std::vector<Sequence> sequences;
  std::vector<ValueId> outputs;
  const Value& at(ValueId id) const { return values[id.value]; }
};

// Adds values and operations with shape inference; throws Error{Shape} naming the operation. The region is
// the top level until begin_repeat, then the body until end_repeat (no nesting).
class Builder {
 public:
  explicit Builder(std::string model);
  ValueId host(const std::string& name, Shape shape);
  ValueId parameter(const std::string& name, Shape shape);
  ValueId gemm(const std::string& path, ValueId x, ValueId w);
  ValueId gelu(const std::string& path, ValueId x);
  ValueId layer_norm(const std::string& path, ValueId x, ValueId scale, ValueId bias, float epsilon);
  ValueId add(const std::string& path, ValueId a, ValueId b);
  ValueId split_heads(const std::string& path, ValueId x, std::uint32_t heads);
  ValueId merge_heads(const std::string& path, ValueId x, std::uint32_t heads);
  ValueId slice(const std::string& path, ValueId x, std::uint32_t axis, std::uint32_t start,
                std::uint32_t length, std::uint32_t step = 1);
  // x [streams, rows, width]; cosine and sine [rows, width].
  ValueId rope(const std::string& path, ValueId x, ValueId cosine, ValueId sine, bool interleaved);
  ValueId unary(const std::string& path, numeric::Unary function, ValueId x);
  ValueId binary(const std::string& path, numeric::Binary function, ValueId a, ValueId b);
  ValueId softmax(const std::string& path, ValueId x);
  ValueId reduce(const std::string& path, numeric::Reduction function, ValueId x);
  ValueId reshape(const std::string& path, ValueId x, Shape shape);
  ValueId transpose(const std::string& path, ValueId x, std::vector<std::uint32_t> permutation);
  ValueId expand(const std::string& path, ValueId x, Shape shape);
  ValueId concat(const std::string& path, std::vector<ValueId> parts, std::uint32_t axis);
  ValueId attention(const std::string& path, ValueId q, ValueId k, ValueId v, float scale);
  ValueId append(Op op);  // any but a Repeat; its results are ignored
  std::uint32_t sequence(const std::string& name, std::vector<ValueId> members);
  // Returns the body arguments: carried, invariant, iterated.
  std::vector<ValueId> begin_repeat(const std::string& path, std::uint32_t count,
                                    std::vector<ValueId> carried, std::vector<ValueId> invariant,
                                    std::vector<std::uint32_t> iterated);
  std::vector<ValueId> end_repeat(std::vector<ValueId> yields);  // the Repeat's results
  Graph finish(std::vector<ValueId> outputs);
  const Shape& shape(ValueId id) const { return graph_.at(id).shape; }

 private:
  std::vector<Op>& region();
  Graph graph_;
  bool in_repeat_ = false;
  std::string repeat_path_;
};

// SSA, shapes, Repeat rules (1.3), no dead ids. Empty = good.
std::vector<std::string> verify(const Graph& graph);
std::string print(const Graph& graph);

}  // namespace tw::graph
