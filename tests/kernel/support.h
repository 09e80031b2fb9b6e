// An SRAM image to run one kernel in, and the checks that hold for every kernel: the whole image against a
// reference, bytes outside the declared reads without influence, declared reads all consumed.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernel/kernel.h"
#include "numeric/formats.h"

namespace tw::kernel::test {

inline constexpr std::uint32_t kBase = 0x4C000, kEnd = 0xE8000;

struct Image {
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kEnd - kBase);
  template <class T>
  T get(std::uint64_t address) const {
    T value;
    std::memcpy(&value, &bytes.at(address - kBase), sizeof value);
    return value;
  }
  template <class T>
  void put(std::uint64_t address, T value) {
    std::memcpy(&bytes.at(address - kBase), &value, sizeof value);
  }
  float half(std::uint64_t address, std::uint64_t i = 0) const {
    return numeric::f16_to_f32(get<std::uint16_t>(address + 2 * i));
  }
  void put_half(std::uint64_t address, std::uint64_t i, double value) {
    put(address + 2 * i, numeric::f64_to_f16(value));
  }
  float single(std::uint64_t address, std::uint64_t i = 0) const { return get<float>(address + 4 * i); }
};

// Rounds to F16 and back.
inline float to16(double x) { return numeric::f16_to_f32(numeric::f64_to_f16(x)); }

struct Scene {
  Image image;
  std::mt19937 rng;
  std::uint32_t next = kBase;

  explicit Scene(unsigned seed) : rng(seed) {
    for (auto& byte : image.bytes) byte = static_cast<std::uint8_t>(rng());
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(rng() % n); }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  double normal(double deviation) { return std::normal_distribution<double>(0, deviation)(rng); }

  std::uint32_t place(std::uint64_t bytes, std::uint32_t alignment = 8) {
    next = (next + alignment - 1) / alignment * alignment + alignment * below(5);
    const std::uint32_t address = next;
    next += static_cast<std::uint32_t>(bytes);
    EXPECT_LE(next, kEnd);
    return address;
  }
  std::uint32_t halves(std::uint64_t n, double deviation, std::uint32_t alignment = 8) {
    const std::uint32_t address = place(n * 2, alignment);
    for (std::uint64_t i = 0; i < n; ++i) image.put_half(address, i, normal(deviation));
    return address;
  }
  std::uint32_t codes(std::uint64_t n, std::uint32_t alignment = 8) {  // every F143 code but NaN
    const std::uint32_t address = place(n, alignment);
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto code = static_cast<std::uint8_t>(below(256));
      image.put<std::uint8_t>(address + i, code == 0x80 ? 0 : code);
    }
    return address;
  }
  std::uint32_t singles(std::uint64_t n, double deviation) {
    const std::uint32_t address = place(n * 4);
    for (std::uint64_t i = 0; i < n; ++i) image.put(address + 4 * i, static_cast<float>(normal(deviation)));
    return address;
  }
};

struct Invocation {
  Code code;
  std::vector<std::uint32_t> m, spec;
  std::vector<std::uint32_t> unit = {};  // element bytes per argument, 0: not sampled for consumption

  Call call() const {
    Call c;
    std::ranges::copy(m, c.m.begin());
    c.spec = spec;
    return c;
  }
};

inline Effects run(Image& image, const Invocation& v) {
  Effects effects;
  find(v.code)->run(image.bytes.data(), kBase, v.call(), effects);
  return effects;
}

inline std::vector<bool> touched(const std::vector<Access>& accesses, bool write) {
  std::vector<bool> map(kEnd - kBase);
  for (const Access& a : accesses)
    if (a.write == write)
      for (std::uint32_t r = 0; r < a.rows; ++r)
        for (std::uint32_t i = 0; i < a.row_bytes; ++i) map.at(a.address + r * a.stride + i - kBase) = true;
  return map;
}

inline void expect_same(const Image& expected, const Image& actual, const char* what) {
  const auto [e, a] = std::ranges::mismatch(expected.bytes, actual.bytes);
  if (e == expected.bytes.end()) return;
  const std::ptrdiff_t at = e - expected.bytes.begin();
  ADD_FAILURE() << what << ": first difference at " << std::hex << kBase + at << ": expected " << int(*e)
                << " got " << int(*a);
}

// Bytes outside the declared reads are changed: nothing but the declared writes may change, to the same
// bytes.
inline void expect_accesses_cover(const Scene& scene, const Invocation& v, const Image& after) {
  const auto accesses = find(v.code)->accesses(v.call());
  const std::vector<bool> reads = touched(accesses, false), writes = touched(accesses, true);
  std::mt19937 rng(7);
  Image poisoned = scene.image;
  for (std::size_t i = 0; i < reads.size(); ++i)
    if (!reads[i]) poisoned.bytes[i] = static_cast<std::uint8_t>(poisoned.bytes[i] + 1 + rng() % 255);
  Image expected = poisoned;
  for (std::size_t i = 0; i < writes.size(); ++i)
    if (writes[i]) expected.bytes[i] = after.bytes[i];
  run(poisoned, v);
  expect_same(expected, poisoned, "with bytes outside the declared reads changed");
}

// A NaN in a declared input element must reach the output.
inline void expect_reads_consumed(Scene& scene, const Invocation& v, const Image& after, int samples) {
  const auto accesses = find(v.code)->accesses(v.call());
  for (int s = 0; s < samples; ++s) {
    const Access& a = accesses[scene.below(static_cast<std::uint32_t>(accesses.size()))];
    const std::uint32_t unit = a.argument < v.unit.size() ? v.unit[a.argument] : 0;
    if (a.write || unit == 0) continue;
    const std::uint32_t address =
        a.address + scene.below(a.rows) * a.stride + scene.below(a.row_bytes / unit) * unit;
    Image changed = scene.image;
    if (unit == 1) changed.put<std::uint8_t>(address, changed.get<std::uint8_t>(address) == 0x80 ? 1 : 0x80);
    if (unit == 2) changed.put<std::uint16_t>(address, 0x7E37);
    if (unit == 4) changed.put<std::uint32_t>(address, 0x7FC01234);
    run(changed, v);
    bool differs = false;
    for (const Access& w : accesses)
      for (std::uint32_t r = 0; w.write && r < w.rows; ++r)
        differs |= std::memcmp(&changed.bytes[w.address + r * w.stride - kBase],
                               &after.bytes[w.address + r * w.stride - kBase], w.row_bytes) != 0;
    EXPECT_TRUE(differs) << "argument " << int(a.argument) << " at " << std::hex << address
                         << " is not consumed";
  }
}

// Runs the call on the scene; `reference` turns a copy of the image into the expected one.
inline Effects verify(Scene& scene, const Invocation& v, const std::function<void(Image&)>& reference) {
  const Kernel* kernel = find(v.code);
  EXPECT_EQ(kernel->validate(v.call()), "");
  EXPECT_EQ(kernel->arguments, v.m.size());
  Image expected = scene.image, after = scene.image;
  reference(expected);
  const Effects effects = run(after, v);
  expect_same(expected, after, kernel->name);
  expect_accesses_cover(scene, v, after);
  expect_reads_consumed(scene, v, after, 8);
  return effects;
}

// The call with argument i replaced is refused with a text that contains `text`.
inline void expect_refused(Invocation v, std::size_t i, std::uint32_t value, const char* text) {
  v.m[i] = value;
  EXPECT_THAT(find(v.code)->validate(v.call()), ::testing::HasSubstr(text));
}

}  // namespace tw::kernel::test
