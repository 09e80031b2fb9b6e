// Files the tools write: whole or not at all (a temporary beside the target, then a rename).
#pragma once
#include <filesystem>
#include <string>

namespace tw::tools {

// Error{Io} names the path and the cause; nothing partial remains. "-" writes to standard output.
void write_text(const std::string& text, const std::string& file);
// All bytes, of a pipe too. Error{Io} names the path; Error{File}: more than 1 GiB.
std::string read_text(const std::filesystem::path& file);
// Throws Error{Io} before long work when `file` could not be created.
void require_writable(const std::filesystem::path& file);
// Creates the folders on the way to `file`. Error{Io} names the path and the cause.
void make_parents(const std::filesystem::path& file);

}  // namespace tw::tools
