// General operations: any function of numeric/functions.h on F32 (or F16) elements, reductions, softmax and
// normalisation of F32 rows, rotary positions on F16 (docs/numerics.md, "General operations"). Cycles are
// ours.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/math.h"
#include "kernel/internal.h"
#include "numeric/formats.h"
#include "numeric/functions.h"

namespace tw::kernel {
namespace {

using numeric::Binary, numeric::Reduction, numeric::Unary;
using numeric::f16_is_finite, numeric::f16_to_f32, numeric::f32_to_f16;

// ---- Cycles (docs/costs.md). A worker issues a bundle every six cycles.
constexpr std::uint64_t kLaunch = 330;
std::uint64_t shared_by_workers(std::uint64_t units, std::uint64_t bundles) {
  return kLaunch + 6 * cd(units, 6U) * bundles;
}
// Arithmetic of two F32 elements, loads and stores left out, in bundles.
std::uint64_t bundles_of(Unary function) {
  switch (function) {
    case Unary::Relu:
    case Unary::Negate:
    case Unary::Absolute:
      return 1;
    case Unary::HardSwish:
      return 5;
    case Unary::Exp:
    case Unary::Log:
    case Unary::Reciprocal:
      return 4;
    case Unary::Sqrt:
      return 10;
    case Unary::Sigmoid:
      return 12;
    case Unary::Silu:
    case Unary::QuickGelu:
      return 14;
    case Unary::Tanh:
      return 16;
    case Unary::GeluTanh:
      return 30;
    case Unary::Erf:
      return 52;
    case Unary::GeluErf:
      return 60;
  }
  return 0;
}
// Two halves in one instruction where the hardware has a form for them, else by way of F32.
std::uint64_t half_bundles_of(Unary function) {
  switch (function) {
    case Unary::Relu:
    case Unary::Negate:
    case Unary::Absolute:
      return 1;
    case Unary::Exp:
      return 2;
    case Unary::Tanh:
      return 4;
    default:
      return 2 + bundles_of(function);
  }
}
std::uint64_t bundles_of(Binary function) {
  if (function == Binary::Divide) return 10;
  return function == Binary::Power ? 40 : 1;
}

float f32_at(const std::uint8_t* p, std::size_t i) { return load<float>(p + 4 * i); }

// ---- Unary: out, in, n; [0] function, [1] 1: F32
std::uint64_t unary_element(const Call& call) { return spec_word(call, 1) == 1 ? 4 : 2; }

std::string validate_unary(const Call& call) {
  Checker check("Unary", call, 3, 2);
  check.require(check.spec(0) < numeric::kUnaryFunctions, "unknown function");
  check.require(check.spec(1) < 2, "format is neither F16 nor F32");
  check.count(2, "n");
  check.operand(0, "output", check.m(2) * unary_element(call));
  check.operand(1, "input", check.m(2) * unary_element(call));
  check.disjoint(0, 1, true);
  return check.result();
}
std::vector<Access> accesses_unary(const Call& call) {
  const std::uint64_t bytes = call.m[2] * unary_element(call);
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.write(0, call.m[0], bytes);
  return list.take();
}
std::uint64_t cycles_unary(const Call& call) {
  const auto function = static_cast<Unary>(spec_word(call, 0));
  const std::uint64_t n = call.m[2], pairs = cd(n, 2U);
  if (unary_element(call) == 4) return shared_by_workers(pairs, 3 + bundles_of(function));
  return shared_by_workers(pairs, 3 + half_bundles_of(function)) + 30 * (n % 2);
}
// F16 results of every F16 number, made at the first use of a function.
const std::vector<std::uint16_t>& half_table(Unary function) {
  static std::array<std::once_flag, numeric::kUnaryFunctions> made;
  static std::array<std::vector<std::uint16_t>, numeric::kUnaryFunctions> tables;
  const auto index = static_cast<std::size_t>(function);
  std::call_once(made[index], [&] {
    std::vector<std::uint16_t> table(65536);
    for (std::uint32_t x = 0; x < 65536; ++x) {
      const double value = double{f16_to_f32(static_cast<std::uint16_t>(x))};
      table[x] = f32_to_f16(static_cast<float>(numeric::evaluate(function, value)));
    }
    tables[index] = std::move(table);
  });
  return tables[index];
}
// True when a finite number has an infinite result.
bool unary_halves(Unary function, const std::uint8_t* in, std::uint8_t* out, std::size_t n) {
  const std::vector<std::uint16_t>& table = half_table(function);
  bool overflow = false;
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = load<std::uint16_t>(in + 2 * i), y = table[x];
    overflow |= f16_is_finite(x) && (y & 0x7FFF) == 0x7C00;
    store(out + 2 * i, y);
  }
  return overflow;
}
void run_unary(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const auto function = static_cast<Unary>(call.spec[0]);
  const std::uint8_t* in = sram.at(call.m[1]);
  std::uint8_t* out = sram.at(call.m[0]);
  if (unary_element(call) == 2) {
    if (unary_halves(function, in, out, call.m[2])) effects.f16_overflow = true;
    return;
  }
  for (std::size_t i = 0; i < call.m[2]; ++i)
    store(out + 4 * i, static_cast<float>(numeric::evaluate(function, double{f32_at(in, i)})));
}

// ---- Binary: out, a, b, n, nb; [0] function, [1] 1: function(b, a)
std::string validate_binary(const Call& call) {
  Checker check("Binary", call, 5, 2);
  check.require(check.spec(0) < numeric::kBinaryFunctions, "unknown function");
  check.require(check.spec(1) < 2, "order of the operands is neither 0 nor 1");
  check.count(3, "n");
  check.count(4, "nb");
  if (!check.good()) return check.result();
  check.require(check.m(3) % check.m(4) == 0, "n is no multiple of nb");
  check.operand(0, "output", check.m(3) * 4);
  check.operand(1, "a", check.m(3) * 4);
  check.operand(2, "b", check.m(4) * 4);
  check.disjoint(0, 1, true);
  check.disjoint(0, 2, check.m(3) == check.m(4));
  return check.result();
}
std::vector<Access> accesses_binary(const Call& call) {
  Accesses list;
  list.read(1, call.m[1], call.m[3] * 4ULL);
  list.read(2, call.m[2], call.m[4] * 4ULL);
  list.write(0, call.m[0], call.m[3] * 4ULL);
  return list.take();
}
std::uint64_t cycles_binary(const Call& call) {
  const std::uint64_t n = call.m[3], nb = call.m[4], pairs = cd(n, 2U);
  const std::uint64_t arithmetic = bundles_of(static_cast<Binary>(spec_word(call, 0)));
  if (nb == n) return shared_by_workers(pairs, 4 + arithmetic);
  if (nb == 1) return shared_by_workers(pairs, 3 + arithmetic);      // b stays in a register
  if (nb % 2 == 0) return shared_by_workers(pairs, 6 + arithmetic);  // the pointer to b wraps
  return shared_by_workers(pairs, 12 + std::max<std::uint64_t>(arithmetic, 2));
}
void run_binary(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const auto function = static_cast<Binary>(call.spec[0]);
  const bool reversed = call.spec[1] == 1;
  const std::uint8_t *left = sram.at(call.m[1]), *right = sram.at(call.m[2]);
  std::uint8_t* out = sram.at(call.m[0]);
  const std::size_t n = call.m[3], nb = call.m[4];
  for (std::size_t start = 0; start < n; start += nb)
    for (std::size_t i = 0; i < nb; ++i) {
      const double a = double{f32_at(left, start + i)}, b = double{f32_at(right, i)};
      const double y = reversed ? numeric::evaluate(function, b, a) : numeric::evaluate(function, a, b);
      store(out + 4 * (start + i), static_cast<float>(y));
    }
}

// ---- Rows: sums and maxima ascending from the first element
float sum_of(const std::uint8_t* row, std::size_t width) {
  float sum = f32_at(row, 0);
  for (std::size_t i = 1; i < width; ++i) sum += f32_at(row, i);
  return sum;
}
float maximum_of(const std::uint8_t* row, std::size_t width) {
  float maximum = f32_at(row, 0);
  for (std::size_t i = 1; i < width; ++i) {
    const float x = f32_at(row, i);
    maximum = x > maximum ? x : maximum;
  }
  return maximum;
}

// ---- Reduce: out [rows], in [rows][width], rows, width; [0] function
std::string validate_reduce(const Call& call) {
  Checker check("Reduce", call, 4, 1);
  check.require(check.spec(0) < numeric::kReductions, "unknown function");
  check.count(2, "rows");
  check.count(3, "width");
  check.operand(0, "output", check.m(2) * 4);
  check.operand(1, "input", check.m(2) * check.m(3) * 4);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_reduce(const Call& call) {
  Accesses list;
  list.read(1, call.m[1], std::uint64_t{call.m[2]} * call.m[3] * 4);
  list.write(0, call.m[0], call.m[2] * 4ULL);
  return list.take();
}
std::uint64_t cycles_reduce(const Call& call) {
  const bool mean = static_cast<Reduction>(spec_word(call, 0)) == Reduction::Mean;
  return shared_by_workers(call.m[2], 12 + 3ULL * call.m[3] + (mean ? 5 : 0));
}
void run_reduce(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const auto function = static_cast<Reduction>(call.spec[0]);
  const std::size_t rows = call.m[2], width = call.m[3];
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint8_t* row = sram.at(call.m[1]) + r * width * 4;
    float y = function == Reduction::Maximum ? maximum_of(row, width) : sum_of(row, width);
    if (function == Reduction::Mean) y /= static_cast<float>(width);
    store(sram.at(call.m[0]) + 4 * r, y);
  }
}

// ---- SoftmaxRows: out, in, rows, width
std::string validate_softmax_rows(const Call& call) {
  Checker check("SoftmaxRows", call, 4, 0);
  check.count(2, "rows");
  check.count(3, "width");
  check.operand(0, "output", check.m(2) * check.m(3) * 4);
  check.operand(1, "input", check.m(2) * check.m(3) * 4);
  check.disjoint(0, 1, true);
  return check.result();
}
std::vector<Access> accesses_softmax_rows(const Call& call) {
  const std::uint64_t bytes = std::uint64_t{call.m[2]} * call.m[3] * 4;
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.write(0, call.m[0], bytes);
  return list.take();
}
std::uint64_t cycles_softmax_rows(const Call& call) {
  return shared_by_workers(call.m[2], 20 + 16ULL * call.m[3]);
}
void run_softmax_rows(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[2], width = call.m[3];
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint8_t* in = sram.at(call.m[1]) + r * width * 4;
    std::uint8_t* out = sram.at(call.m[0]) + r * width * 4;
    const float maximum = maximum_of(in, width);
    for (std::size_t i = 0; i < width; ++i) store(out + 4 * i, numeric::exp_f32(f32_at(in, i) - maximum));
    const float sum = sum_of(out, width);
    for (std::size_t i = 0; i < width; ++i) store(out + 4 * i, f32_at(out, i) / sum);
  }
}

