#include "tools/weights.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "import/problems.h"
#include "import/weights.h"
#include "numeric/formats.h"
#include "tensor/role.h"
#include "tools/calibration.h"
#include "tools/source.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

std::vector<import::Parameter> trained(const model::Model& model) {
  std::vector<import::Parameter> parameters;
  for (const graph::Value& value : model.graph.values)
    if (model::is_trained(model, value)) parameters.push_back({value.name, value.shape});
  return parameters;
}

import::Weights open(const Recipe& recipe, const model::Model& model) {
  return import::open_weights(recipe.weights.path, trained(model));
}
// The parameters alone.
import::Fixture open_parameters(const Recipe& recipe, const model::Model& model, import::FixtureValues values,
                                unsigned threads) {
  return import::open_fixture(recipe.weights.path, {.parameters = trained(model), .cases = {}}, values,
                              threads);
}

void warn(const std::string& path, const import::Scan& scan) {
  if (scan.overflowing > 0)
    spdlog::warn("{}: {} values are beyond the range of F16 (65504), the first in \"{}\"", path,
                 scan.overflowing, scan.first_overflowing);
  if (scan.vanishing > 0) spdlog::info("{}: {} values become zero in F16", path, scan.vanishing);
}

// FP8 of the OCP is no format of the device: its values are rounded once more.
void report_fp8(const std::string& path, const import::Weights& weights) {
  std::map<std::string, std::set<std::string>> tensors;  // by dtype
  for (const auto& [parameter, source] : weights.sources)
    for (const import::Piece& piece : source.pieces) {
      const import::Checkpoint& checkpoint = weights.checkpoint;
      const import::Dtype dtype = checkpoint.at(checkpoint.tensors.at(piece.tensor)).dtype;
      if (dtype == import::Dtype::F8E4M3 || dtype == import::Dtype::F8E5M2)
        tensors[import::name_of(dtype)].insert(piece.tensor);
    }
  for (const auto& [dtype, names] : tensors)
    spdlog::warn(
        "{}: {} tensors of {} are read as FP32 and rounded again to the device's formats, the first is "
        "\"{}\"",
        path, names.size(), dtype, import::printable(*names.begin()));
}

WeightsFile file_of(const fs::path& file, const std::string& name) {
  return {name, fs::file_size(file), sha256_of(file)};
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
  if (recipe.weights.fixture) {  // whose manifest holds the digests of all parameters
    const auto read = open_parameters(recipe, model, import::FixtureValues::Checked, host.threads);
    warn(path, read.scan);
    return {file_of(read.manifest, import::kFixtureManifest)};
  }
  const import::Weights weights = open(recipe, model);
  report_fp8(path, weights);
  warn(path, import::scan_weights(weights, host.threads));
  const std::vector<std::string> names = names_of(path, weights.checkpoint);
  std::vector<WeightsFile> files;
  for (std::size_t f = 0; f < names.size(); ++f)
    files.push_back(file_of(weights.checkpoint.files[f].file, names[f]));
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
  if (recipe.weights.fixture) {
    open_parameters(recipe, open_source(recipe).model, import::FixtureValues::Checked, host.threads);
    return;
  }
  if (one ? names.size() != 1 : names != names_of(path, import::open_checkpoint(path)))
    throw Error(ErrorKind::File, fmt::format("{}: other files than the package was built from ({})", path,
                                             fmt::join(names, ", ")));
}

import::Fixture open_fixture(const Host& host, const std::string& folder, const model::Model& model,
                             std::uint32_t calls) {
  host.progress->stage("check fixture");
  import::FixtureNeeds needs{
      .parameters = trained(model),
      .cases = import::FixtureNeeds::Cases{.count = calls, .inputs = {}, .expected = {}}};
  for (const graph::Value& value : model.graph.values)
    if (value.kind == graph::ValueKind::Host) needs.cases->inputs.push_back({value.name, value.shape});
  needs.cases->expected = model.graph.at(model.graph.outputs.at(0)).shape;
  return import::open_fixture(folder, needs, import::FixtureValues::Checked, host.threads);
}

std::string clipped_text(std::span<const compile::ClippedWeights> clipped) {
  if (clipped.empty()) return "";
  constexpr std::size_t kMostLines = 46;  // with four around them
  int needed = -16;
  std::set<std::string> roles, beyond;  // beyond: F16 too
  std::string lines;
  for (std::size_t i = 0; i < clipped.size(); ++i) {
    const compile::ClippedWeights& c = clipped[i];
    const int own = numeric::f143_scale_for(std::span(&c.largest, 1));
    needed = std::max(needed, own);
    (c.largest <= kLargestF16 ? roles : beyond).insert(tensor::role_of(c.name));
    if (i >= kMostLines) continue;
    lines += fmt::format(
        "\n  \"{}\": {} of {} ({:.2g} %) clip to {:g}, the most of scale {}; the largest, {:g}, needs {}",
        import::printable(c.name), c.clipped, c.values,
        100.0 * static_cast<double>(c.clipped) / static_cast<double>(c.values), std::ldexp(240.0, c.scale),
        c.scale, c.largest, own);
  }
  if (clipped.size() > kMostLines) lines += fmt::format("\n  and {} more", clipped.size() - kMostLines);
  for (const std::string& role : beyond) roles.erase(role);
  // Every role for itself where they are few.
  std::string fp16;
  if (roles.size() > 4)
    fp16 = beyond.empty() ? ", or --fp16 for their roles" : ", or --fp16 for the roles within its range";
  else if (!roles.empty())
    fp16 = fmt::format(", or --fp16 {}", fmt::join(roles, " --fp16 "));
  const std::string none =
      beyond.empty()
          ? ""
          : fmt::format("\n  F16 holds up to {:g}: --fp16 does not help {}{}", kLargestF16, *beyond.begin(),
                        beyond.size() > 1 ? fmt::format(" and {} more roles", beyond.size() - 1) : "");
  const std::string uniform = needed <= 15 ? fmt::format(", --fp8-scale {} for all", needed) : "";
  return fmt::format(
      "the weights of {} parameters clip in FP8:{}\n  try: scales of `tilewright calibrate`{}{}{}",
      clipped.size(), lines, uniform, fp16, none);
}

model::TensorSource tensor_source(const Recipe& recipe, const model::Model& model) {
  model::TensorSource drawn = model::random_source(model, recipe.seed);
  if (recipe.weights.path.empty()) return drawn;
  if (recipe.weights.fixture) {
    const auto fixture = std::make_shared<const import::Fixture>(
        open_parameters(recipe, model, import::FixtureValues::Unread, 1));
    return [fixture, drawn = std::move(drawn)](const std::string& name) {
      const auto found = fixture->parameters.find(name);
      return found != fixture->parameters.end() ? import::values_of(found->second) : drawn(name);
    };
  }
  const auto weights = std::make_shared<const import::Weights>(open(recipe, model));
  return [weights, drawn = std::move(drawn)](const std::string& name) {
    return weights->sources.contains(name) ? import::values_of(*weights, name) : drawn(name);
  };
}

}  // namespace tw::tools
