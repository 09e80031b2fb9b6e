#include "tools/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/sha256.h"
#include "import/calibration.h"
#include "import/files.h"
#include "plan/roles.h"
#include "tensor/role.h"
#include "tools/source.h"

namespace tw::tools {

namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;  // a hundred times the scales of any model

std::string digest_of(const std::string& text) {
  Sha256 sha256;
  sha256.add(std::as_bytes(std::span(text)));
  return sha256.finish();
}

}  // namespace

void check_fp16_roles(Recipe& recipe, const std::set<std::string>& roles) {
  std::set<std::string> known;
  for (const std::string& name : recipe.fp16_roles) {
    const std::string role = tensor::role_of(name);
    if (!roles.contains(role))
      throw Error(ErrorKind::Usage, fmt::format("--fp16: no product of {} has the role \"{}\" (roles: {})",
                                                recipe.model.name, role, fmt::join(roles, ", ")));
    known.insert(role);
  }
  recipe.fp16_roles = std::move(known);
}

void apply_calibration(Recipe& recipe, const std::filesystem::path& file) {
  if (file.empty() && recipe.fp16_roles.empty()) return;
  const std::set<std::string> roles = plan::product_roles(open_source(recipe).model.graph);
  check_fp16_roles(recipe, roles);
  if (file.empty()) return;
  const std::string text = import::read_limited(file, kMostBytes);
  import::Calibration read = import::calibration_from_json(text, file, roles);
  recipe.calibration_sha256 = digest_of(text);
  recipe.fp16_roles.insert(read.fp16.begin(), read.fp16.end());
  for (const std::string& role : recipe.fp16_roles) read.scales.erase(role);
  const auto differs = [&](const auto& s) { return s.second != read.scales.begin()->second; };
  if (std::ranges::any_of(read.scales, differs)) {
    recipe.fp8_scales = std::move(read.scales);
  } else if (!read.scales.empty()) {
    recipe.fp8_scale = read.scales.begin()->second;
  }
}

void require_same_calibration(const Recipe& recipe, const std::filesystem::path& file) {
  const std::string found = digest_of(import::read_limited(file, kMostBytes));
  if (found == recipe.calibration_sha256) return;
  const std::string built = recipe.calibration_sha256.empty()
                                ? "without a calibration file"
                                : fmt::format("with a calibration of sha256 {}", recipe.calibration_sha256);
  throw Error(ErrorKind::File, fmt::format("{}: the package was built {}, this file has sha256 {}",
                                           file.string(), built, found));
}

}  // namespace tw::tools
