// Construction of one tile's row from its timed sends and receives (hardware.md 3.6). Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/exchange.h"

namespace tw::exchange {

struct SendSpan {
  std::uint32_t start = 0, words = 0;
  std::uint32_t address = 0, stride = 0;  // bytes
  std::uint32_t control = 0;
};

struct ReceiveSpan {
  std::uint32_t select = 0, words = 0;  // mux window [select, select + words)
  std::uint32_t address = 0;            // bytes
  PhysId source;
};

struct TileWork {
  PhysId tile;
  std::vector<SendSpan> sends;
  std::vector<ReceiveSpan> receives;
};

// Work of every active tile, ascending by tile; spans ascending in time; no span longer than a message may
// be.
std::vector<TileWork> work_by_tile(const Device& device, const Schedule& schedule);

struct RowControl {
  std::uint32_t cycle = 0;
  std::uint32_t value = 0;  // mux source, or word address
  bool pic = false;         // pointer; else mux
};

// Mux and pointer controls of the streams in their final order (R2, R3, decision 28), ascending by cycle; of
// two on one cycle the mux control comes first. Overlapping windows are an InternalError.
std::vector<RowControl> controls_of(const TileWork& work);

// Row from sends and controls ascending in time (on one cycle: mux, then pointer) that lasts `horizon`
// events. False when no padding can put some sendpicp on an 8-byte boundary (C2). Broken rules S1, S2, R1 and
// C1 are InternalErrors.
bool write_row(const std::vector<SendSpan>& sends, const std::vector<RowControl>& controls,
               std::uint32_t horizon, Row& row);

// The same with the controls that rules R2 and R3 leave of the receives.
bool build_row(const TileWork& work, Row& row);

// False where build_row would be; cheap when the tile has no two controls on one cycle.
bool alignable(const TileWork& work);

}  // namespace tw::exchange
