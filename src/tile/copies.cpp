// Choice of copy kernels for runs that stay on their tile (compiler.md 5.3).
#include "tile/lowering.h"

namespace tw::tile {
namespace {

constexpr std::uint32_t kWideBytes = 48;   // contiguous 64-bit copies from here on
constexpr std::uint32_t kFewRows = 6;      // fewer rows than workers and ...
constexpr std::uint32_t kManyBytes = 512;  // ... more bytes than this: contiguous calls are faster
constexpr std::uint32_t kMaxScalar = 1U << 20;

void contiguous(Lowering& lowering, const LocalRun& r) {
  if ((r.dst_offset | r.src_offset | r.bytes) % 8 == 0 && r.bytes >= kWideBytes) {
    const std::uint32_t words = r.bytes / 8;
    const Arg args[] = {at(r.dst, r.dst_offset), at(r.src, r.src_offset), scalar(words / 6),
                        scalar(words % 6)};
    lowering.call(r.tile, kernel::Code::CopyU64, {}, args);
    return;
  }
  const Arg args[] = {at(r.dst, r.dst_offset), at(r.src, r.src_offset), scalar(r.bytes / 4)};
  lowering.call(r.tile, kernel::Code::CopyU32, {}, args);
}

// Number of leading runs with equal lengths at constant strides; the strides.
struct Strided {
  std::size_t rows = 1;
  std::uint32_t src_stride = 0, dst_stride = 0;
};
Strided strided_prefix(std::span<const LocalRun> runs) {
  Strided s;
  if (runs.size() < 2 || runs[1].src_offset <= runs[0].src_offset || runs[1].dst_offset <= runs[0].dst_offset)
    return s;
  s.src_stride = runs[1].src_offset - runs[0].src_offset;
  s.dst_stride = runs[1].dst_offset - runs[0].dst_offset;
  if (s.src_stride >= kMaxScalar || s.dst_stride >= kMaxScalar) return s;
  while (s.rows < runs.size()) {
    const LocalRun &a = runs[s.rows - 1], &b = runs[s.rows];
    if (a.src != b.src || a.bytes != b.bytes || b.src_offset != a.src_offset + s.src_stride ||
        b.dst_offset != a.dst_offset + s.dst_stride)
      break;
    ++s.rows;
  }
  return s;
}

}  // namespace

void copy_calls(Lowering& lowering, std::span<const LocalRun> runs) {
  while (!runs.empty()) {
    const Strided s = strided_prefix(runs);
    const LocalRun& r = runs.front();
    const bool wide = (r.dst_offset | r.src_offset | r.bytes | s.src_stride | s.dst_stride) % 8 == 0;
    const bool split = wide && s.rows < kFewRows && s.rows * r.bytes > kManyBytes;
    if (s.rows == 1 || split) {
      for (std::size_t i = 0; i < s.rows; ++i) contiguous(lowering, runs[i]);
    } else {
      const Arg args[] = {at(r.dst, r.dst_offset),
                          at(r.src, r.src_offset),
                          scalar(r.bytes / (wide ? 8 : 4)),
                          scalar(static_cast<std::uint32_t>(s.rows)),
                          scalar(s.src_stride),
                          scalar(s.dst_stride)};
      lowering.call(r.tile, wide ? kernel::Code::CopyStrided64 : kernel::Code::CopyStrided32, {}, args);
    }
    runs = runs.subspan(s.rows);
  }
}

}  // namespace tw::tile
