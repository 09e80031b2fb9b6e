#include "tools/source.h"

#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/sha256.h"
#include "onnx/read.h"

namespace tw::tools {
namespace {

void require_plain(const Recipe& r) {
  const auto refuse = [&](bool given, const char* option) {
    if (given)
      throw Error(ErrorKind::Usage,
                  fmt::format("{} is for the built-in models, not for {}", option, r.model.name));
  };
  refuse(r.model.layers != 0, "--layers");
  refuse(r.model.small, "--small");
  refuse(r.model.image_size != 0, "--image-size");
  refuse(r.model.batch != 1, "--batch (an ONNX model has its batch in its inputs: --dim)");
  refuse(!r.weights.path.empty(), "--weights");
}

}  // namespace

bool is_onnx(const Recipe& recipe) { return recipe.model.name.ends_with(".onnx"); }

Source open_source(const Recipe& recipe) {
  Source source;
  if (!is_onnx(recipe)) {
    if (!recipe.dims.empty()) throw Error(ErrorKind::Usage, "--dim is for ONNX files");
    source.model = model::build(recipe.model);
    return source;
  }
  require_plain(recipe);
  const std::string& file = recipe.model.name;
  onnx::Model read = onnx::read_model(file);
  if (!recipe.onnx_sha256.empty() && sha256_of(file) != recipe.onnx_sha256)
    throw Error(ErrorKind::File, fmt::format("{}: not the file that the package was built from (sha256 {})",
                                             file, recipe.onnx_sha256));
  onnx::Program program = onnx::import(std::move(read), {.dims = recipe.dims, .constants = {}});
  source.model.config = recipe.model;
  source.model.graph = program.graph;
  source.model.constants = std::move(program.parameters);
  for (const auto& [name, values] : source.model.constants) source.model.parameters += values.size();
  source.onnx = std::make_shared<const onnx::Program>(std::move(program));
  return source;
}

}  // namespace tw::tools
