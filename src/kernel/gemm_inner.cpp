// Matrix product vectorised over the 16 output columns of a block, never over k, so the order of decisions.md
// 2 holds by construction. Both operands are decoded to FP32 once per call; products of two F16 or of two
// F143 numbers are exact in FP32, so MulAdd gives the same bits with and without a fused instruction.
#include "kernel/gemm_inner.h"

#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include "kernel/half.h"

// Targets between the scalar baseline and AVX2 have no F16 conversions.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/gemm_inner.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h.
#include "kernel/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tw::kernel::HWY_NAMESPACE {

inline constexpr std::size_t kColumns = 16;                 // of one block
inline constexpr std::size_t kVectors = kColumns / kLanes;  // per row of the block
// Accumulators must fit the registers: 32 of 16 lanes with AVX-512, 16 of 8 lanes with AVX2.
inline constexpr std::size_t kMaxRows = kVectors == 1 ? 12 : kVectors == 2 ? 6 : 1;

// [16 columns][8 or 16 k] -> [k][16 columns] by interleaving the first half of the rows with the second half
// log2(rows) times.
template <class T, std::size_t kRows>
HWY_INLINE void transpose(const std::uint8_t* in, std::size_t in_stride, std::uint8_t* out,
                          std::size_t out_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < 16 / sizeof(T); ++j)
      store(out + j * out_stride + i * sizeof(T), load<T>(in + i * in_stride + j * sizeof(T)));
#else
  const hn::FixedTag<std::uint8_t, 16> bytes;
  const hn::FixedTag<T, 16 / sizeof(T)> lanes;
  hn::Vec<decltype(lanes)> v[kRows], w[kRows];
  HWY_UNROLL(16)
  for (std::size_t i = 0; i < kRows; ++i) v[i] = hn::BitCast(lanes, hn::LoadU(bytes, in + i * in_stride));
  HWY_UNROLL(4)
  for (std::size_t round = 1; round < kRows; round *= 2) {
    HWY_UNROLL(8)
    for (std::size_t i = 0; i < kRows / 2; ++i) {
      w[2 * i] = hn::InterleaveLower(lanes, v[i], v[i + kRows / 2]);
      w[2 * i + 1] = hn::InterleaveUpper(lanes, v[i], v[i + kRows / 2]);
    }
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < kRows; ++i) v[i] = w[i];
  }
  HWY_UNROLL(16)
  for (std::size_t i = 0; i < kRows; ++i) hn::StoreU(hn::BitCast(bytes, v[i]), bytes, out + i * out_stride);
#endif
}

// F143 codes to F32 times 2^scale: the code's bits are those of an F16 with the exponent 7 too small.
void decode_f143(const std::uint8_t* codes, float* out, std::size_t n, int scale) {
  const float nan = std::nanf("");
#if TW_HAVE_F16C
  const hn::Rebind<std::uint8_t, Floats> d8;
  const hn::Rebind<std::uint16_t, Floats> d16;
  const hn::Rebind<std::uint32_t, Floats> d32;
  const FloatVec factor = hn::Set(Floats(), std::ldexp(1.0F, 7 + scale));
  for (std::size_t i = 0; i < n; i += kLanes) {  // n is a multiple of 16
    const auto code = hn::PromoteTo(d16, hn::LoadU(d8, codes + i));
    const auto bits = hn::Or(hn::ShiftLeft<8>(hn::And(code, hn::Set(d16, 0x80))),
                             hn::ShiftLeft<7>(hn::And(code, hn::Set(d16, 0x7F))));
    const FloatVec v = hn::PromoteTo(Floats(), hn::BitCast(Halves(), bits));
    const auto minus_zero = hn::Eq(hn::BitCast(d32, v), hn::Set(d32, 0x80000000U));  // code 0x80
    hn::StoreU(
        hn::IfThenElse(hn::RebindMask(Floats(), minus_zero), hn::Set(Floats(), nan), hn::Mul(v, factor)),
        Floats(), out + i);
  }
#else
  float table[256];
  for (unsigned code = 0; code < 256; ++code)
    table[code] =
        code == 0x80 ? nan : std::ldexp(numeric::f143_to_f32(static_cast<std::uint8_t>(code)), scale);
  for (std::size_t i = 0; i < n; ++i) out[i] = table[codes[i]];
#endif
}

void decode_halves(const std::uint8_t* halves, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) hn::StoreU(load_halves(halves + 2 * i), Floats(), out + i);
}

// One block of 16 columns of the right operand to [k][16].
void decode_right(const GemmShape& s, const std::uint8_t* right, float* out) {
  alignas(64) std::uint8_t panel[512];
  const std::size_t group = s.f8 ? 32 : 16;
  for (std::size_t k = 0; k < s.k; k += group, right += 512, out += group * kColumns) {
    if (s.f8) {
      transpose<std::uint8_t, 16>(right, 32, panel, 16);
      transpose<std::uint8_t, 16>(right + 16, 32, panel + 256, 16);
      decode_f143(panel, out, 512, s.scale);
    } else {
      for (std::size_t half = 0; half < 2; ++half) {  // columns 0..7, 8..15
        transpose<std::uint16_t, 8>(right + half * 256, 32, panel + half * 16, 32);
        transpose<std::uint16_t, 8>(right + half * 256 + 16, 32, panel + 256 + half * 16, 32);
      }
      decode_halves(panel, out, 256);
    }
  }
}

// Where one tile of the product stands: operands of its first row, groups of k, distance of groups in `left`.
struct Tile {
  const float* left;
  const float* weights;
  std::size_t groups, group_stride;
  const std::uint8_t* initial;  // F16 partials, or null: start from zero
  std::uint8_t* out;
};

