// Layer norm, whole rows and split rows, with a residual sum or F8 panels: the summation order of
// decisions.md 5, one FP32 rounding per step.
#include <array>
#include <bit>
#include <vector>

#include "base/math.h"
#include "kernel/encode.h"
#include "kernel/half.h"
#include "kernel/internal.h"
#include "numeric/formats.h"

namespace tw::kernel {
namespace {

struct Statistics {
  float mean = 0, variance = 0;
};

// Elements go round the six workers in groups of eight, one per lane; lanes, workers, then the tail.
float ordered_sum(const float* values, std::size_t n) {
  std::array<float, 48> lane{};
  const std::size_t rounds = n / 48 * 48, grouped = n / 8 * 8;
  for (std::size_t i = 0; i < rounds; i += 48)
    for (std::size_t j = 0; j < 48; ++j) lane[j] += values[i + j];
  for (std::size_t i = rounds; i < grouped; ++i) lane[i - rounds] += values[i];
  float total = 0;
  for (std::size_t worker = 0; worker < 6; ++worker) {
    float sum = 0;
    for (std::size_t l = 0; l < 8; ++l) sum += lane[worker * 8 + l];
    total += sum;
  }
  for (std::size_t i = grouped; i < n; ++i) total += values[i];
  return total;
}

// Two passes. `scratch` takes the squared deviations.
Statistics statistics_of(const std::vector<float>& x, std::vector<float>& scratch) {
  const auto width = static_cast<float>(x.size());
  const float mean = ordered_sum(x.data(), x.size()) / width;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float d = x[i] - mean;
    scratch[i] = d * d;
  }
  return {mean, ordered_sum(scratch.data(), x.size()) / width};
}

// One row to normalise and its affine vectors, as FP32.
struct Row {
  std::vector<float> x, scale, bias, scratch;
  explicit Row(std::size_t width) : x(width), scale(width), bias(width), scratch(width) {}
};

// Writes the normalised row; true when a finite value overflowed. Widths that are multiples of four round to
// F16 after each step, others once at the end.
bool normalise(Row& row, Statistics s, float epsilon, std::uint8_t* out) {
  const float r = numeric::rsqrt_f32(s.variance + epsilon);
  const std::size_t width = row.x.size();
  std::vector<float>& n = row.scratch;
  for (std::size_t i = 0; i < width; ++i) n[i] = (row.x[i] - s.mean) * r;
  const bool stepwise = width % 4 == 0;
  bool overflow = stepwise && round_to_half(n.data(), width);
  for (std::size_t i = 0; i < width; ++i) n[i] *= row.scale[i];
  if (stepwise) overflow |= round_to_half(n.data(), width);
  for (std::size_t i = 0; i < width; ++i) n[i] += row.bias[i];
  return demote(n.data(), out, width) || overflow;
}

// Cost of the two passes over a row (compiler.md 5.4, LayerNorm, R4).
bool wide(std::uint64_t width) { return width >= 96 && width % 8 == 0; }
std::uint64_t pass_cycles(std::uint64_t width) {
  return wide(width) ? 12 * cd(width, 48U) + 30 * cd(width, 24U) + 24 : 48 * cd(width, 12U);
}

// ---- LayerNorm: out, x, scale, bias, rows, width
std::string validate_norm(const Call& call) {
  Checker check("LayerNorm", call, 6, 1);
  check.count(4, "rows");
  check.count(5, "width", 2);
  const std::uint64_t row = check.m(5) * 2, bytes = check.m(4) * row;
  check.operand(0, "output", bytes);
  check.operand(1, "x", bytes);
  check.operand(2, "scale", row);
  check.operand(3, "bias", row);
  check.disjoint(0, 1, true);
  check.disjoint(0, 2);
  check.disjoint(0, 3);
  return check.result();
}
std::vector<Access> accesses_norm(const Call& call) {
  const std::uint64_t row = call.m[5] * 2ULL, bytes = call.m[4] * row;
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.read(2, call.m[2], row);
  list.read(3, call.m[3], row);
  list.write(0, call.m[0], bytes);
  return list.take();
}
// The affine step of a row: four elements at a time, or pairs where the width is no multiple of four.
std::uint64_t pair_affine(std::uint64_t width) { return 60 * cd(width, 12U); }
std::uint64_t norm_cycles(std::uint64_t rows, std::uint64_t width, std::uint64_t affine) {
  return 132 + rows * (pass_cycles(width) + affine + (wide(width) ? 1329 : 1200));
}
std::uint64_t cycles_norm(const Call& call) {
  const std::uint64_t width = call.m[5];
  return norm_cycles(call.m[4], width, width % 4 == 0 ? 66 + 72 * cd(width, 24U) : pair_affine(width));
}
// Room for one row, with the vectors of its affine step.
Row row_with(const Sram& sram, std::uint32_t scale, std::uint32_t bias, std::size_t width) {
  Row row(width);
  promote(sram.at(scale), row.scale.data(), width);
  promote(sram.at(bias), row.bias.data(), width);
  return row;
}
void run_norm(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[4], width = call.m[5];
  const auto epsilon = std::bit_cast<float>(spec_word(call, 0));
  Row row = row_with(sram, call.m[2], call.m[3], width);
  for (std::size_t r = 0; r < rows; ++r) {
    promote(sram.at(call.m[1]) + r * width * 2, row.x.data(), width);
    const Statistics s = statistics_of(row.x, row.scratch);
    if (normalise(row, s, epsilon, sram.at(call.m[0]) + r * width * 2)) effects.f16_overflow = true;
  }
}

// ---- AddLayerNorm: out, a, b, scale, bias, rows, width
std::string validate_add_norm(const Call& call) {
  Checker check("AddLayerNorm", call, 7, 1);
  check.count(5, "rows");
  check.count(6, "width", 2);
  const std::uint64_t row = check.m(6) * 2, bytes = check.m(5) * row;
  check.operand(0, "output", bytes);
  check.operand(1, "a", bytes);
  check.operand(2, "b", bytes);
  check.operand(3, "scale", row);
  check.operand(4, "bias", row);
  for (const std::size_t i : {1U, 2U}) check.disjoint(0, i, true);
  for (const std::size_t i : {3U, 4U}) check.disjoint(0, i);
  return check.result();
}
std::vector<Access> accesses_add_norm(const Call& call) {
  const std::uint64_t row = call.m[6] * 2ULL, bytes = call.m[5] * row;
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.read(2, call.m[2], bytes);
  list.read(3, call.m[3], row);
  list.read(4, call.m[4], row);
  list.write(0, call.m[0], bytes);
  return list.take();
}
std::uint64_t cycles_add_norm(const Call& call) {
  const std::uint64_t rows = call.m[5], width = call.m[6];
  const std::uint64_t pass =
      wide(width) ? 30 * cd(width, 48U) + 42 * cd(width, 24U) + 24 : 72 * cd(width, 12U);
  const std::uint64_t affine = width % 4 == 0 ? 66 + 84 * cd(width, 24U) : 72 * cd(width, 12U);
  return 132 + rows * (pass + affine + (wide(width) ? 1386 : 1290));
}
void run_add_norm(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[5], width = call.m[6];
  const auto epsilon = std::bit_cast<float>(spec_word(call, 0));
  Row row = row_with(sram, call.m[3], call.m[4], width);
  std::vector<std::uint8_t> sum(width * 2);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * width * 2;
    bool overflow = add_halves(sram.at(call.m[1]) + at, sram.at(call.m[2]) + at, sum.data(), width);
    promote(sum.data(), row.x.data(), width);
    overflow |= normalise(row, statistics_of(row.x, row.scratch), epsilon, sram.at(call.m[0]) + at);
    if (overflow) effects.f16_overflow = true;
  }
}

