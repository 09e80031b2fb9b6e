#include "tools/weights.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"
#include "import/weights.h"
#include "tools/files.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

import::Weights open(const Recipe& recipe, const model::Model& model) {
  std::vector<import::Parameter> parameters;
  for (const graph::Value& value : model.graph.values)
    if (model::is_trained(model, value)) parameters.push_back({value.name, value.shape});
  return import::open_weights(recipe.weights.path, parameters);
}

// What file names are relative to.
fs::path folder_of(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code) ? path : path.parent_path();
}
// A checkpoint of one file may have another name where it is now.
bool is_one_file(const fs::path& path) {
  std::error_code code;
  return !fs::is_directory(path, code) && path.extension() != ".json";
}
std::vector<std::string> names_of(const fs::path& path, const import::Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const import::Safetensors& f : checkpoint.files)
    names.push_back(f.file.lexically_relative(folder_of(path)).string());
  return names;
}

}  // namespace

std::vector<WeightsFile> check_weights(const Host& host, const Recipe& recipe, const model::Model& model) {
  const std::string& path = recipe.weights.path;
  if (path.empty()) return {};
  host.progress->stage("check weights");
  const import::Weights weights = open(recipe, model);
  const import::Scan scan = import::scan_weights(weights, host.threads);
  if (scan.overflowing > 0)
    spdlog::warn("{}: {} values are beyond the range of F16 (65504), the first in \"{}\"", path,
                 scan.overflowing, scan.first_overflowing);
  if (scan.vanishing > 0) spdlog::info("{}: {} values become zero in F16", path, scan.vanishing);
  const std::vector<std::string> names = names_of(path, weights.checkpoint);
  std::vector<WeightsFile> files;
  for (std::size_t f = 0; f < names.size(); ++f) {
    const fs::path& file = weights.checkpoint.files[f].file;
    files.push_back({names[f], fs::file_size(file), sha256_of(file)});
  }
  return files;
}

void require_same_weights(const Host& host, const Recipe& recipe) {
  const std::string& path = recipe.weights.path;
  host.progress->stage("check weights");
  const bool one = is_one_file(path);
  std::vector<std::string> names;
  for (const WeightsFile& f : recipe.weights.files) {
    names.push_back(f.name);
    const fs::path file = one ? fs::path(path) : folder_of(path) / f.name;
    std::error_code code;
    const bool there = fs::is_regular_file(file, code);
    if (there && fs::file_size(file, code) == f.bytes && sha256_of(file) == f.sha256) continue;
    throw Error(
        ErrorKind::File,
        fmt::format("{}: the weights that the package was built from ({} B, sha256 {}) {}; --weights names "
                    "another place, and `run --reference none` needs none",
                    file.string(), f.bytes, f.sha256, there ? "have changed" : "are gone"));
  }
  if (one ? names.size() != 1 : names != names_of(path, import::open_checkpoint(path)))
    throw Error(ErrorKind::File, fmt::format("{}: other files than the package was built from ({})", path,
                                             fmt::join(names, ", ")));
}

model::TensorSource tensor_source(const Recipe& recipe, const model::Model& model) {
  model::TensorSource drawn = model::random_source(model, recipe.seed);
  if (recipe.weights.path.empty()) return drawn;
  const auto weights = std::make_shared<const import::Weights>(open(recipe, model));
  return [weights, drawn = std::move(drawn)](const std::string& name) {
    return weights->sources.contains(name) ? import::values_of(*weights, name) : drawn(name);
  };
}

}  // namespace tw::tools
