#include "import/scan.h"

#include <fmt/core.h>

#include <cmath>

namespace tw::import {

void ValueScan::add(std::span<const float> values) {
  // F16 rounds to infinity from 65520 on, and to zero up to 2^-25.
  constexpr float kOverflow = 65520.0F, kVanish = 0x1p-25F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float magnitude = std::abs(values[i]);
    if (!std::isfinite(magnitude)) {
      if (bad++ == 0) first_bad = seen + i;
    } else if (magnitude >= kOverflow) {
      ++overflowing;
    } else if (magnitude > 0 && magnitude <= kVanish) {
      ++vanishing;
    }
  }
  seen += values.size();
}

std::string ValueScan::problem() const {
  if (bad == 0) return "";
  return fmt::format("holds {} NaN or infinite values, the first is element {}", bad, first_bad);
}

void Scan::add(const ValueScan& values, const std::string& tensor) {
  if (values.overflowing > 0 && overflowing == 0) first_overflowing = tensor;
  overflowing += values.overflowing;
  vanishing += values.vanishing;
}

}  // namespace tw::import
