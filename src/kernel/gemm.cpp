// Matrix products: AL left times blocks of 16 columns, F16 partials and output (models.md A.3).
#include <fmt/core.h>

#include "base/math.h"
#include "kernel/gemm_inner.h"
#include "kernel/internal.h"

namespace tw::kernel {
namespace {

struct Arguments {
  std::uint64_t out, left, right, rows, k, columns;
  bool accumulate, interleaved;
  Arguments(const Call& call)
      : out(call.m[0]),
        left(call.m[1]),
        right(call.m[2]),
        rows(call.m[3]),
        k(call.m[4]),
        columns(call.m[5]),
        accumulate(spec_word(call, 0) == 1),
        interleaved(spec_word(call, 1) == 1) {}
};

template <bool kF8>
std::string validate(const Call& call) {
  constexpr std::uint64_t kBytes = kF8 ? 1 : 2;
  Checker check(kF8 ? "GemmF8" : "GemmF16", call, 7, 2);
  check.count(3, "rows");
  check.count(4, "K", 32 / kBytes);
  check.count(5, "columns", kPanel);
  const std::uint64_t rows = check.m(3), k = check.m(4), columns = check.m(5);
  check.operand(0, "output", rows * columns * 2, 32);
  check.operand(1, "left", rows * k * kBytes, 32);
  check.operand(2, "right", k * columns * kBytes, 32);
  check.require(kF8 ? check.m(6) < 64 && check.m(6) % 2 == 0 : check.m(6) == 0,
                fmt::format("product scale argument {:#x}", check.m(6)));
  check.require(check.spec(0) <= 1 && check.spec(1) <= 1, "specialisation words are 0 or 1");
  check.require(check.spec(1) == 0 || check.m(2) >= kInterleavedBegin,
                "an interleaved right operand stands below the interleaved region");
  check.disjoint(0, 1);
  check.disjoint(0, 2);
  return check.result();
}

template <bool kF8>
std::vector<Access> accesses(const Call& call) {
  constexpr std::uint64_t kBytes = kF8 ? 1 : 2;
  const Arguments a(call);
  Accesses list;
  list.read(1, a.left, a.rows * a.k * kBytes);
  list.read(2, a.right, a.k * a.columns * kBytes);
  if (a.accumulate) list.read(0, a.out, a.rows * a.columns * 2);
  list.write(0, a.out, a.rows * a.columns * 2);
  return list.take();
}

template <bool kF8>
std::uint64_t cycles(const Call& call) {
  const Arguments a(call);
  const std::uint64_t panels = cd(kF8 ? cd(a.k, 2U) : a.k, 16U), blocks = cd(a.columns, 16U);
  if (a.interleaved) return 294 + panels * blocks * (4 * a.rows + 160);
  return 294 + panels * (cd(a.columns * a.rows, 4U) + cd(blocks * 1063, 4U));
}

template <bool kF8>
void run(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Arguments a(call);
  const Sram sram{bytes, base};
  const GemmShape shape{a.rows, a.k, a.columns, kF8 ? signed_scale(call.m[6]) : 0, kF8, a.accumulate};
  if (gemm(shape, sram.at(call.m[1]), sram.at(call.m[2]), sram.at(call.m[0]))) effects.f16_overflow = true;
}

template <bool kF8>
Kernel make() {
  return {.code = kF8 ? Code::GemmF8 : Code::GemmF16,
          .name = kF8 ? "GemmF8" : "GemmF16",
          .arguments = 7,
          .address_mask = 0b111,
          .spec_words = 2,
          .validate = validate<kF8>,
          .accesses = accesses<kF8>,
          .cycles = cycles<kF8>,
          .run = run<kF8>,
          .separate = {{0, 1}}};
}

}  // namespace

std::span<const Kernel> gemm_kernels() {
  static const Kernel kernels[] = {make<false>(), make<true>()};
  return kernels;
}

}  // namespace tw::kernel
