#include "kernel/internal.h"

#include <fmt/core.h>

#include <algorithm>

namespace tw::kernel {

void Accesses::add(std::uint32_t argument, bool write, std::uint64_t address, std::uint64_t row_bytes,
                   std::uint64_t rows, std::uint64_t stride) {
  if (row_bytes == 0 || rows == 0) return;
  if (stride == row_bytes) row_bytes *= rows, rows = 1;
  if (rows == 1) stride = 0;
  if (rows == 1 && !list_.empty()) {
    Access& last = list_.back();
    if (last.argument == argument && last.write == write && last.rows == 1 &&
        last.address + last.row_bytes == address) {
      last.row_bytes += static_cast<std::uint32_t>(row_bytes);
      return;
    }
  }
  list_.push_back({static_cast<std::uint8_t>(argument), write, static_cast<std::uint32_t>(address),
                   static_cast<std::uint32_t>(row_bytes), static_cast<std::uint32_t>(rows),
                   static_cast<std::uint32_t>(stride)});
}

void Accesses::read_left(std::uint32_t argument, std::uint64_t address, std::uint64_t rows,
                         std::uint64_t columns) {
  const std::uint64_t whole = columns / kPanel, panel_bytes = rows * kPanel * 2;
  read(argument, address, whole * panel_bytes);
  read(argument, address + whole * panel_bytes, columns % kPanel * 2, rows, kPanel * 2);
}

Checker::Checker(const char* kernel, const Call& call, std::uint32_t arguments, std::uint32_t spec_words)
    : kernel_(kernel), call_(call) {
  require(call.spec.size() == spec_words,
          fmt::format("{} specialisation words, expected {}", call.spec.size(), spec_words));
  for (std::size_t i = 0; i < arguments; ++i)
    require(call.m[i] < (1U << 20),
            fmt::format("argument m{} = {:#x} has more than 20 bits", i + 2, call.m[i]));
}

void Checker::require(bool good, const std::string& problem) {
  if (!good && problem_.empty()) problem_ = fmt::format("{}: {}", kernel_, problem);
}

void Checker::operand(std::size_t i, const char* name, std::uint64_t bytes, std::uint32_t alignment) {
  bytes_[i] = bytes;
  const std::uint64_t begin = m(i), end = begin + bytes;
  require(begin % alignment == 0, fmt::format("{} {:#x} is not a multiple of {}", name, begin, alignment));
  require(begin >= kMemoryBegin && end <= kMemoryEnd,
          fmt::format("{} [{:#x}, {:#x}) leaves the memory", name, begin, end));
}

void Checker::count(std::size_t i, const char* name, std::uint64_t k) {
  require(m(i) > 0, fmt::format("{} is zero", name));
  require(m(i) % k == 0, fmt::format("{} {} is not a multiple of {}", name, m(i), k));
}

void Checker::disjoint(std::size_t i, std::size_t j, bool same_start) {
  if (same_start && m(i) == m(j)) return;
  require(m(i) + bytes_[i] <= m(j) || m(j) + bytes_[j] <= m(i),
          fmt::format("operands m{} and m{} overlap", i + 2, j + 2));
}

}  // namespace tw::kernel
