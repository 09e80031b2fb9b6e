#include "sim/bindings.h"

#include <cstring>

#include "base/error.h"
#include "numeric/formats.h"

namespace tw::sim {
namespace {

bool is_single(const package::Binding& binding) {
  TW_CHECK(binding.dtype == "f16" || binding.dtype == "f32", "no values of " + binding.dtype);
  return binding.dtype == "f32";
}

}  // namespace

std::vector<std::uint8_t> encode(const package::Binding& binding, std::span<const float> values) {
  if (is_single(binding)) {
    std::vector<std::uint8_t> bytes(4 * values.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  std::vector<std::uint8_t> bytes(2 * half.size());
  std::memcpy(bytes.data(), half.data(), bytes.size());
  return bytes;
}

std::vector<float> decode(const package::Binding& binding, std::span<const std::uint8_t> bytes) {
  const bool single = is_single(binding);
  std::vector<float> values(bytes.size() / (single ? 4 : 2));
  if (single) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> half(values.size());
  std::memcpy(half.data(), bytes.data(), bytes.size());
  numeric::f16_to_f32(half, values);
  return values;
}

std::vector<const package::Binding*> bindings_of(const package::DeviceImage& image,
                                                 package::BindingKind kind) {
  std::vector<const package::Binding*> list;
  for (const package::Binding& b : image.bindings)
    if (b.kind == kind) list.push_back(&b);
  return list;
}

}  // namespace tw::sim