// ---- NormRows: out, x, scale, bias, rows, width; [0] epsilon
std::string validate_norm_rows(const Call& call) {
  Checker check("NormRows", call, 6, 1);
  check.count(4, "rows");
  check.count(5, "width");
  check.operand(0, "output", check.m(4) * check.m(5) * 4);
  check.operand(1, "input", check.m(4) * check.m(5) * 4);
  check.operand(2, "scale", check.m(5) * 4);
  check.operand(3, "bias", check.m(5) * 4);
  check.disjoint(0, 1, true);
  check.disjoint(0, 2);
  check.disjoint(0, 3);
  return check.result();
}
std::vector<Access> accesses_norm_rows(const Call& call) {
  const std::uint64_t bytes = std::uint64_t{call.m[4]} * call.m[5] * 4;
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.read(2, call.m[2], call.m[5] * 4ULL);
  list.read(3, call.m[3], call.m[5] * 4ULL);
  list.write(0, call.m[0], bytes);
  return list.take();
}
std::uint64_t cycles_norm_rows(const Call& call) {
  return shared_by_workers(call.m[4], 30 + 17ULL * call.m[5]);
}
void norm_row(const std::uint8_t* in, const std::uint8_t* scale, const std::uint8_t* bias, std::uint8_t* out,
              std::size_t width, float epsilon) {
  const auto count = static_cast<float>(width);
  const float mean = sum_of(in, width) / count;
  for (std::size_t i = 0; i < width; ++i) store(out + 4 * i, f32_at(in, i) - mean);
  const float first = f32_at(out, 0);
  float squares = first * first;
  for (std::size_t i = 1; i < width; ++i) squares += f32_at(out, i) * f32_at(out, i);
  const float factor = numeric::rsqrt_f32(squares / count + epsilon);
  for (std::size_t i = 0; i < width; ++i)
    store(out + 4 * i, f32_at(out, i) * factor * f32_at(scale, i) + f32_at(bias, i));
}
void run_norm_rows(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[4], width = call.m[5];
  for (std::size_t r = 0; r < rows; ++r)
    norm_row(sram.at(call.m[1]) + r * width * 4, sram.at(call.m[2]), sram.at(call.m[3]),
             sram.at(call.m[0]) + r * width * 4, width, std::bit_cast<float>(call.spec[0]));
}

