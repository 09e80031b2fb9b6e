// The assembly text of a tile and back. One statement a line, `;` begins a comment:
//   .org ADDRESS         where what follows stands
//   .word N, .byte N     a word (little-endian) or byte of data
//   .zero BYTES          that many zero bytes
//   MNEMONIC OPERANDS    an instruction in the form of isa::disassemble()
// Numbers are decimal or 0x...
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/tile.h"

namespace tw::inspect {

// Every byte that the package puts on the tile.
std::string assembly_text(const Tile& tile);

struct Block {
  std::uint32_t address = 0;
  std::vector<std::uint8_t> bytes;
  bool operator==(const Block&) const = default;
};
// One block for each .org that is followed by bytes and does not continue the block before. Error{File} lists
// every bad line as NAME:LINE: what is wrong, at most 20.
std::vector<Block> assemble(std::string_view text, const std::string& name);

}  // namespace tw::inspect
