// The model of a recipe: built in, or an ONNX file with what the host does around the device's graph.
#pragma once
#include <memory>

#include "model/model.h"
#include "onnx/import.h"
#include "tools/recipe.h"

namespace tw::tools {

bool is_onnx(const Recipe& recipe);  // the model's name ends in .onnx

struct Source {
  model::Model model;                         // of an ONNX file: `constants` are its weights
  std::shared_ptr<const onnx::Program> onnx;  // null: built in
};
// Error{Usage}: no such model, an option that ONNX files do not take. Error{File}: another file than the
// recipe names, or damaged. Otherwise as onnx::import.
Source open_source(const Recipe& recipe);

}  // namespace tw::tools
