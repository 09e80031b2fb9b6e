// F16 re-orderings between ROW and the packed orders AL, AR and BM(rb,16); index formulas of compiler.md 2.3.
// A pack writes every physical element of its destination, zero where there is no source.
#include <algorithm>

#include "base/math.h"
#include "kernel/internal.h"

namespace tw::kernel {
namespace {

enum class Target { Left, Right, Block };

// out, in ROW, rows, source stride, cols, then left: padded columns; right: padded rows, padded columns;
// block: padded rows, padded columns, row block.
struct Pack {
  std::uint64_t rows, stride, columns, padded_rows, padded_columns, row_block = 16;
  Pack(Target target, const Call& call)
      : rows(call.m[2]),
        stride(call.m[3]),
        columns(call.m[4]),
        padded_rows(target == Target::Left ? call.m[2] : call.m[5]),
        padded_columns(target == Target::Left ? call.m[5] : call.m[6]) {
    if (target == Target::Block) row_block = call.m[7];
  }
  std::uint64_t elements() const { return padded_rows * padded_columns; }
};

// Element index in BM(rb,16), F16: panels of 16 columns by 16 rows, columns outermost inside a panel.
constexpr std::size_t block_index(std::size_t r, std::size_t c, std::size_t columns, std::size_t rb) {
  return ((r / rb * (columns / 16) + c / 16) * (rb / 16) + r % rb / 16) * 256 + c % 16 * 16 + r % 16;
}
// AR, F16: panels of 16 rows by 16 columns, rows outermost inside a panel.
constexpr std::size_t right_index(std::size_t r, std::size_t c, std::size_t columns) {
  return (r / 16 * (columns / 16) + c / 16) * 256 + r % 16 * 16 + c % 16;
}

template <Target kTarget>
constexpr const char* pack_name() {
  return kTarget == Target::Left    ? "PackRowToLeft"
         : kTarget == Target::Right ? "PackRowToRight"
                                    : "PackRowToBlock";
}
template <Target kTarget>
constexpr std::uint32_t pack_arguments() {
  return kTarget == Target::Left ? 6 : kTarget == Target::Right ? 7 : 8;
}

template <Target kTarget>
std::string validate_pack(const Call& call) {
  Checker check(pack_name<kTarget>(), call, pack_arguments<kTarget>(), 0);
  check.count(2, "rows");
  check.count(4, "columns");
  if (kTarget == Target::Left) check.count(5, "padded columns", kPanel);
  if (kTarget != Target::Left) check.count(6, "padded columns", kPanel);
  if (kTarget == Target::Right) check.count(5, "padded rows", kPanel);
  if (kTarget == Target::Block) check.count(7, "row block", kPanel);
  if (!check.good()) return check.result();
  const Pack p(kTarget, call);
  check.require(p.padded_rows % p.row_block == 0 || kTarget == Target::Left,
                "padded rows break the row block");
  check.require(p.rows <= p.padded_rows && p.columns <= p.padded_columns, "source larger than destination");
  check.require(p.rows == 1 || p.stride >= p.columns, "source rows overlap");
  check.operand(0, "output", p.elements() * 2);
  check.operand(1, "input", ((p.rows - 1) * p.stride + p.columns) * 2);
  check.disjoint(0, 1);
  return check.result();
}

template <Target kTarget>
std::vector<Access> accesses_pack(const Call& call) {
  const Pack p(kTarget, call);
  Accesses list;
  list.read(1, call.m[1], p.columns * 2, p.rows, p.stride * 2);
  list.write(0, call.m[0], p.elements() * 2);
  return list.take();
}

// compiler.md 5.4: AL 1, AR 3, indexed transform 10 per element; block-major fast path R = rb.
template <Target kTarget>
std::uint64_t cycles_pack(const Call& call) {
  const Pack p(kTarget, call);
  if (kTarget == Target::Right) return 11 + 3 * p.elements();
  if (kTarget == Target::Left) return 11 + p.elements() * (p.columns % 2 == 0 && p.stride % 2 == 0 ? 1 : 10);
  if (p.padded_rows == p.row_block && p.columns % 4 == 0 && p.stride % 4 == 0) {
    const std::uint64_t width = p.padded_columns;
    return 300 + 6 * cd(p.padded_rows, 12U) * (width == 16 ? 60 : 12 + 140 * cd(width, 16U));
  }
  return 11 + 10 * p.elements();
}

template <Target kTarget>
void run_pack(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const Pack p(kTarget, call);
  std::uint8_t* const out = sram.at(call.m[0]);
  std::memset(out, 0, p.elements() * 2);
  for (std::size_t r = 0; r < p.rows; ++r)
    for (std::size_t c = 0; c < p.columns; c += kPanel) {
      const std::size_t n = std::min<std::size_t>(kPanel, p.columns - c);
      const std::uint8_t* from = sram.at(call.m[1]) + (r * p.stride + c) * 2;
      if (kTarget == Target::Block) {
        for (std::size_t i = 0; i < n; ++i)
          std::memcpy(out + block_index(r, c + i, p.padded_columns, p.row_block) * 2, from + 2 * i, 2);
        continue;
      }
      const std::size_t index =
          kTarget == Target::Left ? left_index(r, c, p.rows, kPanel) : right_index(r, c, p.padded_columns);
      std::memcpy(out + index * 2, from, n * 2);
    }
}

template <Target kTarget>
Kernel pack(Code code) {
  return {.code = code,
          .name = pack_name<kTarget>(),
          .arguments = pack_arguments<kTarget>(),
          .address_mask = 0b11,
          .validate = validate_pack<kTarget>,
          .accesses = accesses_pack<kTarget>,
          .cycles = cycles_pack<kTarget>,
          .run = run_pack<kTarget>,
          .separate = {}};
}

// ---- UnpackLeft: out ROW, in AL(rows, scols), rows, scols, cols, destination stride
std::string validate_unpack_left(const Call& call) {
  Checker check("UnpackLeft", call, 6, 0);
  check.count(2, "rows");
  check.count(3, "physical columns", kPanel);
  check.count(4, "columns");
  check.require(check.m(4) <= check.m(3), "more columns than physical columns");
  check.require(check.m(2) == 1 || check.m(5) >= check.m(4), "destination rows overlap");
  if (!check.good()) return check.result();
  check.operand(0, "output", ((check.m(2) - 1) * check.m(5) + check.m(4)) * 2);
  check.operand(1, "input", check.m(2) * check.m(3) * 2);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_unpack_left(const Call& call) {
  Accesses list;
  list.read_left(1, call.m[1], call.m[2], call.m[4]);
  list.write(0, call.m[0], call.m[4] * 2ULL, call.m[2], call.m[5] * 2ULL);
  return list.take();
}
// docs/costs.md: one strided copy per panel of 16 columns, in the widest word that rows and columns allow.
std::uint64_t cycles_unpack_left(const Call& call) {
  const std::uint64_t rows = call.m[2], columns = call.m[4], stride = rows == 1 ? 0 : call.m[5];
  const bool wide = columns % 4 == 0 && stride % 4 == 0, even = columns % 2 == 0 && stride % 2 == 0;
  if (!even) return 11 + 10 * rows * columns;
  const std::uint64_t words = wide ? 4 : 8;
  return 294 + cd(columns, 16U) * 6 * cd(rows, 6U) * (2 * words + 6);
}
void run_unpack_left(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[2], columns = call.m[4], stride = call.m[5];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; c += kPanel)
      std::memcpy(sram.at(call.m[0]) + (r * stride + c) * 2,
                  sram.at(call.m[1]) + left_index(r, c, rows, kPanel) * 2,
                  std::min<std::size_t>(kPanel, columns - c) * 2);
}

// ---- UnpackBlock: out ROW, in BM(rb,16)(srows, scols), rows, cols, destination stride, srows, scols, rb
std::string validate_unpack_block(const Call& call) {
  Checker check("UnpackBlock", call, 8, 0);
  check.count(2, "rows");
  check.count(3, "columns");
  check.count(5, "physical rows");
  check.count(6, "physical columns", kPanel);
  check.count(7, "row block", kPanel);
  if (!check.good()) return check.result();
  check.require(check.m(5) % check.m(7) == 0, "physical rows break the row block");
  check.require(check.m(2) <= check.m(5) && check.m(3) <= check.m(6), "destination larger than source");
  check.require(check.m(2) == 1 || check.m(4) >= check.m(3), "destination rows overlap");
  check.operand(0, "output", ((check.m(2) - 1) * check.m(4) + check.m(3)) * 2);
  check.operand(1, "input", check.m(5) * check.m(6) * 2);
  check.disjoint(0, 1);
  return check.result();
}
std::vector<Access> accesses_unpack_block(const Call& call) {
  const std::uint64_t rows = call.m[2], columns = call.m[3];
  Accesses list;
  for (std::uint64_t block = 0; block < rows; block += call.m[7])
    for (std::uint64_t c = 0; c < columns; c += 16)
      for (std::uint64_t r = block; r < std::min<std::uint64_t>(rows, block + call.m[7]); r += 16)
        list.read(1, call.m[1] + block_index(r, c, call.m[6], call.m[7]) * 2,
                  std::min<std::uint64_t>(16, rows - r) * 2, std::min<std::uint64_t>(16, columns - c), 32);
  list.write(0, call.m[0], columns * 2, rows, call.m[4] * 2ULL);
  return list.take();
}
std::uint64_t cycles_unpack_block(const Call& call) { return 11 + 10ULL * call.m[2] * call.m[3]; }
void run_unpack_block(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const std::size_t rows = call.m[2], columns = call.m[3], stride = call.m[4];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      std::memcpy(sram.at(call.m[0]) + (r * stride + c) * 2,
                  sram.at(call.m[1]) + block_index(r, c, call.m[6], call.m[7]) * 2, 2);
}

}  // namespace

std::span<const Kernel> move_kernels() {
  static const Kernel kernels[] = {pack<Target::Left>(Code::PackRowToLeft),
                                   pack<Target::Right>(Code::PackRowToRight),
                                   pack<Target::Block>(Code::PackRowToBlock),
                                   {.code = Code::UnpackLeft,
                                    .name = "UnpackLeft",
                                    .arguments = 6,
                                    .address_mask = 0b11,
                                    .validate = validate_unpack_left,
                                    .accesses = accesses_unpack_left,
                                    .cycles = cycles_unpack_left,
                                    .run = run_unpack_left,
                                    .separate = {}},
                                   {.code = Code::UnpackBlock,
                                    .name = "UnpackBlock",
                                    .arguments = 8,
                                    .address_mask = 0b11,
                                    .validate = validate_unpack_block,
                                    .accesses = accesses_unpack_block,
                                    .cycles = cycles_unpack_block,
                                    .run = run_unpack_block,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
