// Input bytes as files of this process, for readers that take a path.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace tw::fuzz {

// In memory where the host has such a folder.
inline std::filesystem::path scratch_path(const std::string& suffix) {
  const std::filesystem::path shared = "/dev/shm";
  const auto folder = std::filesystem::is_directory(shared) ? shared : std::filesystem::temp_directory_path();
  return folder / ("tilewright-fuzz-" + std::to_string(getpid()) + suffix);
}
inline void write_bytes(const std::filesystem::path& file, const void* data, std::size_t size) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& suffix) : path_(scratch_path(suffix)) {}
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::filesystem::path& write(const std::uint8_t* data, std::size_t size) {
    write_bytes(path_, data, size);
    return path_;
  }

 private:
  std::filesystem::path path_;
};

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& suffix) : path_(scratch_path(suffix)) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tw::fuzz