// ---- Rope: out, x [outer][rows][width], cosine, sine [rows][width], outer, rows, width; [0] 1 neighbours
std::string validate_rope(const Call& call) {
  Checker check("Rope", call, 7, 1);
  check.require(check.spec(0) < 2, "pairs are neither halves nor neighbours");
  check.count(4, "outer");
  check.count(5, "rows");
  check.count(6, "width", 2);
  if (!check.good()) return check.result();
  const std::uint64_t table = check.m(5) * check.m(6) * 2;
  check.operand(0, "output", check.m(4) * table);
  check.operand(1, "input", check.m(4) * table);
  check.operand(2, "cosine", table);
  check.operand(3, "sine", table);
  check.disjoint(0, 1, true);
  check.disjoint(0, 2);
  check.disjoint(0, 3);
  return check.result();
}
std::vector<Access> accesses_rope(const Call& call) {
  const std::uint64_t table = std::uint64_t{call.m[5]} * call.m[6] * 2;
  Accesses list;
  list.read(1, call.m[1], call.m[4] * table);
  list.read(2, call.m[2], table);
  list.read(3, call.m[3], table);
  list.write(0, call.m[0], call.m[4] * table);
  return list.take();
}
std::uint64_t cycles_rope(const Call& call) {
  const std::uint64_t rows = std::uint64_t{call.m[4]} * call.m[5], pairs = call.m[6] / 2;
  const bool whole_words = spec_word(call, 0) == 1 || pairs % 2 == 0;
  return shared_by_workers(rows, 12 + pairs * (whole_words ? 13 : 26));
}
float half_at(const std::uint8_t* row, std::size_t i) { return f16_to_f32(load<std::uint16_t>(row + 2 * i)); }
// True when a finite value left F16.
bool store_half(std::uint8_t* row, std::size_t i, float value) {
  const std::uint16_t h = f32_to_f16(value);
  store(row + 2 * i, h);
  return std::isfinite(value) && !f16_is_finite(h);
}
bool rope_row(const std::uint8_t* x, const std::uint8_t* cosine, const std::uint8_t* sine, std::uint8_t* out,
              std::size_t width, bool neighbours) {
  bool overflow = false;
  for (std::size_t pair = 0; pair < width / 2; ++pair) {
    const std::size_t first = neighbours ? 2 * pair : pair;
    const std::size_t second = neighbours ? first + 1 : first + width / 2;
    const float a = half_at(x, first), b = half_at(x, second);
    overflow |= store_half(out, first, a * half_at(cosine, first) - b * half_at(sine, first));
    overflow |= store_half(out, second, b * half_at(cosine, second) + a * half_at(sine, second));
  }
  return overflow;
}
void run_rope(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[5], row_bytes = call.m[6] * 2ULL;
  for (std::size_t r = 0; r < call.m[4] * rows; ++r) {
    const std::size_t position = r % rows * row_bytes;
    if (rope_row(sram.at(call.m[1]) + r * row_bytes, sram.at(call.m[2]) + position,
                 sram.at(call.m[3]) + position, sram.at(call.m[0]) + r * row_bytes, call.m[6],
                 call.spec[0] == 1))
      effects.f16_overflow = true;
  }
}

}  // namespace

