// FP8 scales of a trained model's dense products by role: the file of models.md C.5 ("Calibration report").
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace tw::import {

struct Calibration {
  std::set<std::string> fp16;         // roles whose products stay in F16
  std::map<std::string, int> scales;  // by role, of both operands of the product, -16..15; of all other roles
};

// A JSON object with `shared_operand_scale` (true), `fp16_embedding` (F16 for the role "embedding"), and
// `scales`: for each of `roles` that is not F16 an object with the equal integers `activation` and `weight`.
// `fp16`, an array of roles, may be missing. Roles may be names of parameters (tensor::role_of); the scales
// of several layers must agree. `nearest` and other keys are not used. Error{File} names `file` and lists all
// that is wrong.
Calibration calibration_from_json(const std::string& text, const std::filesystem::path& file,
                                  const std::set<std::string>& roles);
// Such a file.
std::string to_json(const Calibration& calibration);

}  // namespace tw::import
