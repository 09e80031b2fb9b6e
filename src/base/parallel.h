// Deterministic parallel loop: fn(i) for i in [0, n), results written by index, so nothing depends on timing.
#pragma once
#include <cstddef>
#include <functional>

namespace tw {

// Number of threads used when a caller passes 0: TILEWRIGHT_THREADS or the hardware's.
unsigned default_threads();

// Calls fn(begin, end) on disjoint ranges covering [0, n), each at most `grain` long. threads == 0: default.
// Nested calls run on the calling thread. The exception of the lowest failing range is rethrown.
void parallel_for(std::size_t n, std::size_t grain, unsigned threads,
                  const std::function<void(std::size_t begin, std::size_t end)>& fn);

}  // namespace tw
