#include "tools/files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/temporary.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

std::string temporary_name(const fs::path& file) { return fmt::format("{}.{}.tmp", file.string(), getpid()); }

[[noreturn]] void fail(const fs::path& file, int error) {
  throw Error(ErrorKind::Io, fmt::format("cannot write {}: {}", file.string(), std::strerror(error)));
}

}  // namespace

void write_text(const std::string& text, const std::string& file) {
  if (file == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0) throw Error(ErrorKind::Io, "cannot write to standard output");
    return;
  }
  const std::string temporary = temporary_name(file);
  const InterruptibleFile interruptible(temporary);
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  if (out == nullptr) fail(file, errno);
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const int error = errno;
  const bool closed = std::fclose(out) == 0;
  if (!written || !closed) {
    const int cause = error != 0 ? error : errno;
    std::remove(temporary.c_str());
    fail(file, cause);
  }
  if (std::rename(temporary.c_str(), file.c_str()) != 0) {
    const int cause = errno;
    std::remove(temporary.c_str());
    fail(file, cause);
  }
}

std::string read_text(const fs::path& file) {
  constexpr std::size_t kMostBytes = 1UL << 30;  // a pipe or a device may have no end
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostBytes)
      throw Error(ErrorKind::File, fmt::format("{}: more than {} bytes", file.string(), kMostBytes));
  }
  if (in.bad() || !in.is_open() || fs::is_directory(file))
    throw Error(ErrorKind::Io, file.string() + ": cannot be read");
  return text;
}

void require_writable(const fs::path& file) {
  if (fs::is_directory(file))
    throw Error(ErrorKind::Io, fmt::format("cannot write {}: it is a directory", file.string()));
  const std::string temporary = temporary_name(file);
  const InterruptibleFile interruptible(temporary);
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  if (out == nullptr) fail(file, errno);
  std::fclose(out);
  std::remove(temporary.c_str());
}

void make_parents(const fs::path& file) {
  const fs::path parent = file.parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error)
    throw Error(ErrorKind::Io, fmt::format("cannot create folder {}: {}", parent.string(), error.message()));
}

}  // namespace tw::tools
