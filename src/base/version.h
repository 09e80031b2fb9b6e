// Name and version of the tool, for results and packages.
#pragma once

namespace tw {

inline constexpr const char* kVersion = "0.1.0";
extern const char* const kCommit;  // short commit hash of the build, or "unknown"

}  // namespace tw
