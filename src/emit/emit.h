// Program + addresses + encoded rows -> device image: shared rows with offset and value tables, Repeat
// patches, supervisor programs as real words, kernel headers, host batches (hardware.md 3.8, 3.9, 4, 5;
// decisions.md 16-19, 30, 32). Sizes are known before addresses: every emitted form has a fixed length.
#pragma once
#include <cstdint>
#include <vector>

#include "emit/rows.h"
#include "exchange/exchange.h"
#include "package/package.h"
#include "target/device.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::emit {

// Bytes of executable memory from device.code_base: runtime, helpers, kernel images, and the largest tile
// program with its host descriptors; independent of addresses and rows (row-setup calls counted at their
// maximum).
std::uint32_t code_bytes(const Device& device, const tile::Program& program);

// The row tables of all tiles for encoded phases (rows[i] belongs to program.phases[i]).
struct RowTables {
  std::vector<TileRows> tiles;  // per physical tile
  // Bytes per physical tile of everything of exchange that occupies SRAM (cli.md table_bytes_max): rows,
  // offset and value tables, Repeat tables and descriptors.
  std::vector<std::uint32_t> bytes;
  std::uint32_t max_bytes = 0;
  double mean_bytes = 0;
};
RowTables row_tables(const Device& device, const tile::Program& program,
                     const std::vector<exchange::Rows>& rows);

// When an exchange phase of a call is over, and the operation (Program::paths) that it belongs to.
struct PhaseEnd {
  std::uint32_t path = 0;
  double cycle = 0;
};

struct Image {
  package::DeviceImage image;  // number formats and shapes of the bindings are left for the caller
  std::vector<package::Symbol> symbols;
  double scheduled_cycles = 0;       // one call, host phases excluded
  std::vector<PhaseEnd> phase_ends;  // every executed exchange phase of one call, in order
};
// `code_bytes` and `row_bytes` are the reservations the addresses were made with; InternalError when they end
// beyond executable memory or a table exceeds its reservation.
Image assemble(const Device& device, const tile::Program& program, const tile::Addresses& addresses,
               const std::vector<exchange::Rows>& rows, const RowTables& tables, std::uint32_t code_bytes,
               std::uint32_t row_bytes);

// First address of the row table behind `code_bytes` of code: whole elements (hardware.md 1.4).
std::uint32_t row_base(const Device& device, std::uint32_t code_bytes);

}  // namespace tw::emit