// ---- LayerNormF8: out F8 AL(rows, dcols), x, scale, bias, rows, width, dcols, exponent
std::string validate_norm_f8(const Call& call) {
  Checker check("LayerNormF8", call, 8, 1);
  check.count(4, "rows");
  check.count(5, "width", 4);
  check.count(6, "padded columns", kPanel8);
  check.require(check.m(5) <= check.m(6), "more columns than padded columns");
  check.require(check.m(7) < 64, "exponent has more than 6 bits");
  const std::uint64_t row = check.m(5) * 2;
  check.operand(0, "output", check.m(4) * check.m(6));
  check.operand(1, "x", check.m(4) * row);
  check.operand(2, "scale", row);
  check.operand(3, "bias", row);
  for (std::size_t i = 1; i < 4; ++i) check.disjoint(0, i);
  return check.result();
}
std::vector<Access> accesses_norm_f8(const Call& call) {
  const std::uint64_t rows = call.m[4], row = call.m[5] * 2ULL;
  Accesses list;
  list.read(1, call.m[1], rows * row);
  list.read(2, call.m[2], row);
  list.read(3, call.m[3], row);
  list.write(0, call.m[0], rows * call.m[6]);
  return list.take();
}
std::uint64_t cycles_norm_f8(const Call& call) {
  const std::uint64_t rows = call.m[4], width = call.m[5];
  const std::uint64_t panels = cd(width, 24U) * (rows > 1 ? 162 : 6);
  return norm_cycles(rows, width, pair_affine(width)) + rows * (270 + panels);
}
void run_norm_f8(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[4], width = call.m[5];
  const auto epsilon = std::bit_cast<float>(spec_word(call, 0));
  Row row = row_with(sram, call.m[2], call.m[3], width);
  std::vector<std::uint8_t> halves(width * 2);
  for (std::size_t r = 0; r < rows; ++r) {
    promote(sram.at(call.m[1]) + r * width * 2, row.x.data(), width);
    if (normalise(row, statistics_of(row.x, row.scratch), epsilon, halves.data()))
      effects.f16_overflow = true;
    effects.fp8_clips +=
        encode_left_row(encoder(call.m[7]), halves.data(), width, sram.at(call.m[0]), r, rows, call.m[6]);
  }
}

