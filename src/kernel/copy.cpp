// Local copies and the zero fill (compiler.md 5.3, 5.4). They move bytes without looking at them.
#include "base/math.h"
#include "kernel/internal.h"

namespace tw::kernel {
namespace {

const char* name_of(Code code) {
  switch (code) {
    case Code::CopyU64:
      return "CopyU64";
    case Code::CopyStrided64:
      return "CopyStrided64";
    case Code::CopyU32:
      return "CopyU32";
    case Code::CopyStrided32:
      return "CopyStrided32";
    default:
      return "CopyU16";
  }
}

// A worker moves six 64-bit words in one go; the call gives quotient and remainder.
template <Code kCode>
std::uint64_t words(const Call& call) {
  return kCode == Code::CopyU64 ? call.m[2] * 6ULL + call.m[3] : call.m[2];
}
constexpr std::uint32_t word_bytes(Code code) {
  return code == Code::CopyU64 || code == Code::CopyStrided64 ? 8 : code == Code::CopyU16 ? 2 : 4;
}

template <Code kCode>
std::string validate(const Call& call) {
  constexpr std::uint32_t kBytes = word_bytes(kCode);
  Checker check(name_of(kCode), call, kCode == Code::CopyU64 ? 4 : 3, 0);
  const std::uint64_t n = words<kCode>(call);
  check.require(n > 0, "nothing to copy");
  if (kCode == Code::CopyU64) check.require(check.m(3) < 6, "remainder above five words");
  check.operand(0, "destination", n * kBytes, kBytes);
  check.operand(1, "source", n * kBytes, kBytes);
  check.disjoint(0, 1);
  return check.result();
}

template <Code kCode>
std::vector<Access> accesses(const Call& call) {
  const std::uint64_t bytes = words<kCode>(call) * word_bytes(kCode);
  Accesses list;
  list.read(1, call.m[1], bytes);
  list.write(0, call.m[0], bytes);
  return list.take();
}

template <Code kCode>
std::uint64_t cycles(const Call& call) {
  const std::uint64_t n = words<kCode>(call);
  if (kCode == Code::CopyU64) return 246 + 12 * (n / 6 + (n % 6 != 0 ? 1 : 0));
  return kCode == Code::CopyU32 ? 104 + 23 * n : 112 + 129 * n;
}

template <Code kCode>
void run(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  std::memcpy(sram.at(call.m[0]), sram.at(call.m[1]), words<kCode>(call) * word_bytes(kCode));
}

template <Code kCode>
Kernel contiguous() {
  return {.code = kCode,
          .name = name_of(kCode),
          .arguments = kCode == Code::CopyU64 ? 4U : 3U,
          .address_mask = 0b11,
          .validate = validate<kCode>,
          .accesses = accesses<kCode>,
          .cycles = cycles<kCode>,
          .run = run<kCode>,
          .separate = {}};
}

template <Code kCode>
std::string validate_strided(const Call& call) {
  constexpr std::uint32_t kBytes = word_bytes(kCode);
  Checker check(name_of(kCode), call, 6, 0);
  check.count(2, "row words");
  check.count(3, "rows");
  const std::uint64_t row = check.m(2) * kBytes, rows = check.m(3), from = check.m(4), to = check.m(5);
  check.require(from % kBytes == 0 && to % kBytes == 0, "a stride is no multiple of the word");
  check.require(rows == 1 || to >= row, "destination rows overlap");
  if (!check.good()) return check.result();
  check.operand(0, "destination", (rows - 1) * to + row, kBytes);
  check.operand(1, "source", (rows - 1) * from + row, kBytes);
  return check.result();
}

template <Code kCode>
std::vector<Access> accesses_strided(const Call& call) {
  const std::uint64_t row = call.m[2] * std::uint64_t{word_bytes(kCode)};
  Accesses list;
  list.read(1, call.m[1], row, call.m[3], call.m[4]);
  list.write(0, call.m[0], row, call.m[3], call.m[5]);
  return list.take();
}

template <Code kCode>
std::uint64_t cycles_strided(const Call& call) {
  return 294 + 6 * cd(std::uint64_t{call.m[3]}, 6U) * (2ULL * call.m[2] + 6);
}

template <Code kCode>
void run_strided(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  const Sram sram{bytes, base};
  const std::size_t row = std::size_t{call.m[2]} * word_bytes(kCode);
  std::uint8_t* to = sram.at(call.m[0]);
  const std::uint8_t* from = sram.at(call.m[1]);
  for (std::size_t r = 0; r < call.m[3]; ++r) std::memmove(to + r * call.m[5], from + r * call.m[4], row);
}

template <Code kCode>
Kernel strided() {
  return {.code = kCode,
          .name = name_of(kCode),
          .arguments = 6,
          .address_mask = 0b11,
          .validate = validate_strided<kCode>,
          .accesses = accesses_strided<kCode>,
          .cycles = cycles_strided<kCode>,
          .run = run_strided<kCode>,
          .separate = {}};
}

std::string validate_fill(const Call& call) {
  Checker check("Fill", call, 2, 0);
  check.count(1, "bytes", 8);
  check.operand(0, "destination", check.m(1));
  return check.result();
}
std::vector<Access> accesses_fill(const Call& call) {
  Accesses list;
  list.write(0, call.m[0], call.m[1]);
  return list.take();
}
std::uint64_t cycles_fill(const Call& call) { return cd(std::uint64_t{call.m[1]}, 48U) + 11; }
void run_fill(std::uint8_t* bytes, std::uint32_t base, const Call& call, Effects&) {
  std::memset(Sram{bytes, base}.at(call.m[0]), 0, call.m[1]);
}

}  // namespace

std::span<const Kernel> copy_kernels() {
  static const Kernel kernels[] = {contiguous<Code::CopyU64>(),
                                   strided<Code::CopyStrided64>(),
                                   contiguous<Code::CopyU32>(),
                                   strided<Code::CopyStrided32>(),
                                   contiguous<Code::CopyU16>(),
                                   {.code = Code::Fill,
                                    .name = "Fill",
                                    .arguments = 2,
                                    .address_mask = 0b1,
                                    .validate = validate_fill,
                                    .accesses = accesses_fill,
                                    .cycles = cycles_fill,
                                    .run = run_fill,
                                    .separate = {}}};
  return kernels;
}

}  // namespace tw::kernel
