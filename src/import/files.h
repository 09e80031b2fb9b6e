// Text files read as a whole, and the files that they name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace tw::import {

// Error{File}: no such file, or a folder, a device, a pipe.
void require_regular(const std::filesystem::path& file);
// All bytes. Error{File}: as require_regular, more than `most_bytes`, cannot be read.
std::string read_limited(const std::filesystem::path& file, std::uint64_t most_bytes);
// Why a file name that stands in a file is refused, or empty; `folder` says what it must not leave ("the
// index's folder"). By its text alone: links are followed, as download caches have them.
std::string path_problem(const std::string& name, const std::string& folder);
// Whether `file` stands in `folder` or below when every symbolic link is followed. Both must exist.
bool stands_inside(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace tw::import
