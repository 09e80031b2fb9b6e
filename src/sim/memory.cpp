#include "sim/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/math.h"

namespace tw::sim {
namespace {

static_assert(std::endian::native == std::endian::little, "tile memory is little-endian and used in place");

std::uint64_t load(const std::uint64_t* word) {
  // atomic_ref needs a mutable object; the load does not change it.
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(*word)).load(std::memory_order_relaxed);
}
void save(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(*word).store(value, std::memory_order_relaxed);
}
constexpr std::uint64_t low_bits(std::uint32_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}
// `count` (1..64) bits from bit `offset`.
std::uint64_t get_bits(const std::uint64_t* words, std::uint64_t offset, std::uint32_t count) {
  const std::uint64_t* w = words + offset / 64;
  const auto shift = static_cast<std::uint32_t>(offset % 64);
  std::uint64_t v = load(w) >> shift;
  if (shift + count > 64) v |= load(w + 1) << (64 - shift);
  return v & low_bits(count);
}
// Bits that stay inside one word.
void put_bits(std::uint64_t* words, std::uint64_t offset, std::uint32_t count, std::uint64_t value) {
  std::uint64_t* w = words + offset / 64;
  const auto shift = static_cast<std::uint32_t>(offset % 64);
  const std::uint64_t mask = low_bits(count) << shift;
  save(w, (load(w) & ~mask) | ((value << shift) & mask));
}
void copy_bits(std::uint64_t* to, std::uint64_t to_offset, const std::uint64_t* from,
               std::uint64_t from_offset, std::uint64_t count) {
  while (count > 0) {
    const auto step = static_cast<std::uint32_t>(std::min<std::uint64_t>(64 - to_offset % 64, count));
    put_bits(to, to_offset, step, get_bits(from, from_offset, step));
    to_offset += step;
    from_offset += step;
    count -= step;
  }
}

void* map(std::size_t bytes, bool huge) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw Error(ErrorKind::Io, "cannot map memory for the simulated tiles");
#ifdef MADV_HUGEPAGE
  if (huge) madvise(p, bytes, MADV_HUGEPAGE);
#else
  (void)huge;
#endif
  return p;
}

}  // namespace

Memory::Memory(std::uint32_t tiles, std::uint32_t base, std::uint32_t end, bool huge)
    : base_(base),
      end_(end),
      stride_(up(std::size_t{end - base}, std::size_t{64})),
      mark_words_(cd(std::size_t{end - base}, std::size_t{64}) + 1),
      data_bytes_(stride_ * tiles + 64),
      mark_bytes_(mark_words_ * sizeof(std::uint64_t) * tiles + 64) {
  data_ = static_cast<std::uint8_t*>(map(data_bytes_, huge));
  marks_ = static_cast<std::uint64_t*>(map(mark_bytes_, huge));
}

Memory::~Memory() {
  munmap(data_, data_bytes_);
  munmap(marks_, mark_bytes_);
}

void Memory::store32(std::uint32_t tile, std::uint32_t address, std::uint32_t value) {
  std::memcpy(at(tile, address), &value, 4);
  mark(tile, address, 4, true);
}

void Memory::store(std::uint32_t tile, std::uint32_t address, std::span<const std::uint8_t> data) {
  if (data.empty()) return;
  std::memcpy(at(tile, address), data.data(), data.size());
  mark(tile, address, static_cast<std::uint32_t>(data.size()), true);
}

std::uint32_t Memory::first_unwritten(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes) const {
  const std::uint64_t* words = marks(tile);
  std::uint64_t offset = address - base_;
  const std::uint64_t stop = offset + bytes;
  while (offset < stop) {
    const auto step = static_cast<std::uint32_t>(std::min<std::uint64_t>(64 - offset % 64, stop - offset));
    const std::uint64_t holes = ~get_bits(words, offset, step) & low_bits(step);
    if (holes != 0)
      return base_ + static_cast<std::uint32_t>(offset) + static_cast<std::uint32_t>(std::countr_zero(holes));
    offset += step;
  }
  return address + bytes;
}

void Memory::mark(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes, bool written) {
  std::uint64_t* words = marks(tile);
  std::uint64_t offset = address - base_;
  const std::uint64_t stop = offset + bytes;
  while (offset < stop) {
    const auto step = static_cast<std::uint32_t>(std::min<std::uint64_t>(64 - offset % 64, stop - offset));
    put_bits(words, offset, step, written ? ~std::uint64_t{0} : 0);
    offset += step;
  }
}

void Memory::save_marks(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes, std::uint64_t* bits,
                        std::uint64_t offset) const {
  copy_bits(bits, offset, marks(tile), address - base_, bytes);
}

void Memory::restore_marks(std::uint32_t tile, std::uint32_t address, std::uint32_t bytes,
                           const std::uint64_t* bits, std::uint64_t offset) {
  copy_bits(marks(tile), address - base_, bits, offset, bytes);
}

void Memory::copy(std::uint32_t from_tile, std::uint32_t from, std::uint32_t to_tile, std::uint32_t to,
                  std::uint32_t bytes) {
  std::memcpy(at(to_tile, to), at(from_tile, from), bytes);
  copy_bits(marks(to_tile), to - base_, marks(from_tile), from - base_, bytes);
}

std::span<const std::uint8_t> Memory::mark_bytes(std::uint32_t tile) const {
  return {reinterpret_cast<const std::uint8_t*>(marks(tile)), mark_words_ * sizeof(std::uint64_t)};
}

}  // namespace tw::sim
