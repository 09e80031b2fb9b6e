#include "inspect/assembly.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "inspect/listing.h"
#include "target/isa.h"

namespace tw::inspect {
namespace {

constexpr std::size_t kMaxFaults = 20;
constexpr std::uint64_t kMaxBytes = 1U << 20;  // of a whole text; more than a tile has

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

class Assembler {
 public:
  // What is wrong with the line; empty: nothing.
  std::string line(std::string_view text) {
    text = trimmed(text.substr(0, text.find(';')));
    if (text.empty()) return {};
    const std::size_t blank = text.find_first_of(" \t");
    const std::string_view name = text.substr(0, blank);
    const std::string_view rest = blank == std::string_view::npos ? "" : trimmed(text.substr(blank));
    if (name.starts_with('.')) return directive(name, rest);
    const isa::Parsed parsed = isa::parse(text);
    if (!parsed.instr) return parsed.fault;
    const isa::TwoWords words = isa::encode(*parsed.instr);
    const bool two = parsed.instr->op == isa::Op::SendPicP;
    if (const std::string fault = room(two ? 8 : 4); !fault.empty()) return fault;
    put(words.word0, 4);
    if (two) put(words.word1, 4);
    return {};
  }

  std::vector<Block> take() {
    std::erase_if(blocks_, [](const Block& b) { return b.bytes.empty(); });
    return std::move(blocks_);
  }

 private:
  std::string directive(std::string_view name, std::string_view text) {
    const bool hex = text.starts_with("0x");
    const std::string_view digits = hex ? text.substr(2) : text;
    std::uint32_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (error != std::errc() || end != digits.data() + digits.size())
      return fmt::format("{}: '{}' is no number below 4294967296", name, text);
    if (name == ".org") {
      if (blocks_.empty() || end_of(blocks_.back()) != value) blocks_.push_back({value, {}});
      return {};
    }
    if (name == ".byte" && value > 255) return fmt::format(".byte: {} is more than 255", value);
    const std::uint32_t bytes = name == ".zero" ? value : name == ".word" ? 4 : name == ".byte" ? 1 : 0;
    if (bytes == 0 && name != ".zero") return fmt::format("no directive is called '{}'", name);
    if (const std::string fault = room(bytes); !fault.empty()) return fault;
    if (name == ".zero")
      blocks_.back().bytes.resize(blocks_.back().bytes.size() + bytes, 0);
    else
      put(value, bytes);
    return {};
  }

  static std::uint64_t end_of(const Block& b) { return b.address + std::uint64_t{b.bytes.size()}; }
  // Takes room for `bytes`; what is wrong with that.
  std::string room(std::uint32_t bytes) {
    if (blocks_.empty()) return "there is no .org before the first statement";
    if (bytes > kMaxBytes - total_) return fmt::format("more than {} bytes in all", kMaxBytes);
    if (end_of(blocks_.back()) + bytes > std::uint64_t{UINT32_MAX} + 1) return "runs over the last address";
    total_ += bytes;
    return {};
  }
  void put(std::uint32_t value, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i)
      blocks_.back().bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }

  std::vector<Block> blocks_;
  std::uint64_t total_ = 0;
};

// Names come from the package: a line break in one would end the comment.
std::string with_comment(const std::string& statement, std::string comment) {
  if (comment.empty()) return statement + "\n";
  std::ranges::replace_if(comment, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return fmt::format("{:<42} ; {}\n", statement, comment);
}

}  // namespace

std::string assembly_text(const Tile& tile) {
  std::string text =
      fmt::format("; tile {}, entry {:#x}\n", tile.tile, tile.package->image.tiles[tile.tile].entry);
  for (const Section& section : tile_listing(tile)) {
    text += "\n" + with_comment(fmt::format(".org {:#x}", section.address), section.title);
    for (const Line& line : section.lines) text += with_comment("  " + line.text, line.note);
  }
  return text;
}

std::vector<Block> assemble(std::string_view text, const std::string& name) {
  Assembler assembler;
  std::string faults;
  std::size_t count = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string fault = assembler.line(text.substr(0, end));
    if (!fault.empty() && ++count <= kMaxFaults)
      faults += fmt::format("{}{}:{}: {}", faults.empty() ? "" : "\n", name, number, fault);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (count > kMaxFaults) faults += fmt::format("\nand {} more", count - kMaxFaults);
  if (count > 0) throw Error(ErrorKind::File, faults);
  return assembler.take();
}

}  // namespace tw::inspect
