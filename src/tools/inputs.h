// The input batches of calls: photographs through each model's preprocessing, or random patches.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/model.h"

namespace tw::tools {

// The patches tensor of a batch, one image per slot; images cycle over calls and slots (decisions.md 39).
class Inputs {
 public:
  // Error{File} when a photograph cannot be read.
  Inputs(const model::Model& model, const std::vector<std::filesystem::path>& files, std::uint64_t seed);
  // Identifies the batch of a call: equal keys, equal inputs.
  std::vector<std::size_t> key(std::uint32_t call) const;
  std::vector<float> values(std::uint32_t call) const;  // row-major, shape of the patches tensor
  const std::string& name() const { return name_; }

 private:
  std::uint32_t batch_;
  std::string name_;
  tensor::Shape shape_;
  std::vector<std::vector<float>> images_;
  std::vector<float> random_;
};

// Row-major F16 bytes of an input or output binding.
std::vector<std::uint8_t> encode_f16(const std::vector<float>& values);
std::vector<float> decode_f16(const std::vector<std::uint8_t>& bytes);

}  // namespace tw::tools
