// Program + addresses + encoded rows -> device image: shared rows with offset and value tables, Repeat patches,
// supervisor programs as real words, kernel headers, host batches (hardware.md 3.8, 3.9, 4, 5; decisions.md
// 16-19, 30, 32). Sizes are known before addresses: every emitted form has a fixed length.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/exchange.h"
#include "package/package.h"
#include "target/device.h"
#include "tile/problems.h"
#include "tile/program.h"

namespace tw::emit {

// Bytes of executable memory per tile class: runtime, helpers, kernel images, and the largest tile program with
// its read-only descriptors; independent of addresses and rows (row-setup calls counted at their maximum).
std::uint32_t code_bytes(const Device& device, const tile::Program& program);

struct TableSizes {           // bytes per physical tile, index = PhysId
  std::vector<std::uint32_t> rows;    // stored rows, offset and value tables, Repeat tables: what must be reserved
  std::vector<std::uint32_t> table;   // everything of exchange that occupies SRAM (cli.md table_bytes_max)
};
// Row-table sizes once the phases are encoded (rows[i] belongs to program.phases[i]).
TableSizes table_sizes(const Device& device, const tile::Program& program, const std::vector<exchange::Rows>& rows);

struct Image {
  package::DeviceImage image;
  TableSizes sizes;
  std::vector<package::Symbol> symbols;
  double scheduled_cycles = 0;  // placed and scheduled phases composed as compiler.md 5.6, host phases excluded
};
Image assemble(const Device& device, const tile::Program& program, const tile::Addresses& addresses,
               const std::vector<exchange::Rows>& rows, std::uint32_t code_bytes, std::uint32_t row_bytes);

}  // namespace tw::emit
