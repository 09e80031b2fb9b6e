// Which tensors of a checkpoint make a parameter of ours (models.md B.1, B.2): the names that publishers use.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/layout.h"

namespace tw::import {

struct Parameter {  // of a model: matrices [in, out], vectors [1, 1, n]
  std::string name;
  tensor::Shape shape;
};

// How the rows of a stored tensor become values of the parameter.
enum class Order : std::uint8_t {
  Same,        // row after row
  Transposed,  // stored [out, in]: each row is a column
  Patches      // stored [out, channel, y, x]: rows (y, x, channel), columns out
};
struct Piece {
  std::string tensor;
  std::vector<std::uint64_t> shape;       // that it must have
  std::uint64_t first_row = 0, rows = 0;  // along its first axis
  Order order = Order::Same;
};
// Pieces stand side by side along the parameter's last axis.
struct Source {
  std::vector<Piece> pieces;
  std::string class_token;  // if any: a vector that is added to the first row
  bool repeated = false;    // the same values for each index of the first axis
};

enum class Publisher : std::uint8_t { HuggingFace, PerceptionEncoder, Timm };
struct Naming {
  Publisher publisher = Publisher::HuggingFace;
  bool class_token = false;  // of the model: Perception Encoder, else SigLIP
  std::string prefix;        // of every name, e.g. "vision_model."
  std::string problem;       // not empty: no naming fits the model, or several prefixes do
};
// By the name of the patch convolution, whatever stands before it.
Naming detect_naming(const std::vector<std::string>& names, bool class_token);

// InternalError for a parameter that the built-in models do not have.
Source source_of(const Naming& naming, const Parameter& parameter);
// True for a tensor that no parameter of a model with so many layers needs: further layers, position indices,
// what stands outside the prefix (other towers).
bool ignorable(const Naming& naming, const std::string& name, std::uint32_t layers);
// The name of a vector that may be there if it is zero, because the model has no parameter for it; or empty.
std::string must_be_zero(const Naming& naming);

}  // namespace tw::import
