// The assembler form of one instruction back to its fields; the operands are those of isa.def, as
// disassemble() prints them.
#include <fmt/core.h>

#include <charconv>
#include <vector>

#include "target/isa.h"
#include "target/isa_table.h"

namespace tw::isa {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> out;
  if (trimmed(text).empty()) return out;
  for (;;) {
    const std::size_t comma = text.find(',');
    out.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::int64_t> number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? -std::int64_t{value} : std::int64_t{value};
}

std::optional<std::int64_t> operand_value(std::string_view text, const Field& f) {
  if (f.style != Style::Register) return number(text);
  if (!text.starts_with("$m")) return std::nullopt;
  text.remove_prefix(2);
  return text.starts_with('-') || text.starts_with("0x") ? std::nullopt : number(text);
}

// All values that a visible field and the hidden one behind it can hold.
struct Limits {
  std::int64_t low, high, step;
};

Limits limits_of(const Field& f, const Field* hidden) {
  if (f.is_signed) return {-(std::int64_t{1} << (f.width - 1)), (std::int64_t{1} << (f.width - 1)) - 1, 1};
  const int width = f.more && hidden != nullptr ? hidden->skip + hidden->width : f.width;
  const std::int64_t stored = (std::int64_t{1} << width) - 1;
  return {f.bias, (stored << f.scale) + f.bias, std::int64_t{1} << f.scale};
}

}  // namespace

Parsed parse(std::string_view text) {
  text = trimmed(text);
  const std::string_view name = text.substr(0, text.find_first_of(" \t"));
  const Encoding* e = nullptr;
  for (const Encoding& candidate : encodings())
    if (candidate.name == name) e = &candidate;
  if (e == nullptr) return {std::nullopt, fmt::format("no instruction is called '{}'", name)};

  const std::vector<std::string_view> texts = split_operands(text.substr(name.size()));
  const std::span<const Field> fields = e->operands();
  Instr instr;
  instr.op = e->op;
  std::size_t used = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    if (f.style == Style::Hidden) continue;
    if (used == texts.size()) break;
    const auto value = operand_value(texts[used++], f);
    const Limits limits = limits_of(f, i + 1 < fields.size() ? &fields[i + 1] : nullptr);
    if (!value || *value < limits.low || *value > limits.high || (*value - limits.low) % limits.step != 0) {
      if (f.style == Style::Register)
        return {std::nullopt, fmt::format("{}: operand {} is no register $m0..$m15", name, used)};
      const std::string steps = limits.step > 1 ? fmt::format(", a multiple of {}", limits.step) : "";
      return {std::nullopt, fmt::format("{}: operand {} is no number {}..{}{}", name, used, limits.low,
                                        limits.high, steps)};
    }
    if (f.member == nullptr)
      instr.imm = static_cast<std::int32_t>(*value);
    else
      instr.*f.member = static_cast<std::uint32_t>(*value);
  }
  std::size_t wanted = 0;
  for (const Field& f : fields) wanted += f.style == Style::Hidden ? 0 : 1;
  if (texts.size() != wanted)
    return {std::nullopt, fmt::format("{}: {} operands, wanted {}", name, texts.size(), wanted)};
  return {instr, {}};
}

}  // namespace tw::isa
