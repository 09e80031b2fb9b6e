// Content hashes (XXH3) for package sections and random-tensor seeds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tw {

std::uint64_t xxh3_64(std::span<const std::uint8_t> bytes, std::uint64_t seed = 0);
std::uint64_t xxh3_64(std::string_view text, std::uint64_t seed = 0);

}  // namespace tw
