// Photographs: decoding (stb_image), PIL-equal resize, patches (models.md B; decisions.md 24).
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace tw::import {

struct Image {  // RGB, 8 bit, row-major, 3 bytes per pixel
  std::uint32_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};
// Error{File}: missing, truncated, oversized (more than 64 Mpixel or 256 MiB), not an image, CMYK.
Image load_image(const std::filesystem::path& file);

enum class Filter : std::uint8_t { Bilinear, Bicubic };
// PIL's antialiased separable resize, 8-bit rounding between passes.
Image resize(const Image& image, std::uint32_t width, std::uint32_t height, Filter filter);

// Top-left side x side, (x/255 - 0.5)/0.5, patches in order (py, px), elements (y, x, channel): row-major
// [(side/patch)^2 (+1 leading zero row), patch*patch*3].
std::vector<float> patches(const Image& image, std::uint32_t side, std::uint32_t patch, bool class_row);

}  // namespace tw::import
