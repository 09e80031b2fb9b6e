// `tilewright calibrate`: FP8 scales by role from what the FP32 reference computes on images (models.md C.5).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/calibration.h"
#include "numeric/magnitudes.h"
#include "tools/pipeline.h"
#include "tools/recipe.h"

namespace tw::tools {

struct CalibrateOptions {
  std::string output;  // the calibration file
  std::vector<std::filesystem::path> images, held_out;
  std::uint32_t draws = 2;  // random inputs when there are no images
  bool no_cosine = false;   // no second pass with rounded operands
};

// The products of one role, over all layers and calibration images.
struct RoleMagnitudes {
  numeric::Magnitudes input, weight;
};

// Cosines of a pass whose products have rounded operands, everything else FP32, against the FP32 pass.
struct Cosines {
  std::vector<double> embeddings;  // by image
  std::vector<double> layers;      // of each encoder layer's result, the smallest over the images
};

struct CalibrateReport {
  Recipe recipe;  // with the model's defaults
  std::uint64_t parameters = 0;
  std::uint32_t images = 0;
  bool drawn = false;
  std::map<std::string, RoleMagnitudes> roles;
  import::Calibration calibration;
  std::vector<std::string> warnings;  // one line each
  std::optional<Cosines> cosines, held_out;
  std::string sha256;  // of the file
  double seconds_reference = 0, seconds_rounded = 0;
};

// The scale of both operands: the larger one's by the rule of models.md A.1.1, within -16..15.
int shared_scale(const RoleMagnitudes& role);
// What is wrong with these scales: values that clip, no numbers, and inputs or weights of which FP8 loses the
// bulk: more than 1 % of the values other than 0 fall under the smallest normal, and 99 % of them would fit a
// scale smaller by 5 than their largest value's, or by 13 than the one shared with the other operand.
std::vector<std::string> scale_warnings(const std::map<std::string, RoleMagnitudes>& roles,
                                        const import::Calibration& calibration);

// Runs the FP32 reference on the images, chooses the scales, writes the file. The recipe's fp16_roles get
// none. Error{Usage} for an ONNX model or an unknown role; Error{File} for images or weights that cannot be
// read.
CalibrateReport calibrate(const Host& host, const Recipe& recipe, const CalibrateOptions& options);

std::string calibrate_table(const CalibrateReport& report, const std::string& file);
std::string calibrate_json(const CalibrateReport& report, const std::string& file);

}  // namespace tw::tools
