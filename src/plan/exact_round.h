// F16 rounding of single values for the exact interpreter's kernels.
#pragma once
#include <atomic>
#include <cmath>

#include "base/parallel.h"
#include "numeric/formats.h"

namespace tw::plan::exact {

// Rounds to F16 and remembers whether a result left its range.
class Rounder {
 public:
  float operator()(float x) {
    const float rounded = numeric::f16_to_f32(numeric::f32_to_f16(x));
    overflow_ |= std::isinf(rounded);
    return rounded;
  }
  bool overflow() const { return overflow_; }

 private:
  bool overflow_ = false;
};

// Calls fn(begin, end, rounder) on pieces of [0, n); true when nothing overflowed.
template <class Fn>
bool each_piece(std::size_t n, std::size_t grain, unsigned threads, Fn&& fn) {
  std::atomic<bool> good{true};
  parallel_for(n, grain, threads, [&](std::size_t begin, std::size_t end) {
    Rounder round;
    fn(begin, end, round);
    if (round.overflow()) good.store(false, std::memory_order_relaxed);
  });
  return good.load();
}

}  // namespace tw::plan::exact
