// Add, GELU and bias+GELU on F16, the last two also into F8 panels (models.md A.4, decisions.md 7). An
// activation is a function of one F16 number, so it is a table made once from its rounding chain.
#include <algorithm>
#include <vector>

#include "base/math.h"
#include "kernel/encode.h"
#include "kernel/half.h"
#include "kernel/internal.h"
#include "numeric/formats.h"

namespace tw::kernel {
namespace {

using numeric::f16_add, numeric::f16_mul, numeric::f16_tanh, numeric::f16_to_f32, numeric::f32_to_f16;

// models.md A.2: sqrt(2/pi), 0.044715, their product, as halves.
constexpr std::uint16_t kA = 0x3A62, kB = 0x29B9, kAB = 0x2891, kOne = 0x3C00, kHalf = 0x3800;
constexpr std::uint16_t kEight = 0x4800;

std::uint16_t clamp_to_eight(std::uint16_t x) {
  const std::uint16_t magnitude = x & 0x7FFF;
  const bool beyond = magnitude > kEight && magnitude <= 0x7C00;  // NaN stays
  return beyond ? static_cast<std::uint16_t>((x & 0x8000) | kEight) : x;
}

// x * (0.5 * (1 + tanh(argument)))
std::uint16_t gate(std::uint16_t x, std::uint16_t argument) {
  return f16_mul(x, f16_mul(kHalf, f16_add(kOne, f16_tanh(argument))));
}

std::uint16_t gelu(std::uint16_t x) {
  const std::uint16_t clamped = clamp_to_eight(x);
  const std::uint16_t cube = f16_mul(f16_mul(clamped, clamped), clamped);
  return gate(x, f16_mul(kA, f16_add(clamped, f16_mul(kB, cube))));
}

// The fused step: both products and their sum are exact in double (below 2^45 units of 2^-39).
std::uint16_t gelu_fused(std::uint16_t z) {
  const std::uint16_t clamped = clamp_to_eight(z);
  const std::uint16_t cube = f16_mul(f16_mul(clamped, clamped), clamped);
  const double sum = double{f16_to_f32(kAB)} * double{f16_to_f32(cube)} +
                     double{f16_to_f32(kA)} * double{f16_to_f32(clamped)};
  return gate(z, f32_to_f16(static_cast<float>(sum)));
}

std::vector<std::uint16_t> tabulate(std::uint16_t (*function)(std::uint16_t)) {
  std::vector<std::uint16_t> table(65536);
  for (std::uint32_t x = 0; x < 65536; ++x) table[x] = function(static_cast<std::uint16_t>(x));
  return table;
}
const std::vector<std::uint16_t>& gelu_table() {
  static const std::vector<std::uint16_t> table = tabulate(gelu);
  return table;
}
const std::vector<std::uint16_t>& fused_table() {
  static const std::vector<std::uint16_t> table = tabulate(gelu_fused);
  return table;
}

void look_up(const std::vector<std::uint16_t>& table, const std::uint8_t* in, std::uint8_t* out,
             std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) store(out + 2 * i, table[load<std::uint16_t>(in + 2 * i)]);
}

// ---- Add: b is repeated n / nb times.
std::string validate_add(const Call& call) {
  Checker check("Add", call, 5, 0);
  check.count(3, "n");
  check.count(4, "nb");
  if (!check.good()) return check.result();
  check.require(check.m(3) % check.m(4) == 0, "n is no multiple of nb");
  check.operand(0, "output", check.m(3) * 2);
  check.operand(1, "a", check.m(3) * 2);
  check.operand(2, "b", check.m(4) * 2);
  check.disjoint(0, 1, true);
  check.disjoint(0, 2, check.m(3) == check.m(4));
  return check.result();
}
std::vector<Access> accesses_add(const Call& call) {
  Accesses list;
  list.read(1, call.m[1], call.m[3] * 2ULL);
  list.read(2, call.m[2], call.m[4] * 2ULL);
  list.write(0, call.m[0], call.m[3] * 2ULL);
  return list.take();
}
std::uint64_t cycles_add(const Call& call) {
  const std::uint64_t n = call.m[3], width = call.m[4], repeats = n / width;
  if (n % 4 == 0 && width % 4 == 0) return 504 + repeats * 18 * cd(width, 24U) + 234 * (repeats - 1);
  return 450 + 54 * cd(n, 12U);
}
void run_add(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t n = call.m[3], width = call.m[4];
  for (std::size_t i = 0; i < n; i += width)
    if (add_halves(sram.at(call.m[1]) + 2 * i, sram.at(call.m[2]), sram.at(call.m[0]) + 2 * i, width))
      effects.f16_overflow = true;
}

// ---- Gelu
std::string validate_gelu(const Call& call) {
  Checker check("Gelu", call, 3, 0);
  check.count(2, "n", 2);
  check.operand(0, "output", check.m(2) * 2);
  check.operand(1, "input", check.m(2) * 2);
  check.disjoint(0, 1, true);
  return check.result();
}
std::vector<Access> accesses_gelu(const Call& call) {
  Accesses list;
  list.read(1, call.m[1], call.m[2] * 2ULL);
  list.write(0, call.m[0], call.m[2] * 2ULL);
  return list.take();
}
// docs/costs.md: with a tail the blocks of 16 go round the six workers and the tail to the next in turn.
std::uint64_t gelu_cycles(std::uint64_t n) {
  if (n % 16 == 0) return 330 + 462 * cd(n, 96U);
  const std::uint64_t blocks = n / 16, tail_pairs = cd(n % 16, 2U);
  std::uint64_t longest = 0;
  for (std::uint64_t worker = 0; worker < 6; ++worker) {
    const std::uint64_t own = blocks / 6 + (worker < blocks % 6 ? 1 : 0);
    const bool tail = worker == blocks % 6;
    longest = std::max(longest, 480 * own + (tail ? 120 * tail_pairs + 342 : 330));
  }
  return longest;
}
std::uint64_t cycles_gelu(const Call& call) { return gelu_cycles(call.m[2]); }
void run_gelu(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  look_up(gelu_table(), sram.at(call.m[1]), sram.at(call.m[0]), call.m[2]);
}

// ---- BiasGelu
std::string validate_bias_gelu(const Call& call) {
  Checker check("BiasGelu", call, 5, 0);
  check.count(3, "rows");
  check.count(4, "width");
  const std::uint64_t n = check.m(3) * check.m(4);
  check.operand(0, "output", n * 2);
  check.operand(1, "input", n * 2);
  check.operand(2, "bias", check.m(4) * 2);
  check.disjoint(0, 1, true);
  check.disjoint(0, 2);
  return check.result();
}
std::vector<Access> accesses_bias_gelu(const Call& call) {
  const std::uint64_t n = std::uint64_t{call.m[3]} * call.m[4];
  Accesses list;
  list.read(1, call.m[1], n * 2);
  list.read(2, call.m[2], call.m[4] * 2ULL);
  list.write(0, call.m[0], n * 2);
  return list.take();
}
std::uint64_t cycles_bias_gelu(const Call& call) {
  const std::uint64_t rows = call.m[3], width = call.m[4];
  if (width % 4 == 0) return 222 + rows * (228 + 90 * cd(width, 24U));
  return rows * (gelu_cycles(width) - 330 + 40) + 2 * rows * width + 330;
}
// One row; true when a sum overflowed.
bool bias_gelu_row(const std::uint8_t* in, const std::uint8_t* bias, std::uint8_t* out, std::size_t width) {
  const std::size_t fused = width / 4 * 4;
  const bool overflow = add_halves(in, bias, out, width);
  look_up(fused_table(), out, out, fused);
  look_up(gelu_table(), out + fused * 2, out + fused * 2, width - fused);
  return overflow;
}
void run_bias_gelu(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[3], row_bytes = call.m[4] * 2ULL;
  for (std::size_t r = 0; r < rows; ++r)
    if (bias_gelu_row(sram.at(call.m[1]) + r * row_bytes, sram.at(call.m[2]),
                      sram.at(call.m[0]) + r * row_bytes, call.m[4]))
      effects.f16_overflow = true;
}

// ---- GeluF8: out F8 AL(rows, dcols), in ROW, rows, width, dcols, exponent
std::string validate_gelu_f8(const Call& call) {
  Checker check("GeluF8", call, 6, 0);
  check.count(2, "rows");
  check.count(3, "width", 4);
  check.count(4, "padded columns", kPanel8);
  check.require(check.m(3) <= check.m(4), "more columns than padded columns");
  check.require(check.m(5) < 64, "exponent has more than 6 bits");
  check.operand(0, "output", check.m(2) * check.m(4));
  check.operand(1, "input", check.m(2) * check.m(3) * 2);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_gelu_f8(const Call& call) {
  const std::uint64_t rows = call.m[2];
  Accesses list;
  list.read(1, call.m[1], rows * call.m[3] * 2);
  list.write(0, call.m[0], rows * call.m[4]);
  return list.take();
}
std::uint64_t cycles_gelu_f8(const Call& call) {
  return 138 + call.m[2] * (372 + 1002 * cd(std::uint64_t{call.m[3]}, 192U));
}
void run_gelu_f8(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[2], width = call.m[3];
  std::vector<std::uint8_t> halves(width * 2);
  for (std::size_t r = 0; r < rows; ++r) {
    look_up(gelu_table(), sram.at(call.m[1]) + r * width * 2, halves.data(), width);
    effects.fp8_clips +=
        encode_left_row(encoder(call.m[5]), halves.data(), width, sram.at(call.m[0]), r, rows, call.m[4]);
  }
}

// ---- BiasGeluF8: out F8 AL(rows, dcols), in ROW, bias, rows, width, dcols, exponent
std::string validate_bias_gelu_f8(const Call& call) {
  Checker check("BiasGeluF8", call, 7, 0);
  check.count(3, "rows");
  check.count(4, "width", 4);
  check.count(5, "padded columns", kPanel8);
  check.require(check.m(4) <= check.m(5), "more columns than padded columns");
  check.require(check.m(6) < 64, "exponent has more than 6 bits");
  check.operand(0, "output", check.m(3) * check.m(5));
  check.operand(1, "input", check.m(3) * check.m(4) * 2);
  check.operand(2, "bias", check.m(4) * 2);
  check.disjoint(0, 1);
  check.disjoint(0, 2);
  return check.result();
}
std::vector<Access> accesses_bias_gelu_f8(const Call& call) {
  const std::uint64_t rows = call.m[3];
  Accesses list;
  list.read(1, call.m[1], rows * call.m[4] * 2);
  list.read(2, call.m[2], call.m[4] * 2ULL);
  list.write(0, call.m[0], rows * call.m[5]);
  return list.take();
}
std::uint64_t cycles_bias_gelu_f8(const Call& call) {
  const std::uint64_t rows = call.m[3];
  return 330 + rows * (198 + 1104 * cd(std::uint64_t{call.m[4]}, 192U) + (rows > 1 ? 12 : 0));
}
void run_bias_gelu_f8(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[3], width = call.m[4];
  std::vector<std::uint8_t> halves(width * 2);
  for (std::size_t r = 0; r < rows; ++r) {
    if (bias_gelu_row(sram.at(call.m[1]) + r * width * 2, sram.at(call.m[2]), halves.data(), width))
      effects.f16_overflow = true;
    effects.fp8_clips +=
        encode_left_row(encoder(call.m[6]), halves.data(), width, sram.at(call.m[0]), r, rows, call.m[5]);
  }
}

}  // namespace

std::span<const Kernel> pointwise_kernels() {
  static const Kernel kernels[] = {{.code = Code::Add,
                                    .name = "Add",
                                    .arguments = 5,
                                    .address_mask = 0b111,
                                    .validate = validate_add,
                                    .accesses = accesses_add,
                                    .cycles = cycles_add,
                                    .run = run_add,
                                    .separate = {}},
                                   {.code = Code::Gelu,
                                    .name = "Gelu",
                                    .arguments = 3,
                                    .address_mask = 0b11,
                                    .validate = validate_gelu,
                                    .accesses = accesses_gelu,
                                    .cycles = cycles_gelu,
                                    .run = run_gelu,
                                    .separate = {}},
                                   {.code = Code::BiasGelu,
                                    .name = "BiasGelu",
                                    .arguments = 5,
                                    .address_mask = 0b111,
                                    .validate = validate_bias_gelu,
                                    .accesses = accesses_bias_gelu,
                                    .cycles = cycles_bias_gelu,
                                    .run = run_bias_gelu,
                                    .separate = {}},
                                   {.code = Code::GeluF8,
                                    .name = "GeluF8",
                                    .arguments = 6,
                                    .address_mask = 0b11,
                                    .validate = validate_gelu_f8,
                                    .accesses = accesses_gelu_f8,
                                    .cycles = cycles_gelu_f8,
                                    .run = run_gelu_f8,
                                    .separate = {}},
                                   {.code = Code::BiasGeluF8,
                                    .name = "BiasGeluF8",
                                    .arguments = 7,
                                    .address_mask = 0b111,
                                    .validate = validate_bias_gelu_f8,
                                    .accesses = accesses_bias_gelu_f8,
                                    .cycles = cycles_bias_gelu_f8,
                                    .run = run_bias_gelu_f8,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
