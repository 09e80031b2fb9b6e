// The executable plan of a model on the whole device: typed, owned tensors and an ordered list of steps
// (compiler.md 5.1). Everything is decided here; lowering only realises it. Steps are imperative: a tensor
// that shares another's storage overwrites it. plan/exact interprets the same steps on whole tensors.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "tensor/layout.h"
#include "tensor/traverse.h"

namespace tw::plan {

enum class Role : std::uint8_t { Input, Parameter, Output, Activation, Carried, Operand, Partials, Scratch };
const char* name_of(Role role);

struct Tensor {
  std::string name;  // unique, "<op path>/<part>"; Input/Parameter/Output: the host tensor's name
  tensor::TensorType type;
  tensor::OwnerMap owners;  // ordinal -> logical tile
  Role role = Role::Activation;
  TensorId storage;  // valid: shares the storage of that tensor (equal owners and shard bytes)
  std::vector<std::string>
      members;     // Parameter: host tensor names; more than one = one per Repeat iteration,
                   // a step inside the Repeat means the current iteration's member
  ValueId origin;  // graph value that this tensor holds (any format), if any
};

// Data movement only: equal precision, any tiling, replication, and order as long as every run is whole
// aligned words (tensor::runs). Padding of dst is zero-filled when `clear_padding` is set.
struct Copy {
  TensorId dst, src;
  tensor::CoordMap map;  // source coordinate of a destination coordinate
  bool clear_padding = false;
  // The source's padding holds zeros (written by a pack kernel or the host) and may travel with the data, so
  // that runs are whole panels: take runs and padding_ranges of moved_types(). Identity map only. A lowering
  // that ignores it is correct but moves many short runs (one per key of a 72-wide head).
  bool move_padding = false;
};

// out = left x right on matching owners (owner t of out holds left, right and out shards on its tile).
// left [..,M,K] AmpLeft; right [K,N] BlockMajor(local K,16), or [S,N,K] AmpRight when right_transposed, or
// [S,K,N] BlockMajor for batched products. F8 or F16 operands, F16 out in AmpLeft.
// k_parts > 1: out has a leading axis of extent k_parts; part p covers the K range of left's K-axis partition
// p. Rounding: decisions.md 2. All physical K of a part take part.
struct Product {
  TensorId left, right, out;
  std::uint32_t k_parts = 1;
  bool right_transposed = false;
  bool accumulate = false;  // starts from the F16 values already in out
};

// out = sum over the leading axis of partials, F16, ascending part (decisions.md 3). Remote parts travel; the
// locally held part, if any, is read in place.
struct Sum {
  TensorId partials, out;
};

enum class LocalKind : std::uint8_t {
  Cast,     // in -> out, precision and (F16 Row|AmpLeft -> F8 AmpLeft) order; same tiling
  Reorder,  // in -> out, same tiling and precision, other element order; out padding is written with zeros
  Add,      // a, b -> out; b equal in shape or a suffix (bias); out may share a's storage
  // The next three may write F8 AmpLeft panels of their F16 result, cast as Cast does (x in Row order).
  Gelu,          // x -> out (tanh form)
  BiasGelu,      // x, bias -> out (Row, whole rows)
  LayerNorm,     // x, scale, bias -> out (Row, whole rows); epsilon
  AddLayerNorm,  // a, b, scale, bias -> out: the norm of the rounded sum of equal shapes; epsilon
  AddMoments,    // a, b -> sum, statistics: Add of equal shapes and Moments of the rounded sum
  Moments,       // x -> statistics [rows.., 2] F32 of the owner's columns
  Apply,         // x, statistics [P, rows.., 2], scale, bias -> out; epsilon
  Softmax,  // scores -> weights, state [2, S, R] F32; scale, keys = logical width; split = row-split mode
  Merge,    // pv, state -> out F16 Row (one key block); online forms: pv, state, accumulator (+ previous)
  // General operations (docs/numerics.md), on F32 rows but for two.
  Unary,        // x -> out, both F16 or both F32
  Binary,       // a, b -> out; b repeats in a
  Reduce,       // x -> out [.., 1]; whole rows
  SoftmaxRows,  // x -> out; whole rows
  NormRows,     // x, scale, bias -> out; whole rows; epsilon
  Rope,         // x, cosine, sine -> out, all F16; tables repeat over the leading axes
  Join          // parts [outer, n_i, inner] -> out [outer, sum of n_i, inner]
};
const char* name_of(LocalKind kind);

// One kernel on every owner's shards; all operands of owner t are on owner t's tile.
struct Local {
  LocalKind kind = LocalKind::Add;
  std::vector<TensorId> inputs, outputs;
  float epsilon = 0;                  // LayerNorm, AddLayerNorm, Apply
  float scale = 0;                    // Softmax
  bool split = false;                 // Softmax
  bool initial = true, final = true;  // Merge
  std::uint32_t function = 0;         // Unary, Binary, Reduce: of numeric/functions.h
  bool swapped = false;               // Binary: function(b, a)
  bool interleaved = true;            // Rope: pairs are neighbours, not halves
};

struct Step;
struct Repeat {
  std::uint32_t count = 1;
  std::vector<Step> body;
};

struct Step {
  std::variant<Copy, Product, Sum, Local, Repeat> action;
  std::string path;     // graph operation that this step belongs to
  TensorId checkpoint;  // valid: this step completes the operation; the tensor holds its result
};

// What plan::fuse rewrote: steps that read a chain of others before.
struct Fusions {
  std::uint32_t copies = 0;         // copy(copy(x)) -> copy(x)
  std::uint32_t early_casts = 0;    // cast(copy(x)) -> cast(x)
  std::uint32_t f8_outputs = 0;     // cast(kernel(x)) -> a kernel that writes F8
  std::uint32_t add_norms = 0;      // layernorm(add(a, b)) -> add_layernorm
  std::uint32_t added_moments = 0;  // ... with the sum still needed -> add_moments and apply
};

// How FP8 weight matrices are rounded on the host: so that the errors of every column cancel, or each weight
// to its nearest code.
enum class WeightRounding : std::uint8_t { Balanced, Nearest };

// What the planner could have built for one operation, and what it built.
struct Choice {
  std::string path;        // graph operation
  std::size_t chosen = 0;  // candidate that was built
  struct Alternative {     // estimates of a candidate's fragment alone
    double cycles = 0;
    std::uint64_t bytes = 0;  // live tensor bytes, busiest tile
  };
  std::vector<Alternative> alternatives;  // by candidate; empty when the choice was given
};

struct Plan {
  std::uint32_t tiles = 1472;  // planning limit (--tiles)
  std::vector<Tensor> tensors;
  std::vector<Step> steps;
  WeightRounding weight_rounding = WeightRounding::Nearest;  // build() takes it from its options
  std::vector<Choice> choices;            // of operations with several candidates, in graph order
  bool within_room = false;               // products were chosen so (Options::within_room)
  std::vector<TensorId> inputs, outputs;  // host bindings (Row order)
  Fusions fusions;
  double estimated_cycles = 0;               // of the planner's cost model, per call
  std::uint64_t estimated_tensor_bytes = 0;  // estimator's peak per tile (compiler.md 6)

  const Tensor& at(TensorId id) const { return tensors[id.value]; }
  TensorId storage_of(TensorId id) const {  // root of the storage chain
    while (tensors[id.value].storage.valid()) id = tensors[id.value].storage;
    return id;
  }
};

// The types whose tensor::runs a Copy moves: those of its tensors, with move_padding grown over the padding
// that both sides hold (the logical extents become the smaller padded extent; shards stay the same).
struct MovedTypes {
  tensor::TensorType dst, src;
};
MovedTypes moved_types(const Plan& plan, const Copy& copy);

// Operands defined before use, formats accepted by each step, copies word-aligned, owners in range, storage
// shared only by equal shards, partials consumed once. Empty = good.
std::vector<std::string> verify(const Plan& plan);
std::string print(const Plan& plan);

}  // namespace tw::plan
