// F16 vectors per instruction set; included once per target (Highway's toggle guard).
#if defined(TW_KERNEL_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TW_KERNEL_HALF_INL_H_
#undef TW_KERNEL_HALF_INL_H_
#else
#define TW_KERNEL_HALF_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernel/internal.h"
#include "numeric/formats.h"

HWY_BEFORE_NAMESPACE();
namespace tw::kernel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<Floats>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());

#undef TW_HAVE_F16C
// The conversion instructions round to nearest even; targets without them use the scalar functions.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define TW_HAVE_F16C 1
#else
#define TW_HAVE_F16C 0
#endif

#if TW_HAVE_F16C
using Halves = hn::Rebind<hwy::float16_t, Floats>;

HWY_INLINE FloatVec load_halves(const std::uint8_t* p) {
  const hn::Repartition<std::uint8_t, hn::Rebind<std::uint16_t, Floats>> bytes;
  return hn::PromoteTo(Floats(), hn::BitCast(Halves(), hn::LoadU(bytes, p)));
}
HWY_INLINE void store_halves(FloatVec v, std::uint8_t* p) {
  const hn::Repartition<std::uint8_t, hn::Rebind<std::uint16_t, Floats>> bytes;
  hn::StoreU(hn::BitCast(bytes, hn::DemoteTo(Halves(), v)), bytes, p);
}
HWY_INLINE FloatVec round_halves(FloatVec v) { return hn::PromoteTo(Floats(), hn::DemoteTo(Halves(), v)); }
#else
HWY_INLINE FloatVec load_halves(const std::uint8_t* p) {
  float lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = numeric::f16_to_f32(load<std::uint16_t>(p + 2 * i));
  return hn::LoadU(Floats(), lanes);
}
HWY_INLINE void store_halves(FloatVec v, std::uint8_t* p) {
  float lanes[kLanes];
  hn::StoreU(v, Floats(), lanes);
  for (std::size_t i = 0; i < kLanes; ++i) store(p + 2 * i, numeric::f32_to_f16(lanes[i]));
}
HWY_INLINE FloatVec round_halves(FloatVec v) {
  float lanes[kLanes];
  hn::StoreU(v, Floats(), lanes);
  for (float& lane : lanes) lane = numeric::f16_to_f32(numeric::f32_to_f16(lane));
  return hn::LoadU(Floats(), lanes);
}
#endif

// Lanes that are finite.
HWY_INLINE hn::Mask<Floats> finite(FloatVec v) { return hn::Lt(hn::Abs(v), hn::Inf(Floats())); }

}  // namespace tw::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
