// Conversions between F16, F32 and F143, linear and into FP8 AL panels (compiler.md 3.8, decisions.md 8).
#include <array>
#include <vector>

#include "base/math.h"
#include "kernel/encode.h"
#include "kernel/half.h"
#include "kernel/internal.h"
#include "numeric/formats.h"

namespace tw::kernel {
namespace {

// compiler.md 5.4, cast F16 -> FP8; p = rows regrouped per panel (0: order unchanged).
std::uint64_t encode_cycles(std::uint64_t n, std::uint64_t p) {
  if (p <= 1) return 330 + 24 * cd(n, 48U);  // a single row keeps its order
  const std::uint64_t panels = cd(n, 32 * p);
  if (p <= 32 && panels >= 6) return 330 + cd(panels, 6U) * (120 + 72 * p);
  return 330 + panels * (120 + 72 * cd(p, 6U));
}

// ---- Linear casts: out, in, n[, scale]
template <std::uint64_t kIn, std::uint64_t kOut, bool kScaled>
std::string validate_linear(const Call& call) {
  constexpr const char* kName = kIn == 4    ? "CastF32ToF16"
                                : kOut == 4 ? "CastF16ToF32"
                                : kIn == 2  ? "CastF16ToF8"
                                            : "CastF8ToF16";
  Checker check(kName, call, kScaled ? 4 : 3, 0);
  check.count(2, "n");
  if (kScaled) check.require(check.m(3) < 64, "scale has more than 6 bits");
  check.operand(0, "output", check.m(2) * kOut);
  check.operand(1, "input", check.m(2) * kIn);
  check.disjoint(0, 1);
  return check.result();
}
template <std::uint64_t kIn, std::uint64_t kOut>
std::vector<Access> accesses_linear(const Call& call) {
  Accesses list;
  list.read(1, call.m[1], call.m[2] * kIn);
  list.write(0, call.m[0], call.m[2] * kOut);
  return list.take();
}

std::uint64_t cycles_encode(const Call& call) { return encode_cycles(call.m[2], 0); }
void run_encode(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  effects.fp8_clips += encoder(call.m[3]).encode(sram.at(call.m[1]), sram.at(call.m[0]), call.m[2]);
}

std::uint64_t cycles_decode(const Call& call) { return 11 + cd(std::uint64_t{call.m[2]} * 3, 8U); }
void run_decode(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  std::array<std::uint16_t, 256> half;
  for (std::uint32_t code = 0; code < 256; ++code)
    half[code] =
        numeric::f32_to_f16(numeric::f143_to_f32(static_cast<std::uint8_t>(code), signed_scale(call.m[3])));
  const std::uint8_t* in = sram.at(call.m[1]);
  for (std::size_t i = 0; i < call.m[2]; ++i) {
    const std::uint16_t h = half[in[i]];
    if (!numeric::f16_is_finite(h) && in[i] != 0x80) effects.f16_overflow = true;
    store(sram.at(call.m[0]) + 2 * i, h);
  }
}

std::uint64_t cycles_narrow(const Call& call) { return 330 + 48 * cd(std::uint64_t{call.m[2]}, 12U); }
void run_narrow(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  constexpr std::size_t kChunk = 1024;
  float values[kChunk];
  for (std::size_t i = 0; i < call.m[2]; i += kChunk) {
    const std::size_t n = std::min<std::size_t>(kChunk, call.m[2] - i);
    std::memcpy(values, sram.at(call.m[1]) + 4 * i, 4 * n);
    if (demote(values, sram.at(call.m[0]) + 2 * i, n)) effects.f16_overflow = true;
  }
}

std::uint64_t cycles_widen(const Call& call) { return 11 + cd(std::uint64_t{call.m[2]} * 6, 8U); }
void run_widen(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  constexpr std::size_t kChunk = 1024;
  float values[kChunk];
  for (std::size_t i = 0; i < call.m[2]; i += kChunk) {
    const std::size_t n = std::min<std::size_t>(kChunk, call.m[2] - i);
    promote(sram.at(call.m[1]) + 2 * i, values, n);
    std::memcpy(sram.at(call.m[0]) + 4 * i, values, 4 * n);
  }
}

// ---- RepackF8Left: out F8 AL(rows, dcols), in F16 AL(rows, scols), rows, scols, dcols, scale
std::string validate_repack(const Call& call) {
  Checker check("RepackF8Left", call, 6, 0);
  check.count(2, "rows");
  check.count(3, "source columns", kPanel);
  check.count(4, "columns", kPanel8);
  check.require(check.m(4) == up(check.m(3), kPanel8), "columns are not the source columns rounded up to 32");
  check.require(check.m(5) < 64, "scale has more than 6 bits");
  check.operand(0, "output", check.m(2) * check.m(4));
  check.operand(1, "input", check.m(2) * check.m(3) * 2);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_repack(const Call& call) {
  const std::uint64_t rows = call.m[2];
  Accesses list;
  list.read(1, call.m[1], rows * call.m[3] * 2);
  list.write(0, call.m[0], rows * call.m[4]);
  return list.take();
}
std::uint64_t cycles_repack(const Call& call) {
  return encode_cycles(std::uint64_t{call.m[2]} * call.m[4], call.m[2]);
}
void run_repack(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[2], source = call.m[3], columns = call.m[4];
  const Encoder& encode = encoder(call.m[5]);
  for (std::size_t c = 0; c < columns; c += kPanel)
    for (std::size_t r = 0; r < rows; ++r) {
      std::uint8_t* to = sram.at(call.m[0]) + left_index(r, c, rows, kPanel8);
      if (c < source)
        effects.fp8_clips +=
            encode.encode(sram.at(call.m[1]) + left_index(r, c, rows, kPanel) * 2, to, kPanel);
      else
        std::memset(to, 0, kPanel);
    }
}

// ---- PackRowToF8Left: out F8 AL(rows, dcols), in F16 ROW, rows, stride, cols, dcols, scale
std::string validate_pack(const Call& call) {
  Checker check("PackRowToF8Left", call, 7, 0);
  check.count(2, "rows");
  check.count(4, "columns");
  check.count(5, "padded columns", kPanel8);
  check.require(check.m(4) <= check.m(5), "more columns than padded columns");
  check.require(check.m(2) == 1 || check.m(3) >= check.m(4), "source rows overlap");
  check.require(check.m(6) < 64, "scale has more than 6 bits");
  if (!check.good()) return check.result();
  check.operand(0, "output", check.m(2) * check.m(5));
  check.operand(1, "input", ((check.m(2) - 1) * check.m(3) + check.m(4)) * 2);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_pack(const Call& call) {
  const std::uint64_t rows = call.m[2];
  Accesses list;
  list.read(1, call.m[1], call.m[4] * 2ULL, rows, call.m[3] * 2ULL);
  list.write(0, call.m[0], rows * call.m[5]);
  return list.take();
}
// docs/costs.md: the panel cast; rows that do not start at 64-bit words go through the indexed transform.
std::uint64_t cycles_pack(const Call& call) {
  const std::uint64_t rows = call.m[2], n = rows * call.m[5];
  return rows == 1 || call.m[3] % 4 == 0 ? encode_cycles(n, rows) : 11 + 10 * n;
}
void run_pack(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[2], stride = call.m[3], columns = call.m[4], padded = call.m[5];
  for (std::size_t r = 0; r < rows; ++r)
    effects.fp8_clips += encode_left_row(encoder(call.m[6]), sram.at(call.m[1]) + r * stride * 2, columns,
                                         sram.at(call.m[0]), r, rows, padded);
}

}  // namespace

std::span<const Kernel> cast_kernels() {
  static const Kernel kernels[] = {{.code = Code::CastF16ToF8,
                                    .name = "CastF16ToF8",
                                    .arguments = 4,
                                    .address_mask = 0b11,
                                    .validate = validate_linear<2, 1, true>,
                                    .accesses = accesses_linear<2, 1>,
                                    .cycles = cycles_encode,
                                    .run = run_encode,
                                    .separate = {}},
                                   {.code = Code::CastF8ToF16,
                                    .name = "CastF8ToF16",
                                    .arguments = 4,
                                    .address_mask = 0b11,
                                    .validate = validate_linear<1, 2, true>,
                                    .accesses = accesses_linear<1, 2>,
                                    .cycles = cycles_decode,
                                    .run = run_decode,
                                    .separate = {}},
                                   {.code = Code::CastF32ToF16,
                                    .name = "CastF32ToF16",
                                    .arguments = 3,
                                    .address_mask = 0b11,
                                    .validate = validate_linear<4, 2, false>,
                                    .accesses = accesses_linear<4, 2>,
                                    .cycles = cycles_narrow,
                                    .run = run_narrow,
                                    .separate = {}},
                                   {.code = Code::CastF16ToF32,
                                    .name = "CastF16ToF32",
                                    .arguments = 3,
                                    .address_mask = 0b11,
                                    .validate = validate_linear<2, 4, false>,
                                    .accesses = accesses_linear<2, 4>,
                                    .cycles = cycles_widen,
                                    .run = run_widen,
                                    .separate = {}},
                                   {.code = Code::PackRowToF8Left,
                                    .name = "PackRowToF8Left",
                                    .arguments = 7,
                                    .address_mask = 0b11,
                                    .validate = validate_pack,
                                    .accesses = accesses_pack,
                                    .cycles = cycles_pack,
                                    .run = run_pack,
                                    .separate = {}},
                                   {.code = Code::RepackF8Left,
                                    .name = "RepackF8Left",
                                    .arguments = 6,
                                    .address_mask = 0b11,
                                    .validate = validate_repack,
                                    .accesses = accesses_repack,
                                    .cycles = cycles_repack,
                                    .run = run_repack,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
