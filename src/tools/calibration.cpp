#include "tools/calibration.h"

#include <algorithm>

#include "import/calibration.h"
#include "plan/roles.h"
#include "tensor/role.h"
#include "tools/files.h"
#include "tools/source.h"

namespace tw::tools {

void apply_calibration(Recipe& recipe, const std::filesystem::path& file) {
  const std::set<std::string> roles = plan::product_roles(open_source(recipe).model.graph);
  import::Calibration read = import::calibration_from_json(read_text(file), file, roles);
  recipe.fp16_embedding = recipe.fp16_embedding || read.fp16_embedding;
  if (recipe.fp16_embedding) read.scales.erase(tensor::kEmbeddingRole);
  const auto differs = [&](const auto& s) { return s.second != read.scales.begin()->second; };
  if (std::ranges::any_of(read.scales, differs)) {
    recipe.fp8_scales = std::move(read.scales);
  } else if (!read.scales.empty()) {
    recipe.fp8_scale = read.scales.begin()->second;
  }
}

}  // namespace tw::tools
