// FP8 scales of a trained model's dense products by role: the file of models.md C.5 ("Calibration report").
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace tw::import {

struct Calibration {
  bool fp16_embedding = false;
  std::map<std::string, int> scales;  // by role, of both operands of the product, -16..15
};

// A JSON object with `shared_operand_scale` (true), `fp16_embedding` and `scales`: for each of `roles`
// (without "embedding" where it is FP16) an object with the equal integers `activation` and `weight`. Keys
// may be names of parameters (tensor::role_of); those of several layers must agree. `nearest` and other keys
// are not used. Error{File} names `file` and lists all that is wrong.
Calibration calibration_from_json(const std::string& text, const std::filesystem::path& file,
                                  const std::set<std::string>& roles);

}  // namespace tw::import
