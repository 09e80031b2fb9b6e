// What is in a package, as text and as JSON (cli.md): bindings, segments, symbols, one tile's program, the
// exchange row of a phase with its patches.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "package/package.h"

namespace tw::inspect {

// What to look at: nothing set is the package as a whole. Tiles are physical.
struct Selection {
  std::optional<std::uint32_t> tile;
  std::optional<std::uint32_t> phase;  // of that tile
};

// Both: Error{Usage} for a phase without a tile and for what the package does not have.
std::string text(const package::Package& package, const Selection& selection);
std::string json(const package::Package& package, const Selection& selection);

// Shared by the two.
const char* name_of(package::BindingKind kind);
std::string flags_text(std::uint8_t flags);  // "r-x"

}  // namespace tw::inspect