// ---- Moments: out F32 [rows][2], x, rows, width
std::string validate_moments(const Call& call) {
  Checker check("Moments", call, 4, 0);
  check.count(2, "rows");
  check.count(3, "width", 4);
  check.operand(0, "output", check.m(2) * 8);
  check.operand(1, "x", check.m(2) * check.m(3) * 2);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_moments(const Call& call) {
  Accesses list;
  list.read(1, call.m[1], std::uint64_t{call.m[2]} * call.m[3] * 2);
  list.write(0, call.m[0], call.m[2] * 8ULL);
  return list.take();
}
std::uint64_t cycles_moments(const Call& call) { return 126 + call.m[2] * (pass_cycles(call.m[3]) + 1080); }
void store_moments(const Sram& sram, std::uint32_t statistics, std::uint32_t from, std::size_t rows,
                   std::size_t width) {
  std::vector<float> x(width), scratch(width);
  for (std::size_t r = 0; r < rows; ++r) {
    promote(sram.at(from) + r * width * 2, x.data(), width);
    const Statistics s = statistics_of(x, scratch);
    store(sram.at(statistics) + r * 8, s.mean);
    store(sram.at(statistics) + r * 8 + 4, s.variance);
  }
}
void run_moments(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  store_moments({bytes, base}, call.m[0], call.m[1], call.m[2], call.m[3]);
}

// ---- AddMoments: sum, a, b, statistics F32 [rows][2], rows, width
std::string validate_add_moments(const Call& call) {
  Checker check("AddMoments", call, 6, 0);
  check.count(4, "rows");
  check.count(5, "width", 4);
  const std::uint64_t bytes = check.m(4) * check.m(5) * 2;
  check.operand(0, "sum", bytes);
  check.operand(1, "a", bytes);
  check.operand(2, "b", bytes);
  check.operand(3, "statistics", check.m(4) * 8);
  for (const std::size_t i : {1U, 2U}) check.disjoint(0, i, true);
  for (const std::size_t i : {0U, 1U, 2U}) check.disjoint(i, 3);
  return check.result();
}
std::vector<Access> accesses_add_moments(const Call& call) {
  const std::uint64_t bytes = std::uint64_t{call.m[4]} * call.m[5] * 2;
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.read(2, call.m[2], bytes);
  list.write(0, call.m[0], bytes);
  list.write(3, call.m[3], call.m[4] * 8ULL);
  return list.take();
}
std::uint64_t cycles_add_moments(const Call& call) {
  const std::uint64_t rows = call.m[4], width = call.m[5];
  return 126 + rows * (pass_cycles(width) + 1080 + 108 + 24 * cd(width, 48U));
}
void run_add_moments(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[4], width = call.m[5];
  if (add_halves(sram.at(call.m[1]), sram.at(call.m[2]), sram.at(call.m[0]), rows * width))
    effects.f16_overflow = true;
  store_moments(sram, call.m[3], call.m[0], rows, width);
}

// ---- Apply: out, x, statistics [P][rows][2], scale, bias, rows, width, P
std::string validate_apply(const Call& call) {
  Checker check("Apply", call, 8, 1);
  check.count(5, "rows");
  check.count(6, "width", 4);
  check.count(7, "parts");
  const std::uint64_t row = check.m(6) * 2, bytes = check.m(5) * row;
  check.operand(0, "output", bytes);
  check.operand(1, "x", bytes);
  check.operand(2, "statistics", check.m(7) * check.m(5) * 8);
  check.operand(3, "scale", row);
  check.operand(4, "bias", row);
  check.disjoint(0, 1, true);
  for (std::size_t i = 2; i < 5; ++i) check.disjoint(0, i);
  return check.result();
}
std::vector<Access> accesses_apply(const Call& call) {
  const std::uint64_t rows = call.m[5], row = call.m[6] * 2ULL;
  Accesses list;
  list.read(1, call.m[1], rows * row);
  list.read(2, call.m[2], call.m[7] * rows * 8);
  list.read(3, call.m[3], row);
  list.read(4, call.m[4], row);
  list.write(0, call.m[0], rows * row);
  return list.take();
}
std::uint64_t cycles_apply(const Call& call) {
  return 774 + call.m[5] * (402 + 54 * std::uint64_t{call.m[7]} + 72 * cd(std::uint64_t{call.m[6]}, 24U));
}
// Moments of a row from those of its equal parts, ascending.
Statistics merge_parts(const std::uint8_t* statistics, std::size_t rows, std::size_t r, std::size_t parts) {
  const auto part = [&](std::size_t p) { return statistics + (p * rows + r) * 8; };
  Statistics s;
  for (std::size_t p = 0; p < parts; ++p) s.mean += load<float>(part(p));
  s.mean /= static_cast<float>(parts);
  for (std::size_t p = 0; p < parts; ++p) {
    const float d = load<float>(part(p)) - s.mean, square = d * d;
    const float term = load<float>(part(p) + 4) + square;
    s.variance += term;
  }
  s.variance /= static_cast<float>(parts);
  return s;
}
void run_apply(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[5], width = call.m[6], parts = call.m[7];
  const auto epsilon = std::bit_cast<float>(spec_word(call, 0));
  Row row = row_with(sram, call.m[3], call.m[4], width);
  for (std::size_t r = 0; r < rows; ++r) {
    promote(sram.at(call.m[1]) + r * width * 2, row.x.data(), width);
    const Statistics s = merge_parts(sram.at(call.m[2]), rows, r, parts);
    if (normalise(row, s, epsilon, sram.at(call.m[0]) + r * width * 2)) effects.f16_overflow = true;
  }
}

}  // namespace

