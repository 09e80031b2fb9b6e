#include "import/container.h"

#include <cstdlib>

namespace tw::import {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::uint32_t little(Bytes file, std::size_t at, unsigned bytes) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= std::uint32_t{file[at + i]} << (8 * i);
  return value;
}

// Start-of-frame markers C0..CF without the tables DHT, JPG and DAC.
bool is_frame(std::uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}
bool is_restart(std::uint8_t marker) { return marker >= 0xD0 && marker <= 0xD7; }

// Walks the marker segments up to the end-of-image marker.
std::string jpeg_problem(Bytes file) {
  constexpr const char* kTruncated = "the JPEG file is truncated";
  std::size_t at = 2;
  bool scan = false;  // inside entropy-coded data, where FF 00 and restart markers are data
  while (at + 1 < file.size()) {
    const std::uint8_t marker = file[at + 1];
    if (file[at] != 0xFF || (scan && (marker == 0 || is_restart(marker)))) {
      if (!scan) return "the JPEG file has no marker where one is due";
      ++at;
      continue;
    }
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    if (marker == 0xD9) return "";
    if (at + 4 > file.size()) return kTruncated;
    const std::size_t length = std::size_t{file[at + 2]} * 256 + file[at + 3];
    if (length < 2) return "a JPEG segment has an impossible length";
    if (is_frame(marker)) {
      if (length < 8 || at + 10 > file.size()) return kTruncated;
      if (file[at + 9] == 4) return "CMYK images are not supported";
    }
    scan = marker == 0xDA;
    at += 2 + length;
  }
  return kTruncated;
}

std::string bmp_problem(Bytes file) {
  constexpr const char* kTruncated = "the BMP file is truncated";
  if (file.size() < 30) return kTruncated;
  const std::uint32_t offset = little(file, 10, 4);
  const bool core = little(file, 14, 4) == 12;  // OS/2 header: 16-bit extents
  const std::uint64_t width = core ? little(file, 18, 2) : little(file, 18, 4);
  const std::int64_t signed_height =
      core ? static_cast<std::int64_t>(little(file, 20, 2)) : static_cast<std::int32_t>(little(file, 22, 4));
  const auto height = static_cast<std::uint64_t>(std::llabs(signed_height));
  const std::uint64_t bits = core ? little(file, 24, 2) : little(file, 28, 2);
  if (width > (1U << 24) || height > (1U << 24) || bits > 32) return "the BMP file has impossible extents";
  const std::uint64_t row = (width * bits + 31) / 32 * 4;
  return offset + row * height > file.size() ? kTruncated : "";
}

}  // namespace

std::string container_problem(Bytes file) {
  if (file.size() >= 2 && file[0] == 0xFF && file[1] == 0xD8) return jpeg_problem(file);
  if (file.size() >= 2 && file[0] == 'B' && file[1] == 'M') return bmp_problem(file);
  return "";
}

}  // namespace tw::import
