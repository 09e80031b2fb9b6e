#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ref/ref.h"

namespace tw::ref {

double minimum_cosine(std::span<const float> actual, std::span<const float> expected, std::size_t width) {
  TW_CHECK(actual.size() == expected.size(), "outputs of different size");
  TW_CHECK(width > 0 && !actual.empty() && actual.size() % width == 0,
           "output is no whole number of embeddings");
  double minimum = std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < actual.size(); row += width) {
    double dot = 0, a = 0, b = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      const double x = actual[i], y = expected[i];
      dot += x * y;
      a += x * x;
      b += y * y;
    }
    const double cosine = dot / std::sqrt(a * b);
    if (!std::isfinite(cosine) || !std::isfinite(a) || !std::isfinite(b))
      return std::numeric_limits<double>::quiet_NaN();
    minimum = std::min(minimum, cosine);
  }
  return minimum;
}

double max_abs_error(std::span<const float> actual, std::span<const float> expected) {
  TW_CHECK(actual.size() == expected.size(), "outputs of different size");
  double maximum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();  // no comparison may hide it
    maximum = std::max(maximum, error);
  }
  return maximum;
}

}  // namespace tw::ref
