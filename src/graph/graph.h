// Semantic SSA graph of a model with Repeat regions (compiler.md 1): shapes and names, nothing physical.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
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
  Gelu,
  LayerNorm,
  Add,
  SplitHeads,
  MergeHeads,
  Slice,
  Attention,
  Repeat
};
const char* name_of(OpKind kind);

// Attributes of all kinds in one record; only those of the kind are meaningful.
struct Op {
  OpKind kind = OpKind::Add;
  std::string path;              // e.g. "vit.encoder.layer.attention.qkv"; unique inside its region
  std::vector<ValueId> inputs;   // Gemm x,w; Gelu x; LayerNorm x,scale,bias; Add a,b; Attention q,k,v
  std::vector<ValueId> results;  // one, but Repeat: one per carried
  std::uint32_t heads = 0;       // SplitHeads/MergeHeads
  std::uint32_t axis = 0, start = 0, length = 0;  // Slice
  float scale = 0;                                // Attention: explicit positive scale
  float epsilon = 1e-6F;                          // LayerNorm
  std::uint32_t repeat = 0;                       // Repeat: index into Graph::repeats
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
                std::uint32_t length);
  ValueId attention(const std::string& path, ValueId q, ValueId k, ValueId v, float scale);
  std::uint32_t sequence(const std::string& name, std::vector<ValueId> members);
  // Returns the body arguments: carried, invariant, iterated.
  std::vector<ValueId> begin_repeat(const std::string& path, std::uint32_t count,
                                    std::vector<ValueId> carried, std::vector<ValueId> invariant,
                                    std::vector<std::uint32_t> iterated);
  std::vector<ValueId> end_repeat(std::vector<ValueId> yields);  // the Repeat's results
  Graph finish(std::vector<ValueId> outputs);

 private:
  ValueId result(Op op, Shape shape);
  std::vector<Op>& region();
  Graph graph_;
  bool in_repeat_ = false;
  std::string repeat_path_;
};

// SSA, shapes, Repeat rules (1.3), no dead ids. Empty = good.
std::vector<std::string> verify(const Graph& graph);
std::string print(const Graph& graph);

}  // namespace tw::graph
