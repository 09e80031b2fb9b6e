// Tables of two-dimensional rotary positions (models.md B.2): constants of a model, in no checkpoint.
#pragma once
#include <cstdint>
#include <vector>

namespace tw::model {

struct RopeTables {  // row-major [tokens, width]: cosine and sine of the angle of each channel
  std::vector<float> cosine, sine;
};
// A class token, whose angles are zero, then side x side patches by rows. The channels of the first half turn
// by the column, those of the second by the row, both counted from one; pairs (2i, 2i+1) share an angle.
// `width`: channels of a head, a multiple of 4.
RopeTables rope_tables(std::uint32_t side, std::uint32_t width);

}  // namespace tw::model
