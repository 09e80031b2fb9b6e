// isa.def as data: what encode, decode, disassemble and the overlap test walk over.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "target/isa.h"

namespace tw::isa {

enum class Style : std::uint8_t { Decimal, Hex, Register, Hidden };

// One operand field: bits [position, position + width) of `word` hold bits [skip, skip + width) of the stored
// value. Stored value = (member - bias) >> scale; member null: imm.
struct Field {
  std::uint32_t Instr::* member = nullptr;
  std::uint8_t position = 0, width = 0, word = 0, skip = 0;
  std::uint8_t bias = 0, scale = 0;
  bool is_signed = false;
  bool more = false;  // a higher part of the same value follows
  Style style = Style::Decimal;
};

inline constexpr std::size_t kMaxFields = 6;

struct Encoding {
  Op op = Op::Trap;
  std::string_view name;
  std::uint32_t mask = 0, match = 0;
  std::array<Field, kMaxFields> fields{};
  std::uint8_t count = 0;
  constexpr std::span<const Field> operands() const { return std::span(fields).first(count); }
};

// Every encoding, in the order of Op.
std::span<const Encoding> encodings();

}  // namespace tw::isa
