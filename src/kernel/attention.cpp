// Softmax and the online merge (decisions.md 6, models.md A.4). The running maximum (times the scale) and the
// denominator of a row are a separate state tensor.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/math.h"
#include "kernel/half.h"
#include "kernel/internal.h"
#include "numeric/formats.h"

namespace tw::kernel {
namespace {

// ---- Softmax: weights, scores, state, rows, keys, padded, split, scratch
struct SoftmaxCall {
  std::uint64_t rows, keys, padded;
  bool split;
  explicit SoftmaxCall(const Call& call)
      : rows(call.m[3]), keys(call.m[4]), padded(call.m[5]), split(call.m[6] == 1) {}
};

std::string validate_softmax(const Call& call) {
  Checker check("Softmax", call, 8, 1);
  check.count(3, "rows");
  check.count(4, "keys");
  check.count(5, "padded keys", kPanel);
  check.require(check.m(4) <= check.m(5), "more keys than padded keys");
  check.require(check.m(6) <= 1, "mode is 0 or 1");
  check.require(check.m(6) == 0 || check.m(4) >= 128, "split rows need 128 keys");
  const std::uint64_t rows = check.m(3), bytes = rows * check.m(5) * 2;
  check.operand(0, "weights", bytes);
  check.operand(1, "scores", bytes);
  check.operand(2, "state", rows * 8);
  if (check.m(6) == 1) check.operand(7, "scratch", rows * 24);
  check.require(check.spec(0) < 0x7C00 && check.spec(0) > 0, "scale is a positive finite F16");
  check.disjoint(0, 1, true);
  check.disjoint(0, 2);
  check.disjoint(1, 2);
  if (check.m(6) == 1)
    for (std::size_t i = 0; i < 3; ++i) check.disjoint(i, 7);
  return check.result();
}

std::vector<Access> accesses_softmax(const Call& call) {
  const SoftmaxCall c(call);
  Accesses list;
  list.read_left(1, call.m[1], c.rows, c.keys);
  list.write(0, call.m[0], c.rows * c.padded * 2);
  list.write(2, call.m[2], c.rows * 8);
  if (c.split) list.write(7, call.m[7], c.rows * 24);
  return list.take();
}

std::uint64_t whole_cycles(std::uint64_t rows, std::uint64_t keys, std::uint64_t padded) {
  const std::uint64_t whole = keys / 16, some = whole > 0 ? 1 : 0;
  std::uint64_t row = 31 + 41 * whole + 2 * some, launch = 216;
  if (keys == padded) {
    row += 7;
  } else {
    const std::uint64_t rest = keys % 16, pairs = rest / 2, zero_pairs = 8 - cd(rest, 2U);
    const std::uint64_t zero_panels = padded / 16 - std::min(padded / 16, whole + 1);
    row += 5 + 6 * some + 21 + (some ? 4 : 2) + (pairs ? 2 : 0) + 12 * pairs + 12 * (keys % 2) +
           (zero_pairs ? 1 : 0) + 2 * zero_pairs + (zero_panels ? 1 : 0) + 10 * zero_panels;
    launch = 234;
  }
  return launch + 6 * cd(rows, 6U) * row;
}
std::uint64_t split_cycles(std::uint64_t rows, std::uint64_t padded) {
  return 408 + 6 * cd(rows, 2U) * (41 * cd(padded, 48U) + 130) + 126 * cd(rows, 6U);
}
std::uint64_t cycles_softmax(const Call& call) {
  const SoftmaxCall c(call);
  return c.split ? split_cycles(c.rows, c.padded) : whole_cycles(c.rows, c.keys, c.padded);
}

// The first of equal keys wins, so a zero keeps its sign.
float row_maximum(const float* panels, std::size_t rows, std::size_t begin, std::size_t end, float best) {
  for (std::size_t k = begin; k < end; ++k) {
    const float s = panels[k / 16 * rows * 16 + k % 16];
    if (s > best) best = s;
  }
  return best;
}

// Sum of the keys [begin, end), begin a multiple of 16: even and odd keys of a panel in F16, panels in FP32.
float panel_sums(const float* panels, std::size_t rows, std::size_t begin, std::size_t end) {
  float total = 0;
  for (std::size_t k = begin; k < end; k += 16) {
    const float* p = panels + k / 16 * rows * 16;
    const std::size_t valid = std::min<std::size_t>(16, end - k);
    float even = 0, odd = 0;
    for (std::size_t i = 0; i < valid; i += 2) even = round_half_sum(even + p[i]);
    for (std::size_t i = 1; i < valid; i += 2) odd = round_half_sum(odd + p[i]);
    const float sum = even + odd;
    total += sum;
  }
  return total;
}

struct Runs {  // of panels, as key ranges; one run for whole rows
  std::size_t count, panels, keys;
  Runs(const SoftmaxCall& c) : count(c.split ? 3 : 1), panels(cd(c.padded / 16, count)), keys(c.keys) {}
  std::size_t begin(std::size_t j) const { return std::min(j * panels * 16, keys); }
  std::size_t end(std::size_t j) const { return std::min((j + 1) * panels * 16, keys); }
};

// Replaces the scores of a row by F16(fl(scale * s - scale * maximum)). Both products and their difference
// are exact in double: it is scale (11 bits) times a multiple of 2^-24 below 2^17.
void exponents(float* panels, std::size_t rows, std::size_t keys, double scale, float maximum) {
  const double shift = scale * double{maximum};
  for (std::size_t k = 0; k < keys; k += 16) {
    float* p = panels + k / 16 * rows * 16;
    for (std::size_t i = 0; i < std::min<std::size_t>(16, keys - k); ++i)
      p[i] = static_cast<float>(scale * double{p[i]} - shift);
  }
}

// The weights of a row, and the same as FP32 in place of the exponents; keys beyond the valid ones are zero.
bool weights(float* panels, const SoftmaxCall& c, std::uint8_t* out) {
  bool overflow = false;
  for (std::size_t k = 0; k < c.padded; k += 16) {
    float* p = panels + k / 16 * c.rows * 16;
    std::uint8_t* q = out + k / 16 * c.rows * 32;
    const std::size_t valid = k < c.keys ? std::min<std::size_t>(16, c.keys - k) : 0;
    overflow |= demote(p, q, valid);
    for (std::size_t i = 0; i < valid; ++i)
      store(q + 2 * i, numeric::f16_exp(load<std::uint16_t>(q + 2 * i)));
    promote(q, p, valid);
    std::memset(q + 2 * valid, 0, 2 * (16 - valid));
  }
  return overflow;
}

void run_softmax(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const SoftmaxCall c(call);
  const float scale = numeric::f16_to_f32(static_cast<std::uint16_t>(spec_word(call, 0)));
  thread_local std::vector<float> values;
  const std::size_t panels = cd(c.keys, 16U);
  values.resize(panels * c.rows * 16);
  promote(sram.at(call.m[1]), values.data(), values.size());
  const Runs runs(c);
  std::uint8_t* const state = sram.at(call.m[2]);
  for (std::size_t r = 0; r < c.rows; ++r) {
    float* row = values.data() + r * 16;
    float maximum = row[0], partial[3];
    for (std::size_t j = 0; j < runs.count; ++j) {
      const float lowest = -std::numeric_limits<float>::infinity();
      partial[j] = row_maximum(row, c.rows, runs.begin(j), runs.end(j), lowest);
      maximum = partial[j] > maximum ? partial[j] : maximum;
      if (c.split) store(sram.at(call.m[7]) + (r * 3 + j) * 4, partial[j]);
    }
    exponents(row, c.rows, c.keys, scale, maximum);
    if (weights(row, c, sram.at(call.m[0]) + r * 32)) effects.f16_overflow = true;
    float denominator = 0;
    for (std::size_t j = 0; j < runs.count; ++j) {
      const float sum = panel_sums(row, c.rows, runs.begin(j), runs.end(j));
      denominator += sum;
      if (c.split) store(sram.at(call.m[7]) + ((c.rows + r) * 3 + j) * 4, sum);
    }
    store(state + r * 4, maximum * scale);
    store(state + (c.rows + r) * 4, denominator);
  }
}

// ---- Merge: out, pv, state, previous, rows, v, padded v; spec bit 0 initial, bit 1 final
struct MergeCall {
  std::uint64_t rows, v, padded, width;
  bool initial, final;
  explicit MergeCall(const Call& call)
      : rows(call.m[4]),
        v(call.m[5]),
        padded(call.m[6]),
        width(up(v + 2, 16U)),
        initial((spec_word(call, 0) & 1) != 0),
        final((spec_word(call, 0) & 2) != 0) {}
  std::uint64_t out_row_bytes() const { return final ? padded * 2 : width * 4; }
};

std::string validate_merge(const Call& call) {
  Checker check("Merge", call, 7, 1);
  check.count(4, "rows");
  check.count(5, "v");
  check.count(6, "padded v", kPanel);
  check.require(check.m(5) <= check.m(6), "v above padded v");
  check.require(check.spec(0) <= 3, "specialisation word above 3");
  if (!check.good()) return check.result();
  const MergeCall c(call);
  check.operand(0, "output", c.rows * c.out_row_bytes());
  check.operand(1, "pv", c.rows * c.padded * 2);
  check.operand(2, "state", c.rows * 8);
  check.disjoint(0, 1);
  check.disjoint(0, 2);
  if (c.initial) {
    check.require(check.m(3) == 0, "an initial merge has no previous accumulator");
  } else {
    check.operand(3, "previous", c.rows * c.width * 4);
    check.disjoint(0, 3, !c.final);
  }
  return check.result();
}

std::vector<Access> accesses_merge(const Call& call) {
  const MergeCall c(call);
  Accesses list;
  list.read_left(1, call.m[1], c.rows, c.v);
  list.read(2, call.m[2], c.rows * 8);
  if (!c.initial) list.read(3, call.m[3], (c.v + 2) * 4, c.rows, c.width * 4);
  list.write(0, call.m[0], c.rows * c.out_row_bytes());
  return list.take();
}

std::uint64_t cycles_merge(const Call& call) {
  const MergeCall c(call);
  const std::uint64_t half_out = c.final ? 1 : 0;
  std::uint64_t row = (c.initial ? 27 : 34) + 3 * half_out + (c.v >= 16 ? 1 : 0) + 3 * (c.v / 16) +
                      cd(c.v, 2U) * ((c.initial ? 4 : 6) + half_out);
  if (c.final) row += c.initial ? 3 : 5;
  return 222 + 6 * cd(c.rows, 6U) * row;
}

// Factors of the old accumulator and of the new product, and the new state.
struct Rescale {
  float previous, product, maximum, denominator;
};
Rescale rescale(float maximum, float denominator, const std::uint8_t* previous_state) {
  if (previous_state == nullptr) return {0, 1, maximum, denominator};
  const float old_maximum = load<float>(previous_state);
  const float merged = maximum > old_maximum ? maximum : old_maximum;
  const float alpha = numeric::exp_f32(old_maximum - merged), beta = numeric::exp_f32(maximum - merged);
  const float old_part = load<float>(previous_state + 4) * alpha, new_part = denominator * beta;
  return {alpha, beta, merged, old_part + new_part};
}

void run_merge(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const MergeCall c(call);
  const std::uint8_t* const state = sram.at(call.m[2]);
  std::vector<float> row(c.final ? c.padded : c.width);
  for (std::size_t r = 0; r < c.rows; ++r) {
    for (std::size_t k = 0; k < c.v; k += 16)
      promote(sram.at(call.m[1]) + left_index(r, k, c.rows, 16) * 2, row.data() + k,
              std::min<std::size_t>(16, c.v - k));
    const std::uint8_t* previous = c.initial ? nullptr : sram.at(call.m[3]) + r * c.width * 4;
    Rescale f = rescale(load<float>(state + r * 4), load<float>(state + (c.rows + r) * 4),
                        previous ? previous + c.v * 4 : nullptr);
    if (c.final) {
      const float reciprocal = numeric::reciprocal_f32(f.denominator);
      f.previous *= reciprocal, f.product *= reciprocal;
    }
    for (std::size_t i = 0; i < c.v; ++i) {
      row[i] *= f.product;
      if (previous) {
        const float kept = load<float>(previous + i * 4) * f.previous;
        row[i] = kept + row[i];
      }
    }
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(c.v), row.end(), 0.0F);
    std::uint8_t* const out = sram.at(call.m[0]) + r * c.out_row_bytes();
    if (c.final) {
      if (demote(row.data(), out, c.padded)) effects.f16_overflow = true;
      continue;
    }
    row[c.v] = f.maximum, row[c.v + 1] = f.denominator;
    std::memcpy(out, row.data(), c.width * 4);
  }
}

}  // namespace

bool softmax_splits_rows(std::uint32_t rows, std::uint32_t keys, std::uint32_t padded) {
  return keys >= 128 && split_cycles(rows, padded) < whole_cycles(rows, keys, padded);
}

std::span<const Kernel> attention_kernels() {
  static const Kernel kernels[] = {{.code = Code::Softmax,
                                    .name = "Softmax",
                                    .arguments = 8,
                                    .address_mask = 0b10000111,
                                    .spec_words = 1,
                                    .validate = validate_softmax,
                                    .accesses = accesses_softmax,
                                    .cycles = cycles_softmax,
                                    .run = run_softmax,
                                    .separate = {}},
                                   {.code = Code::Merge,
                                    .name = "Merge",
                                    .arguments = 7,
                                    .address_mask = 0b1111,
                                    .spec_words = 1,
                                    .validate = validate_merge,
                                    .accesses = accesses_merge,
                                    .cycles = cycles_merge,
                                    .run = run_merge,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
