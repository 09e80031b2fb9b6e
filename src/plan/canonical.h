// Boundary layouts of activations (compiler.md 2.5) and compact homes of parameters (2.6).
#pragma once
#include "plan/build.h"
#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

// In which a value of this shape is held between operations: F16, but F32 where F16 rows would not be whole
// words (odd widths).
tensor::Precision boundary_precision(const tensor::Shape& shape);

// Row order, Standard, one replica, whole rows; of the boundary precision unless said otherwise. Rank 1:
// linear.
tensor::TensorType canonical_type(const tensor::Shape& shape, std::uint32_t tiles, Policy policy,
                                  tensor::Precision precision);
tensor::TensorType canonical_type(const tensor::Shape& shape, std::uint32_t tiles, Policy policy);

// Linear home of a vector or table that is read in Row order: 256-byte chunks. `copies` = Repeat count.
// Throws Error{Capacity} when the home cannot fit beside `reservation` bytes per tile.
tensor::TensorType vector_home(const Device& device, const tensor::Shape& shape, std::uint32_t tiles,
                               std::uint32_t copies, tensor::Precision precision);
// AmpLeftT home of a [K,N] matrix: rows then columns, t = row + rp * column.
tensor::TensorType matrix_home(const Device& device, const tensor::Shape& shape, tensor::Encoding encoding,
                               tensor::MemoryClass memory, std::uint32_t tiles, std::uint32_t copies);

// Sets the rotation of every parameter home so that their bytes spread over the tiles.
void rotate_homes(Plan& plan);

// Planned-data budget of a tile and its part that may hold interleaved data, bytes (compiler.md 0).
std::uint64_t data_budget(const Device& device);
std::uint64_t interleaved_budget(const Device& device);
inline constexpr std::uint64_t kSupportReservation = 49152;  // three 16 KiB elements

}  // namespace tw::plan
