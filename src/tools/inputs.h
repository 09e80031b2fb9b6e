// What goes into a call and comes out of it: photographs through each model's preprocessing, files, a
// fixture's cases, or drawn values; of an ONNX file also what the host does before and after the device.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "import/fixture.h"
#include "onnx/interpret.h"
#include "tools/source.h"

namespace tw::tools {

using Arrays = std::vector<std::vector<float>>;

// Files of an ONNX model's inputs by name: a TensorProto (.pb), or little-endian F32 row-major.
using InputFiles = std::map<std::string, std::filesystem::path>;

// Before long work: all that the constructor of Inputs refuses.
void check_inputs(const Source& source, std::span<const std::filesystem::path> images,
                  const InputFiles& files);

class Inputs {
 public:
  // Photographs fill the slots of a batch and cycle over calls (decisions.md 39). Error{File} lists those
  // that cannot be read, and names a file of values that are NaN or infinite; Error{Usage} for photographs of
  // an ONNX model and files of a built-in one. A fixture, of a built-in model, has a case for each call and
  // takes the place of all others.
  Inputs(const Source& source, const std::vector<std::filesystem::path>& images, const InputFiles& files,
         std::uint64_t seed, const import::Fixture* fixture = nullptr);
  // Identifies the batch of a call: equal keys, equal inputs.
  std::vector<std::size_t> key(std::uint32_t call) const;
  // Of the graph, row-major, by name.
  std::map<std::string, std::vector<float>> host_values(std::uint32_t call) const;
  // The case of a call; null without a fixture.
  const import::FixtureCase* expected(std::uint32_t call) const;
  // The model's outputs from those of the graph.
  Arrays results(Arrays graph_outputs) const;
  // The model's outputs in FP32, of an ONNX file by its own operators.
  Arrays onnx_reference(unsigned threads) const;
  std::vector<std::string> output_names() const;

 private:
  const Source& source_;
  const import::Fixture* fixture_;
  tensor::Shape shape_;  // of the patches
  std::vector<std::vector<float>> images_;
  std::vector<float> random_;
  onnx::Values given_, known_;  // of an ONNX file: its inputs; with the prefix's results
};

}  // namespace tw::tools
