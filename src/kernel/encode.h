// F16 -> F143 with one scale, for the casts and for the kernels that write FP8 panels.
#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

namespace tw::kernel {

inline constexpr std::uint64_t kPanel8 = 32;  // columns of an FP8 AL panel

// The code of every half, and which finite halves clip.
struct Encoder {
  std::array<std::uint8_t, 65536> code;
  std::bitset<65536> clips;
  explicit Encoder(int scale);
  // Returns the number of clips.
  std::uint64_t encode(const std::uint8_t* halves, std::uint8_t* out, std::size_t n) const;
};
const Encoder& encoder(std::uint32_t scale_word);  // made at first use of a scale

// Row `row` of AL(rows, padded) at `out` from `columns` halves; zeros behind them. Returns the clips.
std::uint64_t encode_left_row(const Encoder& encoder, const std::uint8_t* halves, std::size_t columns,
                              std::uint8_t* out, std::size_t row, std::size_t rows, std::size_t padded);

}  // namespace tw::kernel