std::span<const Kernel> norm_kernels() {
  static const Kernel kernels[] = {{.code = Code::LayerNorm,
                                    .name = "LayerNorm",
                                    .arguments = 6,
                                    .address_mask = 0b1111,
                                    .spec_words = 1,
                                    .validate = validate_norm,
                                    .accesses = accesses_norm,
                                    .cycles = cycles_norm,
                                    .run = run_norm,
                                    .separate = {}},
                                   {.code = Code::Moments,
                                    .name = "Moments",
                                    .arguments = 4,
                                    .address_mask = 0b11,
                                    .validate = validate_moments,
                                    .accesses = accesses_moments,
                                    .cycles = cycles_moments,
                                    .run = run_moments,
                                    .separate = {}},
                                   {.code = Code::Apply,
                                    .name = "Apply",
                                    .arguments = 8,
                                    .address_mask = 0b11111,
                                    .spec_words = 1,
                                    .validate = validate_apply,
                                    .accesses = accesses_apply,
                                    .cycles = cycles_apply,
                                    .run = run_apply,
                                    .separate = {}},
                                   {.code = Code::AddLayerNorm,
                                    .name = "AddLayerNorm",
                                    .arguments = 7,
                                    .address_mask = 0b11111,
                                    .spec_words = 1,
                                    .validate = validate_add_norm,
                                    .accesses = accesses_add_norm,
                                    .cycles = cycles_add_norm,
                                    .run = run_add_norm,
                                    .separate = {}},
                                   {.code = Code::AddMoments,
                                    .name = "AddMoments",
                                    .arguments = 6,
                                    .address_mask = 0b1111,
                                    .validate = validate_add_moments,
                                    .accesses = accesses_add_moments,
                                    .cycles = cycles_add_moments,
                                    .run = run_add_moments,
                                    .separate = {}},
                                   {.code = Code::LayerNormF8,
                                    .name = "LayerNormF8",
                                    .arguments = 8,
                                    .address_mask = 0b1111,
                                    .spec_words = 1,
                                    .validate = validate_norm_f8,
                                    .accesses = accesses_norm_f8,
                                    .cycles = cycles_norm_f8,
                                    .run = run_norm_f8,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
