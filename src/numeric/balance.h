// Rounding of a weight matrix to F143 so that the errors of every column cancel (docs/numerics.md).
#pragma once
#include <cstdint>
#include <span>

namespace tw::numeric {

// Replaces `weights`, row-major [rows, cols], by values that F143 with `scale` holds exactly. Every weight
// becomes one of its two neighbours: the nearest (ties to even), except that in each column the few weights
// that lie closest to the middle of their neighbours go the other way until the column's summed error is
// below half a spacing. A product's inputs have a common mean (GELU's is positive), which the sum of the
// errors multiplies. Columns with NaN or saturating values keep plain nearest rounding. Columns are
// independent.
void round_balanced(std::span<float> weights, std::uint32_t rows, std::uint32_t cols, int scale,
                    unsigned threads);

}  // namespace tw::numeric
