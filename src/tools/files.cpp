#include "tools/files.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

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
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.bad() || !in.is_open() || fs::is_directory(file))
    throw Error(ErrorKind::Io, file.string() + ": cannot be read");
  return text.str();
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

std::string sha256_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ErrorKind::Io, fmt::format("cannot read {}", file.string()));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  TW_CHECK(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
           "SHA-256 is not available");
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0)
    EVP_DigestUpdate(context.get(), block.data(), static_cast<std::size_t>(in.gcount()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace tw::tools
