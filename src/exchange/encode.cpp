#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "exchange/row.h"

namespace tw::exchange {

Rows encode(const Device& device, const Schedule& schedule) {
  const std::vector<TileWork> work = work_by_tile(device, schedule);
  Rows out;
  out.rows.resize(work.size());
  parallel_for(work.size(), 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      TW_CHECK(build_row(work[i], out.rows[i]), "a sendpicp of the schedule cannot be aligned");
    }
  });
  for (const Row& row : out.rows) out.horizon = std::max(out.horizon, row.horizon);
  return out;
}

}  // namespace tw::exchange
