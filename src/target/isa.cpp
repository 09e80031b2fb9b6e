#include "target/isa.h"

#include <fmt/core.h>

#include <bit>

#include "base/error.h"
#include "target/isa_table.h"

namespace tw::isa {
namespace {

using Member = std::uint32_t Instr::*;
using U8 = std::uint8_t;

constexpr Field plain(Member member, U8 position, U8 width, Style style, U8 word = 0) {
  return {.member = member, .position = position, .width = width, .word = word, .style = style};
}
constexpr Field count(U8 position, U8 width, U8 skip = 0, bool more = false) {
  return {.member = &Instr::n,
          .position = position,
          .width = width,
          .skip = skip,
          .bias = 1,
          .more = more,
          .style = skip == 0 ? Style::Decimal : Style::Hidden};
}
constexpr Field immediate(U8 position, U8 width, bool is_signed) {
  return {.position = position, .width = width, .is_signed = is_signed, .style = Style::Decimal};
}
constexpr Field branch(U8 position, U8 width) {
  return {.member = &Instr::address, .position = position, .width = width, .scale = 2, .style = Style::Hex};
}

template <class... Fields>
constexpr Encoding make(Op op, std::string_view name, std::uint32_t mask, std::uint32_t match, Fields... f) {
  return {op, name, mask, match, {f...}, sizeof...(f)};
}

#define N(position, width) count(position, width)
#define NLO(position, width) count(position, width, 0, true)
#define NHI(position, width, skip) count(position, width, skip)
#define DEC(member, position, width) plain(&Instr::member, position, width, Style::Decimal)
#define HEX(member, position, width) plain(&Instr::member, position, width, Style::Hex)
#define M(position) plain(&Instr::m, position, 4, Style::Register)
#define BASE(position) plain(&Instr::base, position, 4, Style::Register)
#define DELTA(position) plain(&Instr::delta, position, 4, Style::Register)
#define IMM(position, width) immediate(position, width, false)
#define SIMM(position, width) immediate(position, width, true)
#define ADDR(position, width) branch(position, width)
#define XPIC1(position, width) plain(&Instr::xpic, position, width, Style::Hex, 1)
#define PIC1(position, width) plain(&Instr::pic, position, width, Style::Hex, 1)
#define TW_INSTR(op, name, mask, match, ...) make(Op::op, name, mask, match __VA_OPT__(, ) __VA_ARGS__),
constexpr Encoding kEncodings[] = {
#include "target/isa.def"
};
#undef N
#undef NLO
#undef NHI
#undef DEC
#undef HEX
#undef M
#undef BASE
#undef DELTA
#undef IMM
#undef SIMM
#undef ADDR
#undef XPIC1
#undef PIC1
#undef TW_INSTR

constexpr std::size_t kCount = std::size(kEncodings);
static_assert(kCount <= 32, "one bit per encoding in kCandidates");

constexpr bool in_order_of_op() {
  for (std::size_t i = 0; i < kCount; ++i)
    if (static_cast<std::size_t>(kEncodings[i].op) != i) return false;
  return kCount == static_cast<std::size_t>(Op::Trap) + 1;
}
static_assert(in_order_of_op(), "isa.def must list every Op in the order of the enum");

// Encodings possible for each value of the top byte: at most three, so that decoding does not scan the table.
constexpr std::array<std::uint32_t, 256> kCandidates = [] {
  std::array<std::uint32_t, 256> sets{};
  for (std::uint32_t top = 0; top < 256; ++top)
    for (std::size_t i = 0; i < kCount; ++i)
      if (((top << 24) & kEncodings[i].mask) == (kEncodings[i].match & 0xFF000000u & kEncodings[i].mask))
        sets[top] |= 1u << i;
  return sets;
}();

constexpr std::uint32_t low_bits(std::uint32_t width) { return (1u << width) - 1; }

std::uint32_t read(const Instr& instr, const Field& f) {
  return f.member == nullptr ? static_cast<std::uint32_t>(instr.imm) : instr.*f.member;
}

// The stored value of a field, checked against the field's whole range.
std::uint32_t stored(const Instr& instr, const Field& f, std::string_view name) {
  const std::uint32_t raw = read(instr, f);
  const auto bad = [&] {
    fail_check("field in range", fmt::format("{}: operand {} out of range", name, raw));
  };
  if (f.is_signed) {
    const std::int32_t limit = 1 << (f.width - 1);
    if (instr.imm < -limit || instr.imm >= limit) bad();
    return raw & low_bits(f.width);
  }
  if (raw < f.bias || (raw & low_bits(f.scale)) != 0) bad();
  const std::uint32_t value = ((raw - f.bias) >> f.scale) >> f.skip;
  if (!f.more && value > low_bits(f.width)) bad();
  return value & low_bits(f.width);
}

std::uint32_t sign_extend(std::uint32_t bits, std::uint32_t width) {
  const std::uint32_t sign = 1u << (width - 1);
  return (bits ^ sign) - sign;
}

Instr unpack(const Encoding& e, std::uint32_t word, std::uint32_t next) {
  Instr instr;
  instr.op = e.op;
  for (const Field& f : e.operands()) {
    std::uint32_t bits = ((f.word == 0 ? word : next) >> f.position) & low_bits(f.width);
    if (f.is_signed) bits = sign_extend(bits, f.width);
    bits <<= f.skip + f.scale;
    if (f.member == nullptr)
      instr.imm = static_cast<std::int32_t>(bits);
    else
      instr.*f.member += bits + (f.skip == 0 ? f.bias : 0u);
  }
  return instr;
}

std::string operand(const Instr& instr, const Field& f) {
  const std::uint32_t value = read(instr, f);
  switch (f.style) {
    case Style::Register:
      return fmt::format("$m{}", value);
    case Style::Hex:
      return fmt::format("0x{:x}", value);
    default:
      return f.is_signed ? fmt::format("{}", instr.imm) : fmt::format("{}", value);
  }
}

std::uint32_t word(const Instr& instr) { return encode(instr).word0; }
std::int32_t imm(std::uint32_t value) { return static_cast<std::int32_t>(value); }

}  // namespace

std::span<const Encoding> encodings() { return kEncodings; }

std::optional<Instr> decode(std::uint32_t word, std::uint32_t next) {
  for (std::uint32_t set = kCandidates[word >> 24]; set != 0; set &= set - 1) {
    const Encoding& e = kEncodings[std::countr_zero(set)];
    if ((word & e.mask) == e.match) return unpack(e, word, next);
  }
  return std::nullopt;
}

TwoWords encode(const Instr& instr) {
  TW_CHECK(instr.op <= Op::Trap, "unknown operation");
  const Encoding& e = kEncodings[static_cast<std::size_t>(instr.op)];
  TwoWords words{e.match, 0};
  for (const Field& f : e.operands())
    (f.word == 0 ? words.word0 : words.word1) |= stored(instr, f, e.name) << f.position;
  return words;
}

std::string disassemble(const Instr& instr) {
  TW_CHECK(instr.op <= Op::Trap, "unknown operation");
  const Encoding& e = kEncodings[static_cast<std::size_t>(instr.op)];
  std::string text(e.name);
  const char* separator = " ";
  for (const Field& f : e.operands()) {
    if (f.style == Style::Hidden) continue;
    text += separator + operand(instr, f);
    separator = ", ";
  }
  return text;
}

std::uint32_t delay(std::uint32_t n) { return word({.op = Op::Delay, .n = n}); }
std::uint32_t delaypic(std::uint32_t n, std::uint32_t selector, std::uint32_t value) {
  return word({.op = Op::DelayPic, .n = n, .selector = selector, .value = value});
}
std::uint32_t delayxpic(std::uint32_t n, std::uint32_t selector, std::uint32_t value) {
  return word({.op = Op::DelayXpic, .n = n, .selector = selector, .value = value});
}
std::uint32_t send(std::uint32_t n, std::uint32_t item_address, std::uint32_t control) {
  return word({.op = Op::Send, .n = n, .address = item_address, .control = control});
}
std::uint32_t sendoff(std::uint32_t n, std::uint32_t delta, std::uint32_t control) {
  return word({.op = Op::SendOff, .n = n, .address = delta, .control = control});
}
std::uint32_t sendpic(std::uint32_t n, std::uint32_t selector, std::uint32_t value) {
  return word({.op = Op::SendPic, .n = n, .selector = selector, .value = value});
}
TwoWords sendpicp(std::uint32_t n, std::uint32_t item_address, std::uint32_t control,
                  std::uint32_t pic_selector, std::uint32_t xpic14, std::uint32_t pic18) {
  return encode({.op = Op::SendPicP,
                 .n = n,
                 .selector = pic_selector,
                 .address = item_address,
                 .control = control,
                 .xpic = xpic14,
                 .pic = pic18});
}

std::uint32_t setzi(std::uint32_t m, std::uint32_t imm20) {
  return word({.op = Op::Setzi, .m = m, .imm = imm(imm20)});
}
std::uint32_t put(std::uint32_t csr, std::uint32_t m) {
  return word({.op = Op::Put, .m = m, .imm = imm(csr)});
}
std::uint32_t get(std::uint32_t m, std::uint32_t csr) {
  return word({.op = Op::Get, .m = m, .imm = imm(csr)});
}
std::uint32_t ld32(std::uint32_t d, std::uint32_t base, std::uint32_t delta, std::uint32_t word_offset) {
  return word({.op = Op::Ld32, .m = d, .base = base, .delta = delta, .imm = imm(word_offset)});
}
std::uint32_t st32(std::uint32_t s, std::uint32_t base, std::uint32_t delta, std::uint32_t word_offset) {
  return word({.op = Op::St32, .m = s, .base = base, .delta = delta, .imm = imm(word_offset)});
}
std::uint32_t add(std::uint32_t d, std::uint32_t s, std::int32_t simm16) {
  return word({.op = Op::AddImm, .m = d, .base = s, .imm = simm16});
}
std::uint32_t shl(std::uint32_t d, std::uint32_t s, std::uint32_t count) {
  return word({.op = Op::Shl, .m = d, .base = s, .imm = imm(count)});
}
std::uint32_t brz(std::uint32_t m, std::uint32_t byte_address) {
  return word({.op = Op::Brz, .address = byte_address, .m = m});
}
std::uint32_t bri(std::uint32_t byte_address) { return word({.op = Op::Bri, .address = byte_address}); }
std::uint32_t call(std::uint32_t m, std::uint32_t byte_address) {
  return word({.op = Op::Call, .address = byte_address, .m = m});
}
std::uint32_t br(std::uint32_t m) { return word({.op = Op::Br, .m = m}); }
std::uint32_t sync(std::uint32_t zone) { return word({.op = Op::Sync, .imm = imm(zone)}); }
std::uint32_t sans(std::uint32_t zone) { return word({.op = Op::Sans, .imm = imm(zone)}); }
std::uint32_t runall(std::uint32_t entry, std::uint32_t vertex_base) {
  return word({.op = Op::Runall, .m = entry, .delta = vertex_base});
}
std::uint32_t trap(std::uint32_t code) { return word({.op = Op::Trap, .imm = imm(code)}); }

}  // namespace tw::isa
