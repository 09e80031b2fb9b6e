// The built-in models as graphs (models.md B).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw::model {

struct Config {
  std::string name;          // one of names()
  std::uint32_t layers = 0;  // 0: full depth (small: 1)
  std::uint32_t batch = 1;
  bool small = false;
  std::uint32_t image_size = 0;  // 0: the model's; multiple of 14
  bool fuse_qkv = true;
};
// What preprocessing needs (models.md B.1, B.2): resize target, used side, kernel.
struct Vision {
  std::uint32_t resize = 0;  // resize to resize x resize ...
  std::uint32_t side = 0;    // ... and use the top-left side x side
  bool bicubic = true;       // else bilinear; both antialiased as PIL
  std::uint32_t patch = 14;
  bool class_row = false;  // first row of the patches tensor is zero
  std::string input;       // name of the patches tensor
};
struct Model {
  Config config;  // defaults filled in
  graph::Graph graph;
  Vision vision;
  std::uint64_t parameters = 0;  // elements, without constants
  // Parameters of the graph whose values follow from the configuration, by name: never drawn, in no
  // checkpoint.
  std::map<std::string, std::vector<float>> constants;
};
// True for what is drawn or comes from a checkpoint: a parameter of the graph that is no constant.
bool is_trained(const Model& model, const graph::Value& value);
// Throws Error{Usage} for unknown names and absurd sizes (0, not a multiple of 14, beyond limits).
Model build(Config config);
std::vector<std::string> names();

}  // namespace tw::model
