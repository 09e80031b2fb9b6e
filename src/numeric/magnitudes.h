// How large the values of a tensor are: what a scale of F143 would do to them (models.md A.1.1).
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace tw::numeric {

// Counts of magnitudes by exponent and four bits of the fraction: the thresholds of F143 lie on their bounds,
// so every figure is exact. Scales are exponents in -32..31.
class Magnitudes {
 public:
  void add(std::span<const float> values);

  float largest() const;          // finite magnitude; 0 without any
  std::uint64_t finite() const;   // values, zeros among them
  std::uint64_t nonzero() const;  // finite ones
  std::uint64_t not_finite() const { return not_finite_; }
  int scale() const;                            // f143_scale_for all values
  std::uint64_t clipped(int scale) const;       // as f143_clips
  std::uint64_t below_normal(int scale) const;  // other than 0, under the smallest normal, 2^(scale - 7)
  // The smallest scale that clips at most `share` of the values other than 0; 0 without any.
  int scale_without(double share) const;

 private:
  std::uint64_t between(float low, float high) const;  // low <= |x| < high

  static constexpr int kShift =
      19;  // of the bits of a float: sign, exponent and four bits of the fraction stay
  std::array<std::uint64_t, 1 << (31 - kShift)> counts_{};  // of finite values
  std::uint64_t zeros_ = 0, not_finite_ = 0;
  std::uint32_t largest_ = 0;  // bits
};

}  // namespace tw::numeric
