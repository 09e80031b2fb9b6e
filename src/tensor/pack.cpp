// Host side of a shard: logical row-major floats to encoded bytes and back.
#include <cstring>

#include "base/error.h"
#include "numeric/formats.h"
#include "tensor/order.h"
#include "tensor/traverse.h"

namespace tw::tensor {
namespace {

void encode(const Encoding& e, float value, std::uint8_t* at) {
  switch (e.precision) {
    case Precision::F8:
      *at = numeric::f32_to_f143(value, e.scale);
      return;
    case Precision::F16: {
      const std::uint16_t bits = numeric::f32_to_f16(value);
      std::memcpy(at, &bits, 2);
      return;
    }
    case Precision::F32:
      std::memcpy(at, &value, 4);
      return;
  }
}

float decode(const Encoding& e, const std::uint8_t* at) {
  switch (e.precision) {
    case Precision::F8:
      return numeric::f143_to_f32(*at, e.scale);
    case Precision::F16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, 2);
      return numeric::f16_to_f32(bits);
    }
    case Precision::F32:
      break;
  }
  float value = 0;
  std::memcpy(&value, at, 4);
  return value;
}

// Calls fn(byte offset in the shard, row-major index) for every logical element.
template <class Fn>
void for_each_element(const ResolvedLayout& layout, std::uint32_t owner, Fn&& fn) {
  const Box box = box_of(layout, owner);
  const std::uint32_t eb = bytes_of(layout.type().encoding.precision);
  const std::uint32_t axis = box.linear ? box.rank - 1 : box.direction();
  std::uint64_t step = 1;
  for (std::uint32_t i = axis + 1; i < box.rank; ++i) step *= box.shape[i];
  for_each_granule(box, [&](std::uint64_t storage, const Coord& first, std::uint32_t logical) {
    std::uint64_t flat = 0;
    for (std::uint32_t i = 0; i < box.rank; ++i) flat = flat * box.shape[i] + first[i];
    for (std::uint32_t i = 0; i < logical; ++i) fn((storage + i) * eb, flat + i * step);
  });
}

}  // namespace

std::vector<std::uint8_t> pack_shard(const ResolvedLayout& layout, std::uint32_t owner,
                                     std::span<const float> logical) {
  const Encoding& encoding = layout.type().encoding;
  TW_CHECK(logical.size() == elements(layout.type().shape), "pack_shard: one float per element");
  std::vector<std::uint8_t> bytes(layout.shard_bytes(owner), 0);
  for_each_element(layout, owner, [&](std::uint64_t at, std::uint64_t flat) {
    encode(encoding, logical[flat], bytes.data() + at);
  });
  return bytes;
}

void unpack_shard(const ResolvedLayout& layout, std::uint32_t owner, std::span<const std::uint8_t> bytes,
                  std::span<float> logical) {
  const Encoding& encoding = layout.type().encoding;
  TW_CHECK(logical.size() == elements(layout.type().shape), "unpack_shard: one float per element");
  TW_CHECK(bytes.size() >= layout.shard_bytes(owner), "unpack_shard: the whole shard");
  for_each_element(layout, owner, [&](std::uint64_t at, std::uint64_t flat) {
    logical[flat] = decode(encoding, bytes.data() + at);
  });
}

}  // namespace tw::tensor
