// Input bytes as a file of this process, for readers that take a path.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace tw::fuzz {

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& suffix) {
    const std::filesystem::path shared = "/dev/shm";
    const auto folder =
        std::filesystem::is_directory(shared) ? shared : std::filesystem::temp_directory_path();
    path_ = folder / ("tilewright-fuzz-" + std::to_string(getpid()) + suffix);
  }
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::filesystem::path& write(const std::uint8_t* data, std::size_t size) {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path_;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tw::fuzz
