// Checks of image files that the decoder does not make: it fills up truncated files and converts CMYK
// silently.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tw::import {

// Why the file must be refused, or empty. Knows JPEG and BMP; other formats always pass.
std::string container_problem(std::span<const std::uint8_t> file);

}  // namespace tw::import
