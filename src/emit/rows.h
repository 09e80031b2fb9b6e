// The row table of each tile: stored rows, sharing between phases, Repeat patches (hardware.md 3.9,
// compiler.md 9, decisions.md 30). Layout per tile, from the table's base: the one-word row of inactive
// phases, then per stored row (8-byte aligned) its words, its offset and value tables, its Repeat tables and
// descriptors.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/exchange.h"
#include "target/device.h"
#include "tile/program.h"

namespace tw::emit {

// What one phase does on one tile before its row runs. Offsets in bytes from the row table's base.
struct RowUse {
  bool active = false;
  std::uint32_t row = 0;
  std::uint32_t patch_offsets = 0, patch_values = 0, patch_count = 0;  // count 0: no setup patch
  std::uint32_t table_list = 0, table_count = 0;                       // Repeat patches from tables
  std::uint32_t step_list = 0, step_count = 0;                         // Repeat patches by arithmetic
  // Bytes that every send of the row moves per iteration: OUTGOING_BASE = iteration * base_stride instead of
  // patches (hardware.md 3.9). 0: the base is 0.
  std::uint32_t base_stride = 0;
};

struct TileRows {
  std::vector<std::uint8_t>
      bytes;  // image of the table, base-relative; absolute words are relocated by `fixups`
  std::vector<std::uint32_t>
      fixups;                // byte offsets of words that hold a table-relative address: add the base
  std::vector<RowUse> uses;  // one per phase
};

// Equal rows share storage; rows of one shape do where row and patch tables are smaller than the rows.
// rows[p] are the encoded rows of program phase p; `iterations[p]` its Repeat count. One entry per physical
// tile.
std::vector<TileRows> build_rows(const Device& device, const std::vector<exchange::Rows>& rows,
                                 const std::vector<std::uint32_t>& iterations);

}  // namespace tw::emit
