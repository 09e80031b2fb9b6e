// Package fields other than payload bytes, to and from Cap'n Proto (package.capnp).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "package/package.h"

namespace tw::package {

inline constexpr const char* kFamily = "ipu21";  // hardware.md 5.3

std::vector<std::uint8_t> encode_metadata(const Package& package);
// Leaves blobs and weights empty. Malformed bytes: Error{File} that starts with `name`.
Package decode_metadata(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace tw::package
