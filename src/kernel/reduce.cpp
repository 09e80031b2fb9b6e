// Sum of the F16 partials of a split K, ascending part, one rounding per addition (decisions.md 3).
#include "base/math.h"
#include "kernel/half.h"
#include "kernel/internal.h"

namespace tw::kernel {
namespace {

// The seed is one of the P parts and stands apart; without a seed all parts are in `remote`.
bool has_seed(const Call& call) { return call.m[5] < call.m[4]; }
std::uint64_t remote_parts(const Call& call) { return call.m[4] - (has_seed(call) ? 1U : 0U); }

std::string validate(const Call& call) {
  Checker check("Sum", call, 6, 0);
  check.count(3, "n", 8);
  check.require(check.m(4) >= 2, "fewer than two parts");
  check.require(check.m(5) <= check.m(4), "seed part beyond the parts");
  if (!check.good()) return check.result();
  const std::uint64_t bytes = check.m(3) * 2;
  check.operand(0, "output", bytes);
  if (has_seed(call)) check.operand(1, "seed", bytes);
  check.operand(2, "remote", remote_parts(call) * bytes);
  if (has_seed(call)) check.disjoint(0, 1, true);
  check.disjoint(0, 2);
  return check.result();
}

std::vector<Access> accesses(const Call& call) {
  const std::uint64_t bytes = call.m[3] * 2ULL;
  Accesses list;
  if (has_seed(call)) list.read(1, call.m[1], bytes);
  list.read(2, call.m[2], remote_parts(call) * bytes);
  list.write(0, call.m[0], bytes);
  return list.take();
}

std::uint64_t cycles(const Call& call) {
  const std::uint64_t n = call.m[3], parts = call.m[4];
  return parts < 2 ? 0 : 282 + 6 * cd(n, 48U) * (11 + 2 * (parts - 1));
}

void run(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects& effects) {
  const Sram sram{bytes, base};
  const std::size_t n = call.m[3], parts = call.m[4], seed_part = call.m[5];
  const auto part = [&](std::size_t p) -> const std::uint8_t* {
    if (p == seed_part) return sram.at(call.m[1]);
    return sram.at(call.m[2]) + (p > seed_part ? p - 1 : p) * n * 2;
  };
  // In chunks, so that an output that is also the seed is not overwritten before its turn.
  constexpr std::size_t kChunk = 512;
  std::uint8_t sum[kChunk * 2];
  for (std::size_t i = 0; i < n; i += kChunk) {
    const std::size_t count = std::min(kChunk, n - i);
    std::memcpy(sum, part(0) + 2 * i, count * 2);
    for (std::size_t p = 1; p < parts; ++p)
      if (add_halves(sum, part(p) + 2 * i, sum, count)) effects.f16_overflow = true;
    std::memcpy(sram.at(call.m[0]) + 2 * i, sum, count * 2);
  }
}

}  // namespace

std::span<const Kernel> reduce_kernels() {
  static const Kernel kernels[] = {{.code = Code::Sum,
                                    .name = "Sum",
                                    .arguments = 6,
                                    .address_mask = 0b111,
                                    .validate = validate,
                                    .accesses = accesses,
                                    .cycles = cycles,
                                    .run = run,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
