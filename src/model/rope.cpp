#include "model/rope.h"

#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace tw::model {
namespace {

constexpr double kTheta = 10000;  // models.md B.2

}  // namespace

RopeTables rope_tables(std::uint32_t side, std::uint32_t width) {
  TW_CHECK(width > 0 && width % 4 == 0, "rotary positions need pairs of channels in both halves");
  const std::uint32_t half = width / 2;
  const std::size_t elements = (std::size_t{side} * side + 1) * width;
  RopeTables out{std::vector<float>(elements, 1.0F), std::vector<float>(elements, 0.0F)};
  std::vector<float> frequencies;  // of the pairs of one half
  for (std::uint32_t i = 0; i < half / 2; ++i)
    frequencies.push_back(static_cast<float>(std::pow(kTheta, -2.0 * i / half)));
  for (std::uint32_t row = 0; row < side; ++row)
    for (std::uint32_t column = 0; column < side; ++column)
      for (std::uint32_t channel = 0; channel < width; ++channel) {
        const std::uint32_t position = channel < half ? column : row;
        // The angle is FP32; its functions are rounded once, whatever the C library.
        const float angle = static_cast<float>(position + 1) * frequencies[channel % half / 2];
        const std::size_t at = (1 + std::size_t{row} * side + column) * width + channel;
        out.cosine[at] = static_cast<float>(std::cos(static_cast<double>(angle)));
        out.sine[at] = static_cast<float>(std::sin(static_cast<double>(angle)));
      }
  return out;
}

}  // namespace tw::model
