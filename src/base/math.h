// Integer helpers used everywhere: cd = ceiling division, up = round up to a multiple (compiler.md notation).
#pragma once
#include <concepts>
#include <cstdint>

namespace tw {

template <std::integral T, std::integral U>
constexpr auto cd(T a, U b) {
  return (a + b - 1) / b;
}
template <std::integral T, std::integral U>
constexpr auto up(T a, U b) {
  return cd(a, b) * b;
}

}  // namespace tw
