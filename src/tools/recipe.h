// Everything that decides what is built and checked, in one value: the options of cli.md. A package carries
// its Recipe as JSON, so that `run` and `compare` can make the same model, weights and plan again.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compile/compile.h"
#include "model/model.h"
#include "target/device.h"

namespace tw::tools {

// A file that weights were read from; the name is relative to the folder of Weights::path.
struct WeightsFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const WeightsFile&) const = default;
};
struct WeightsChoice {
  std::string path;                // as given: file, index or folder; empty: drawn from the seed
  bool fixture = false;            // the folder of a reference fixture
  std::vector<WeightsFile> files;  // filled in by compile_model
};
WeightsChoice weights_named(const std::string& option);  // of --weights: "random" or a path

struct Recipe {
  model::Config model;  // name (or FILE.onnx), layers, batch, small, image_size, fuse_qkv
  WeightsChoice weights;
  std::map<std::string, std::int64_t> dims;  // ONNX: symbolic extents
  std::string onnx_sha256;                   // ONNX: of the file; filled in by compile_model
  std::uint64_t seed = 1;
  tensor::Precision precision = tensor::Precision::F8;
  int fp8_scale = -4;
  std::map<std::string, int> fp8_scales;  // by role of the weight (tensor::role_of); empty: fp8_scale
  std::set<std::string> fp16_roles;       // with FP8: whose products stay in F16
  std::string calibration_sha256;         // of the file that gave scales and F16 roles; empty: none
  plan::Policy policy = plan::Policy::Default;
  plan::Attention attention = plan::Attention::Auto;
  plan::WeightRounding weight_rounding = plan::WeightRounding::Balanced;
  bool relays = true;
  std::uint32_t tiles = 1472;
  std::uint32_t stream_words = 1024, table_budget = 81920, fragment_limit = 16384;
  std::uint32_t optimization_steps = 0;          // complete builds after the baseline plan
  std::map<std::string, std::uint32_t> choices;  // what was built: candidate by operation path
};
std::string to_json(const Recipe& recipe);
// Of a package; Error{File} names `file` when the recipe is not one of ours.
Recipe recipe_from_json(const std::string& text, const std::string& file);

compile::Options compile_options(const Recipe& recipe, unsigned threads);
const char* name_of(plan::Policy policy);
const char* name_of(plan::Attention attention);
const char* name_of(plan::WeightRounding rounding);
const char* precision_name(tensor::Precision precision);  // "fp8", "fp16"

}  // namespace tw::tools
