#include "kernel/half.h"

#include <cmath>

// Targets between the scalar baseline and AVX2 have no F16 conversions.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/half.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h.
#include "kernel/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tw::kernel::HWY_NAMESPACE {

void promote_lanes(const std::uint8_t* halves, float* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(load_halves(halves + 2 * i), Floats(), out + i);
  for (; i < n; ++i) out[i] = numeric::f16_to_f32(load<std::uint16_t>(halves + 2 * i));
}

// Lanes of `exact` that are finite while `rounded` is not.
HWY_INLINE hn::Mask<Floats> overflowed(FloatVec exact, FloatVec rounded) {
  return hn::AndNot(finite(rounded), finite(exact));
}
bool overflowed_scalar(float exact, std::uint16_t rounded) {
  return std::isfinite(exact) && !numeric::f16_is_finite(rounded);
}

bool demote_lanes(const float* in, std::uint8_t* halves, std::size_t n) {
  hn::Mask<Floats> bad = hn::FirstN(Floats(), 0);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const FloatVec v = hn::LoadU(Floats(), in + i);
    store_halves(v, halves + 2 * i);
    bad = hn::Or(bad, overflowed(v, round_halves(v)));
  }
  bool overflow = !hn::AllFalse(Floats(), bad);
  for (; i < n; ++i) {
    const std::uint16_t h = numeric::f32_to_f16(in[i]);
    overflow |= overflowed_scalar(in[i], h);
    store(halves + 2 * i, h);
  }
  return overflow;
}

bool round_lanes(float* values, std::size_t n) {
  hn::Mask<Floats> bad = hn::FirstN(Floats(), 0);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const FloatVec v = hn::LoadU(Floats(), values + i), rounded = round_halves(v);
    hn::StoreU(rounded, Floats(), values + i);
    bad = hn::Or(bad, overflowed(v, rounded));
  }
  bool overflow = !hn::AllFalse(Floats(), bad);
  for (; i < n; ++i) {
    const std::uint16_t h = numeric::f32_to_f16(values[i]);
    overflow |= overflowed_scalar(values[i], h);
    values[i] = numeric::f16_to_f32(h);
  }
  return overflow;
}

bool add_lanes(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out, std::size_t n) {
  hn::Mask<Floats> bad = hn::FirstN(Floats(), 0);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const FloatVec sum = hn::Add(load_halves(a + 2 * i), load_halves(b + 2 * i));
    store_halves(sum, out + 2 * i);
    bad = hn::Or(bad, overflowed(sum, round_halves(sum)));
  }
  bool overflow = !hn::AllFalse(Floats(), bad);
  for (; i < n; ++i) {
    const float sum = numeric::f16_to_f32(load<std::uint16_t>(a + 2 * i)) +
                      numeric::f16_to_f32(load<std::uint16_t>(b + 2 * i));
    const std::uint16_t h = numeric::f32_to_f16(sum);
    overflow |= overflowed_scalar(sum, h);
    store(out + 2 * i, h);
  }
  return overflow;
}

}  // namespace tw::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tw::kernel {

HWY_EXPORT(promote_lanes);
HWY_EXPORT(demote_lanes);
HWY_EXPORT(round_lanes);
HWY_EXPORT(add_lanes);

void promote(const std::uint8_t* halves, float* out, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(promote_lanes)(halves, out, n);
}
bool demote(const float* in, std::uint8_t* halves, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(demote_lanes)(in, halves, n);
}
bool round_to_half(float* values, std::size_t n) { return HWY_DYNAMIC_DISPATCH(round_lanes)(values, n); }
bool add_halves(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(add_lanes)(a, b, out, n);
}

}  // namespace tw::kernel
#endif
