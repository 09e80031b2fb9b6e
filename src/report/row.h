// The exchange row of one tile, as the report shows it.
#pragma once
#include <cstdint>

#include "report/report.h"
#include "report/tile_memory.h"

namespace tw::report {

// The row at `address` as it stands in memory, read by exchange/reading.h. Tensors of its windows are not
// named.
Row read_row(const TileMemory& memory, std::uint32_t address, std::uint32_t tile);

// Names the tensors that the windows write to: those of `buffers` (ascending by address) that live at `step`.
void name_tensors(Row& row, const std::vector<Buffer>& buffers, std::uint32_t step);

}  // namespace tw::report
