#include "numeric/balance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "numeric/formats.h"

namespace tw::numeric {
namespace {

struct Candidate {
  double cost = 0;     // of going the other way: spacing - 2 |error|
  double spacing = 0;  // between the two neighbours
  std::uint32_t row = 0;
  float other = 0;
};

// The representable value on the other side of x than its nearest one, `code`; nothing beyond the largest.
float other_neighbour(float x, std::uint8_t code, float nearest, int scale) {
  const bool down = nearest > x;
  const std::uint8_t magnitude = code & 0x7F;
  if (magnitude == 0) return f143_to_f32(down ? 0x81 : 0x01, scale);
  const bool shrink = down == (code < 0x80);
  if (!shrink && magnitude == 0x7F) return nearest;
  const auto next = static_cast<std::uint8_t>(shrink ? magnitude - 1 : magnitude + 1);
  return f143_to_f32(next == 0 ? 0 : static_cast<std::uint8_t>((code & 0x80) | next), scale);
}

// Space of one column, kept between columns.
struct Column {
  std::vector<std::uint8_t> codes;
  std::vector<Candidate> candidates;
};

// One column of `rows` weights with distance `stride`.
void round_column(float* column, std::uint32_t rows, std::size_t stride, int scale, Column& space) {
  space.codes.resize(rows);
  double sum = 0;
  bool plain = false;
  for (std::uint32_t r = 0; r < rows; ++r) {
    const float x = column[r * stride];
    space.codes[r] = f32_to_f143(x, scale);
    plain = plain || !std::isfinite(x) || f143_clips(x, scale);
    sum += double(f143_to_f32(space.codes[r], scale)) - double(x);
  }
  space.candidates.clear();
  for (std::uint32_t r = 0; r < rows; ++r) {
    const float x = column[r * stride], nearest = f143_to_f32(space.codes[r], scale);
    column[r * stride] = nearest;
    const double error = double(nearest) - double(x);
    if (plain || error == 0 || (error > 0) != (sum > 0)) continue;
    const float other = other_neighbour(x, space.codes[r], nearest, scale);
    const double spacing = std::abs(double(other) - double(nearest));
    if (spacing > 0) space.candidates.push_back({spacing - 2 * std::abs(error), spacing, r, other});
  }
  const auto dearer = [](const Candidate& a, const Candidate& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.row > b.row;
  };
  std::ranges::make_heap(space.candidates, dearer);
  while (!space.candidates.empty()) {
    std::ranges::pop_heap(space.candidates, dearer);
    const Candidate c = space.candidates.back();
    space.candidates.pop_back();
    if (std::abs(sum) <= c.spacing / 2) break;
    sum += sum > 0 ? -c.spacing : c.spacing;
    column[c.row * stride] = c.other;
  }
}

}  // namespace

void round_balanced(std::span<float> weights, std::uint32_t rows, std::uint32_t cols, int scale,
                    unsigned threads) {
  TW_CHECK(weights.size() == std::size_t{rows} * cols, "round_balanced: rows x cols weights");
  parallel_for(cols, 16, threads, [&](std::size_t begin, std::size_t end) {
    Column space;
    for (std::size_t c = begin; c < end; ++c) round_column(weights.data() + c, rows, cols, scale, space);
  });
}

}  // namespace tw::numeric
