// Cycles of a placed and scheduled program (compiler.md 5.6, decisions.md 11-13): per tile timelines between
// barriers, host phases excluded. The same rules as the simulator's, from the program instead of its words.
#pragma once
#include <vector>

#include "emit/control.h"
#include "emit/emit.h"
#include "exchange/exchange.h"

namespace tw::emit {

struct ScheduledCycles {
  double total = 0;
  std::vector<PhaseEnd> phases;  // every executed exchange phase, in order
};
ScheduledCycles scheduled_cycles(const ControlContext& context, const std::vector<TileWork>& work,
                                 const std::vector<exchange::Rows>& rows);

}  // namespace tw::emit
