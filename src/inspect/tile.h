// One tile of a package as its program uses it: words, symbols, and for every exchange phase the row with its
// patch tables. Read from the words alone, in program order, without a run; addresses in bytes.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "package/package.h"

namespace tw::inspect {

// Memory of a tile as loaded. The package outlives it.
class Memory {
 public:
  Memory(const package::DeviceImage& image, std::uint32_t tile) : image_(&image), tile_(tile) {}
  const std::vector<package::Segment>& segments() const { return image_->tiles[tile_].segments; }
  const std::vector<std::uint8_t>& bytes_of(const package::Segment& s) const { return image_->blobs[s.blob]; }
  // The word at `address`; nothing where the package holds no four bytes.
  std::optional<std::uint32_t> word(std::uint32_t address) const;

 private:
  const package::DeviceImage* image_;
  std::uint32_t tile_;
};

// Words that are written into the row before it runs (hardware.md 3.9), as the program passes them.
struct SetupPatch {
  std::uint32_t row = 0, offsets = 0, values = 0, count = 0;  // tables of `count` words
};
struct RepeatPatch {
  std::uint32_t list = 0, count = 0;  // descriptors
};

struct Phase {                      // one exchange phase of the program, a Repeat body once
  std::uint32_t call = 0, row = 0;  // address of the call and of the row
  std::uint32_t iterations = 1;     // of the enclosing Repeat, as the patch helpers get it
  SetupPatch setup;                 // count 0: none
  RepeatPatch table, steps;         // replacement from a table; by adding a step
  std::uint32_t base_stride = 0;    // bytes that OUTGOING_BASE moves with each iteration
  std::uint32_t step = 0;           // step of the program, 0: the side section does not say
  std::string operation;
};

struct HostCall {
  std::uint32_t call = 0, descriptor = 0;  // addresses; a descriptor has four words
};

struct Tile {
  const package::Package* package = nullptr;
  std::uint32_t tile = 0;  // physical
  Memory memory;
  std::map<std::uint32_t, std::string> symbols;  // by address
  std::vector<package::TensorPlace> tensors;     // of this tile
  std::uint32_t program = 0, program_end = 0;    // generated instructions
  std::vector<Phase> phases;
  std::vector<HostCall> host_calls;
};

// Error{Usage} for a tile that the package does not have, Error{File} for a side section without the symbols
// "program" and "rows". The package outlives the result.
Tile read_tile(const package::Package& package, std::uint32_t tile);

// Error{Usage} when the program has no such phase.
const Phase& phase_of(const Tile& tile, std::uint32_t phase);

struct RowWord {
  std::uint32_t address = 0, stored = 0;
  std::uint32_t value = 0;  // when the row runs, in iteration 0
};
// Words of a row up to its return, or to the first word that is no instruction, patched for `phase`.
std::vector<RowWord> row_words(const Tile& tile, const Phase& phase);

// The tensor that holds `address` of the tile in some step first..last, as "name" or "name+offset"; empty:
// none, or several.
std::string tensor_at(const Tile& tile, std::uint32_t address, std::uint32_t first, std::uint32_t last);

}  // namespace tw::inspect
