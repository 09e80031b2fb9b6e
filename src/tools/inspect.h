// What is in a package, as text: bindings, segments, symbols, one tile's program, rows and patches.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "package/package.h"

namespace tw::tools {

std::string inspect_text(const package::Package& package, std::optional<std::uint32_t> tile,
                         std::optional<std::uint32_t> phase);
std::string inspect_json(const package::Package& package);

}  // namespace tw::tools