// The same sums one by one, only to tell a finite overflow from an infinity that came in.
bool overflows(const Tile& t, std::size_t rows, std::size_t group) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < kColumns; ++c) {
      float a =
          t.initial ? numeric::f16_to_f32(load<std::uint16_t>(t.initial + (r * kColumns + c) * 2)) : 0.0F;
      for (std::size_t g = 0; g < t.groups; ++g) {
        const float* x = t.left + g * t.group_stride + r * group;
        const float* w = t.weights + g * group * kColumns + c;
        for (std::size_t k = 0; k < group; ++k) a = std::fma(x[k], w[k * kColumns], a);
        const std::uint16_t h = numeric::f32_to_f16(a);
        if (std::isfinite(a) && !numeric::f16_is_finite(h)) return true;
        a = numeric::f16_to_f32(h);
      }
    }
  return false;
}

template <std::size_t kRows, std::size_t kGroup>
HWY_INLINE void accumulate_groups(const Tile& t, FloatVec (&a)[kRows][kVectors]) {
  const Floats d;
  for (std::size_t g = 0; g < t.groups; ++g) {
    const float* x = t.left + g * t.group_stride;
    const float* w = t.weights + g * kGroup * kColumns;
    HWY_UNROLL(4)
    for (std::size_t k = 0; k < kGroup; ++k, w += kColumns) {
      FloatVec weights[kVectors];
      HWY_UNROLL(16)
      for (std::size_t v = 0; v < kVectors; ++v) weights[v] = hn::LoadU(d, w + v * kLanes);
      HWY_UNROLL(16)
      for (std::size_t r = 0; r < kRows; ++r) {
        const FloatVec broadcast = hn::Set(d, x[r * kGroup + k]);
        HWY_UNROLL(16)
        for (std::size_t v = 0; v < kVectors; ++v) a[r][v] = hn::MulAdd(broadcast, weights[v], a[r][v]);
      }
    }
    HWY_UNROLL(16)
    for (std::size_t r = 0; r < kRows; ++r) {
      HWY_UNROLL(16)
      for (std::size_t v = 0; v < kVectors; ++v) a[r][v] = round_halves(a[r][v]);
    }
  }
}

template <std::size_t kRows, std::size_t kGroup>
bool product(const Tile& t) {
  const Floats d;
  FloatVec a[kRows][kVectors];
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (std::size_t v = 0; v < kVectors; ++v)
      a[r][v] = t.initial ? load_halves(t.initial + (r * kColumns + v * kLanes) * 2) : hn::Zero(d);
  }
  accumulate_groups<kRows, kGroup>(t, a);
  // An infinity never becomes finite again, so finite results prove that no group overflowed.
  auto good = hn::FirstN(d, kLanes);
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (std::size_t v = 0; v < kVectors; ++v) good = hn::And(good, finite(a[r][v]));
  }
  const bool overflow = !hn::AllTrue(d, good) && overflows(t, kRows, kGroup);
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (std::size_t v = 0; v < kVectors; ++v) store_halves(a[r][v], t.out + (r * kColumns + v * kLanes) * 2);
  }
  return overflow;
}

template <std::size_t kGroup, std::size_t... kIndex>
bool product_rows(const Tile& t, std::size_t rows, std::index_sequence<kIndex...>) {
  static constexpr bool (*kTable[])(const Tile&) = {product<kIndex + 1, kGroup>...};
  return kTable[rows - 1](t);
}

bool gemm_blocks(const GemmShape& s, const std::uint8_t* left, const std::uint8_t* right, std::uint8_t* out,
                 float* left_values, float* weights) {
  const std::size_t group = s.f8 ? 32 : 16;
  // The FP8 product scale stands in the weights only: a power of two, hence exact.
  s.f8 ? decode_f143(left, left_values, s.rows * s.k, 0) : decode_halves(left, left_values, s.rows * s.k);
  const std::size_t tiles = (s.rows + kMaxRows - 1) / kMaxRows;
  bool overflow = false;
  for (std::size_t c = 0; c < s.columns; c += kColumns) {
    decode_right(s, right + c * s.k * (s.f8 ? 1 : 2), weights);
    for (std::size_t i = 0; i < tiles; ++i) {  // tiles of equal height, so that none is needlessly low
      const std::size_t r = i * s.rows / tiles, rows = (i + 1) * s.rows / tiles - r;
      std::uint8_t* const target = out + (c * s.rows + r * kColumns) * 2;
      const Tile tile{left_values + r * group,         weights, s.k / group, s.rows * group,
                      s.accumulate ? target : nullptr, target};
      constexpr auto heights = std::make_index_sequence<kMaxRows>();
      overflow |= s.f8 ? product_rows<32>(tile, rows, heights) : product_rows<16>(tile, rows, heights);
    }
  }
  return overflow;
}

}  // namespace tw::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tw::kernel {
namespace {

// Grows only; one per thread.
struct Scratch {
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, kAlignment); }
  };
  std::unique_ptr<float[], Free> values;
  std::size_t size = 0;
  float* get(std::size_t n) {
    if (n > size) {
      values.reset(static_cast<float*>(::operator new[](n * sizeof(float), kAlignment)));
      size = n;
    }
    return values.get();
  }
};

}  // namespace

HWY_EXPORT(gemm_blocks);

bool gemm(const GemmShape& shape, const std::uint8_t* left, const std::uint8_t* right, std::uint8_t* out) {
  thread_local Scratch left_values, weights;
  return HWY_DYNAMIC_DISPATCH(gemm_blocks)(shape, left, right, out, left_values.get(shape.rows * shape.k),
                                           weights.get(shape.k * 16));
}

}  // namespace tw::kernel
#endif
