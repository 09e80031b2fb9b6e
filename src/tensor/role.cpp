#include "tensor/role.h"

#include <algorithm>
#include <string_view>

namespace tw::tensor {

std::string role_of(const std::string& name) {
  constexpr std::string_view kModel = "vit.", kWeight = ".weight", kLayer = "encoder.layer";
  std::string_view role = name;
  if (role.starts_with(kModel)) role.remove_prefix(kModel.size());
  if (role.ends_with(kWeight)) role.remove_suffix(kWeight.size());
  if (!role.starts_with(kLayer)) return std::string(role);
  const std::string_view rest = role.substr(kLayer.size());
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::string(role);
  const std::string_view index = rest.substr(0, dot);
  const bool digits = std::ranges::all_of(index, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits && index != "{}") return std::string(role);
  return std::string(kLayer) + std::string(rest.substr(dot));
}

}  // namespace tw::tensor
