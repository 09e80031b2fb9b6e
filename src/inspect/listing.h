// The words of a tile as lines: instructions, and data words where nothing is executed. What `inspect`
// prints, its JSON and the assembly text are made from these lines.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "inspect/tile.h"

namespace tw::inspect {

struct Line {
  std::uint32_t address = 0, bytes = 4;  // sendpicp: 8; .zero: more
  std::string text;                      // a statement of the assembly text (assembly.h)
  std::string note;                      // what it is about: a symbol, a phase, a tensor
};
struct Section {
  std::uint32_t address = 0;
  std::string title;
  std::vector<Line> lines;
};

// The generated program of the tile, with the phase at each row call and the transfer at each host call.
Section program_listing(const Tile& tile);

struct RowLine {
  Line line;  // as it is when the row runs, in iteration 0
  std::vector<std::uint32_t> words;
  std::uint32_t event = 0;  // local cycle of its first event
  bool patched = false;     // written before the row runs
};
std::vector<RowLine> row_listing(const Tile& tile, const Phase& phase);

// All bytes of all segments of the tile in ascending order, each once.
std::vector<Section> tile_listing(const Tile& tile);

}  // namespace tw::inspect
