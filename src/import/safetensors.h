// The safetensors format (models.md D.1): a checked header, and values as FP32, a tensor or some rows at a
// time. Nothing but the header is kept in memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tw::import {

enum class Dtype : std::uint8_t {
  Bool,
  U8,
  I8,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  I64,
  U64,
  F64,
  F8E4M3,  // OCP E4M3FN: bias 7, no infinities, NaN 0x7f and 0xff; not the device's F143
  F8E5M2   // OCP E5M2: the upper byte of a binary16
};
const char* name_of(Dtype dtype);  // the spelling of the file, e.g. "F8_E4M3"
std::uint64_t bytes_of(Dtype dtype);
bool is_floating(Dtype dtype);

struct Size {
  std::uint64_t elements = 0, bytes = 0;
};
// Of a tensor's values. Returns why there is none, or empty: products are held against 64 bits.
std::string size_problem(const std::vector<std::uint64_t>& shape, Dtype dtype, Size& size);

struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::uint64_t> shape;  // row-major; empty: a scalar
  std::uint64_t elements = 0;
  std::uint64_t offset = 0;  // of the first byte, in the file
};
struct Safetensors {
  std::filesystem::path file;
  std::vector<StoredTensor> tensors;  // in the header's order
};

// Error{File} when a rule of the format is broken; broken rules of tensors are listed together.
Safetensors read_safetensors(const std::filesystem::path& file);
// Elements [first, first + count) as FP32; F64 rounds to nearest. Integer types are an InternalError.
// Error{File} when the file cannot be read any more.
std::vector<float> read_values(const std::filesystem::path& file, const StoredTensor& tensor,
                               std::uint64_t first, std::uint64_t count);

}  // namespace tw::import
