#include "import/image.h"

#include <fmt/core.h>

#include <fstream>
#include <memory>

#include "base/error.h"
#include "import/container.h"
#include "import/files.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_NO_GIF
#define STBI_NO_PSD
#define STBI_NO_PIC
#define STBI_NO_TGA
#define STBI_NO_PNM  // overruns its buffer on 16-bit samples, whatever is checked before
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb_image.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace tw::import {
namespace {

constexpr std::uint64_t kMaxBytes = 256ULL << 20, kMaxPixels = 64'000'000;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw Error(ErrorKind::File, fmt::format("{}: {}", file.string(), why));
}

std::vector<std::uint8_t> read(const std::filesystem::path& file) {
  require_regular(file);
  std::error_code code;
  const std::uint64_t size = std::filesystem::file_size(file, code);
  if (code) refuse(file, "cannot be read");
  if (size == 0) refuse(file, "is empty");
  if (size > kMaxBytes) refuse(file, fmt::format("{} bytes are more than the limit of {}", size, kMaxBytes));
  std::vector<std::uint8_t> bytes(size);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!stream) refuse(file, "cannot be read");
  return bytes;
}

}  // namespace

Image load_image(const std::filesystem::path& file) {
  const auto bytes = read(file);
  const auto length = static_cast<int>(bytes.size());
  int width = 0, height = 0, channels = 0;
  // Before the decoder reads a single header field: it trusts some of them.
  if (const std::string problem = container_problem(bytes); !problem.empty()) refuse(file, problem);
  if (stbi_info_from_memory(bytes.data(), length, &width, &height, &channels) == 0)
    refuse(file, fmt::format("is not a readable image ({})", stbi_failure_reason()));
  if (width <= 0 || height <= 0) refuse(file, "is an image without pixels");
  if (static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) > kMaxPixels)
    refuse(file, fmt::format("{} x {} pixels are more than the limit of {}", width, height, kMaxPixels));
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), length, &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) refuse(file, fmt::format("cannot be decoded ({})", stbi_failure_reason()));
  Image image;
  image.width = static_cast<std::uint32_t>(width);
  image.height = static_cast<std::uint32_t>(height);
  image.pixels.assign(pixels.get(), pixels.get() + std::size_t{image.width} * image.height * 3);
  return image;
}

}  // namespace tw::import
