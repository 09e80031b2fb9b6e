// Values of input and output bindings as the bytes that a call takes and gives.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "package/package.h"

namespace tw::sim {

// Row-major. The binding's dtype is "f16" or "f32" (others are weights'): else an InternalError.
std::vector<std::uint8_t> encode(const package::Binding& binding, std::span<const float> values);
std::vector<float> decode(const package::Binding& binding, std::span<const std::uint8_t> bytes);

// The bindings of one kind, in the order of a call's lists.
std::vector<const package::Binding*> bindings_of(const package::DeviceImage& image,
                                                 package::BindingKind kind);

}  // namespace tw::sim
