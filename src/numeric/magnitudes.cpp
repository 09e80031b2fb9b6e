#include "numeric/magnitudes.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "numeric/formats.h"

namespace tw::numeric {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU, kInfinity = 0x7F800000U;
constexpr int kLeastScale = -32, kMostScale = 31;

}  // namespace

void Magnitudes::add(std::span<const float> values) {
  for (const float x : values) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & kMagnitude;
    if (bits >= kInfinity) {
      ++not_finite_;
      continue;
    }
    ++counts_[bits >> kShift];
    zeros_ += bits == 0;
    largest_ = std::max(largest_, bits);
  }
}

float Magnitudes::largest() const { return std::bit_cast<float>(largest_); }

std::uint64_t Magnitudes::finite() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}
std::uint64_t Magnitudes::nonzero() const { return finite() - zeros_; }

int Magnitudes::scale() const {
  const float value = largest();
  return f143_scale_for(std::span(&value, 1));
}

std::uint64_t Magnitudes::between(float low, float high) const {
  const auto bin = [&](float x) { return counts_.begin() + (std::bit_cast<std::uint32_t>(x) >> kShift); };
  return std::accumulate(bin(low), bin(high), std::uint64_t{0});
}

std::uint64_t Magnitudes::clipped(int scale) const {
  return between(f143_clip_limit(scale), std::numeric_limits<float>::infinity());
}

std::uint64_t Magnitudes::below_normal(int scale) const {
  return between(0, std::ldexp(1.0F, scale - 7)) - zeros_;
}

int Magnitudes::scale_without(double share) const {
  const double allowed = share * static_cast<double>(nonzero());
  if (nonzero() == 0) return 0;
  for (int scale = kLeastScale; scale < kMostScale; ++scale)
    if (static_cast<double>(clipped(scale)) <= allowed) return scale;
  return kMostScale;
}

}  // namespace tw::numeric
