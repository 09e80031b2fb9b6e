#include "base/digest.h"

#include <xxhash.h>

namespace tw {

std::uint64_t xxh3_64(std::span<const std::uint8_t> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
std::uint64_t xxh3_64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace tw
