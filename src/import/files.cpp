#include "import/files.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "import/problems.h"

namespace tw::import {
namespace fs = std::filesystem;

void require_regular(const fs::path& file) {
  std::error_code code;
  const fs::file_status status = fs::status(file, code);
  if (fs::is_regular_file(status)) return;
  refuse(file, {fs::exists(status) ? "is no regular file" : "no such file"});
}

std::string read_limited(const fs::path& file, std::uint64_t most_bytes) {
  require_regular(file);
  std::error_code code;
  const std::uint64_t size = fs::file_size(file, code);
  if (!code && size > most_bytes)
    refuse(file, {fmt::format("{} bytes are more than the limit of {}", size, most_bytes)});
  std::string text(code ? 0 : size, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (code || !in) refuse(file, {"cannot be read"});
  return text;
}

std::string path_problem(const std::string& name, const std::string& folder) {
  const fs::path path(name);
  if (name.empty()) return "an empty file name";
  if (name.find('\0') != std::string::npos) return "a file name with a zero byte";
  if (path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end())
    return fmt::format("file \"{}\" is outside {}", printable(name), folder);
  return "";
}

bool stands_inside(const fs::path& file, const fs::path& folder) {
  std::error_code code;
  const fs::path target = fs::canonical(file, code);
  if (code) return false;
  const fs::path root = fs::canonical(folder, code);
  return !code && std::ranges::mismatch(root, target).in1 == root.end();
}

}  // namespace tw::import
