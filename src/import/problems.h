// The refusal of a file with everything that is wrong with it (users.md 6).
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tw::import {

// Error{File}: the file and its problems, at most 50 of them and how many more there are.
[[noreturn]] void refuse(const std::filesystem::path& file, const std::vector<std::string>& problems);
// A name out of a file as one printable line of at most 200 bytes.
std::string printable(const std::string& name);
std::string in_quotes(const std::string& name);                // that, in quotation marks
std::string shape_text(std::span<const std::uint64_t> shape);  // "[2,3]"; the first sixteen extents

}  // namespace tw::import
