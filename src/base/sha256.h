// SHA-256 as 64 lower-case hexadecimal digits: of a file, or of bytes as they come.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // of OpenSSL

namespace tw {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  std::string finish();  // once; nothing may be added afterwards

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// Error{Io} when the file cannot be read.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace tw
