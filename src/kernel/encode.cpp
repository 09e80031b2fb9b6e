#include "kernel/encode.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "kernel/internal.h"
#include "numeric/formats.h"

namespace tw::kernel {

Encoder::Encoder(int scale) {
  for (std::uint32_t x = 0; x < 65536; ++x) {
    const float value = numeric::f16_to_f32(static_cast<std::uint16_t>(x));
    code[x] = numeric::f32_to_f143(value, scale);
    clips[x] = numeric::f16_is_finite(static_cast<std::uint16_t>(x)) && numeric::f143_clips(value, scale);
  }
}

std::uint64_t Encoder::encode(const std::uint8_t* halves, std::uint8_t* out, std::size_t n) const {
  std::uint64_t clipped = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = load<std::uint16_t>(halves + 2 * i);
    out[i] = code[x];
    clipped += clips[x] ? 1 : 0;
  }
  return clipped;
}

const Encoder& encoder(std::uint32_t scale_word) {
  static std::array<std::unique_ptr<Encoder>, 64> encoders;
  static std::array<std::once_flag, 64> made;
  const std::uint32_t index = scale_word & 0x3F;
  std::call_once(made[index], [&] { encoders[index] = std::make_unique<Encoder>(signed_scale(index)); });
  return *encoders[index];
}

std::uint64_t encode_left_row(const Encoder& encoder, const std::uint8_t* halves, std::size_t columns,
                              std::uint8_t* out, std::size_t row, std::size_t rows, std::size_t padded) {
  std::uint64_t clipped = 0;
  for (std::size_t c = 0; c < padded; c += kPanel8) {
    const std::size_t valid = c < columns ? std::min<std::size_t>(kPanel8, columns - c) : 0;
    std::uint8_t* to = out + left_index(row, c, rows, kPanel8);
    clipped += encoder.encode(halves + 2 * c, to, valid);
    std::memset(to + valid, 0, kPanel8 - valid);
  }
  return clipped;
}

}  // namespace tw::kernel