std::span<const Kernel> general_kernels() {
  static const Kernel kernels[] = {{.code = Code::Unary,
                                    .name = "Unary",
                                    .arguments = 3,
                                    .address_mask = 0b11,
                                    .spec_words = 2,
                                    .validate = validate_unary,
                                    .accesses = accesses_unary,
                                    .cycles = cycles_unary,
                                    .run = run_unary,
                                    .separate = {}},
                                   {.code = Code::Binary,
                                    .name = "Binary",
                                    .arguments = 5,
                                    .address_mask = 0b111,
                                    .spec_words = 2,
                                    .validate = validate_binary,
                                    .accesses = accesses_binary,
                                    .cycles = cycles_binary,
                                    .run = run_binary,
                                    .separate = {}},
                                   {.code = Code::Reduce,
                                    .name = "Reduce",
                                    .arguments = 4,
                                    .address_mask = 0b11,
                                    .spec_words = 1,
                                    .validate = validate_reduce,
                                    .accesses = accesses_reduce,
                                    .cycles = cycles_reduce,
                                    .run = run_reduce,
                                    .separate = {}},
                                   {.code = Code::SoftmaxRows,
                                    .name = "SoftmaxRows",
                                    .arguments = 4,
                                    .address_mask = 0b11,
                                    .validate = validate_softmax_rows,
                                    .accesses = accesses_softmax_rows,
                                    .cycles = cycles_softmax_rows,
                                    .run = run_softmax_rows,
                                    .separate = {}},
                                   {.code = Code::NormRows,
                                    .name = "NormRows",
                                    .arguments = 6,
                                    .address_mask = 0b1111,
                                    .spec_words = 1,
                                    .validate = validate_norm_rows,
                                    .accesses = accesses_norm_rows,
                                    .cycles = cycles_norm_rows,
                                    .run = run_norm_rows,
                                    .separate = {}},
                                   {.code = Code::Rope,
                                    .name = "Rope",
                                    .arguments = 7,
                                    .address_mask = 0b1111,
                                    .spec_words = 1,
                                    .validate = validate_rope,
                                    .accesses = accesses_rope,
                                    .cycles = cycles_rope,
                                    .run = run_rope,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
