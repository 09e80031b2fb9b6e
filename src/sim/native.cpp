#include "sim/native.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/math.h"
#include "kernel/helper.h"
#include "kernel/macs.h"

namespace tw::sim {
namespace {

using kernel::Access;
using kernel::Call;
using kernel::Code;
using kernel::Kernel;

bool is_copy(Code code) {
  switch (code) {
    case Code::CopyU64:
    case Code::CopyStrided64:
    case Code::CopyU32:
    case Code::CopyStrided32:
    case Code::CopyU16:
      return true;
    default:
      return false;
  }
}

bool check_bounds(Context& context, Tile& tile, const Kernel& k, const Access& a) {
  if (a.rows == 0 || a.row_bytes == 0) return true;
  const std::uint64_t extent = std::uint64_t{a.rows - 1} * a.stride + a.row_bytes;
  if (context.memory.contains(a.address, extent)) return true;
  return raise(tile, FaultKind::KernelContract, a.address,
               fmt::format("{}: m{} = {:#x} with {} bytes leaves the tile's memory", k.name, a.argument + 2,
                           a.address, extent));
}

bool check_defined(Context& context, Tile& tile, const Kernel& k, const Access& a) {
  for (std::uint32_t row = 0; row < a.rows; ++row) {
    const std::uint32_t begin = a.address + row * a.stride;
    const std::uint32_t hole = context.memory.first_unwritten(tile.id, begin, a.row_bytes);
    if (hole != begin + a.row_bytes)
      return raise(tile, FaultKind::UndefinedRead, hole,
                   fmt::format("{}: reads m{} ({:#x}) at {:#x}, which was never written", k.name,
                               a.argument + 2, a.address, hole));
  }
  return true;
}

// Contention elements an operand touches, as a bit set: 13 + 13 of them on this device, folded into 64.
std::uint64_t elements(const Device& device, std::span<const Access> accesses, std::uint32_t argument) {
  std::uint64_t set = 0;
  for (const Access& a : accesses) {
    if (a.argument != argument || a.row_bytes == 0) continue;
    for (std::uint32_t row = 0; row < a.rows; ++row) {
      const std::uint32_t begin = a.address + row * a.stride;
      const std::uint32_t first = element_of(device, begin),
                          last = element_of(device, begin + a.row_bytes - 1);
      for (std::uint32_t e = first; e <= last;
           e = (e + 1 == device.interleaved_base / device.element_bytes) ? kFirstPair : e + 1)
        set |= std::uint64_t{1} << (e < kFirstPair ? e % 32 : 32 + (e - kFirstPair) % 32);
    }
  }
  return set;
}

bool check_separate(Context& context, Tile& tile, const Kernel& k, const Call& call,
                    std::span<const Access> accesses) {
  for (const auto& [a, b] : k.separate)
    if ((elements(context.device, accesses, a) & elements(context.device, accesses, b)) != 0)
      return raise(tile, FaultKind::AddressConflict, call.m[a],
                   fmt::format("{}: m{} ({:#x}) and m{} ({:#x}) share a memory element", k.name, a + 2,
                               call.m[a], b + 2, call.m[b]));
  return true;
}

// Marks of everything read, in access order; of everything written, from the same stream.
void carry_marks(Memory& memory, std::uint32_t tile, std::span<const Access> accesses,
                 std::vector<std::uint64_t>& bits, bool save) {
  std::uint64_t offset = 0;
  for (const Access& a : accesses) {
    if (a.write == save) continue;
    for (std::uint32_t row = 0; row < a.rows; ++row, offset += a.row_bytes) {
      const std::uint32_t begin = a.address + row * a.stride;
      if (save) {
        bits.resize(cd(offset + a.row_bytes, std::uint64_t{64}) + 1);
        memory.save_marks(tile, begin, a.row_bytes, bits.data(), offset);
      } else {
        bits.resize(std::max<std::size_t>(bits.size(), cd(offset + a.row_bytes, std::uint64_t{64}) + 1));
        memory.restore_marks(tile, begin, a.row_bytes, bits.data(), offset);
      }
    }
  }
}

void mark_written(Memory& memory, std::uint32_t tile, std::span<const Access> accesses) {
  for (const Access& a : accesses)
    for (std::uint32_t row = 0; a.write && row < a.rows; ++row)
      memory.mark(tile, a.address + row * a.stride, a.row_bytes, true);
}

bool run_kernel(Context& context, Tile& tile, const Header& header, std::uint32_t target) {
  const Kernel* k = kernel::find(static_cast<Code>(header.code));
  if (k == nullptr)
    return raise(tile, FaultKind::BadCallTarget, target, fmt::format("no kernel has code {}", header.code));
  if (tile.workers_active)
    return raise(tile, FaultKind::WorkersBusy, target, fmt::format("{}: workers are running", k->name));
  if (header.spec_words != k->spec_words)
    return raise(tile, FaultKind::KernelContract, target,
                 fmt::format("{}: header has {} specialisation words, not {}", k->name, header.spec_words,
                             k->spec_words));
  std::array<std::uint32_t, 256> spec{};
  for (std::uint32_t i = 0; i < header.spec_words; ++i)
    spec[i] = context.memory.load32(tile.id, header.spec_address + 4 * i);
  Call call;
  for (std::uint32_t i = 0; i < call.m.size(); ++i) call.m[i] = tile.m[i + 2];
  call.spec = std::span(spec.data(), header.spec_words);

  if (const std::string broken = k->validate(call); !broken.empty())
    return raise(tile, FaultKind::KernelContract, target, fmt::format("{}: {}", k->name, broken));
  const std::vector<Access> accesses = k->accesses(call);
  const bool copy = is_copy(k->code);
  for (const Access& a : accesses)
    if (!check_bounds(context, tile, *k, a)) return false;
  for (const Access& a : accesses)
    if (!a.write && !copy && !check_defined(context, tile, *k, a)) return false;
  if (!check_separate(context, tile, *k, call, accesses)) return false;

  std::vector<std::uint64_t> bits;
  if (copy) carry_marks(context.memory, tile.id, accesses, bits, true);
  kernel::Effects effects;
  k->run(context.memory.bytes(tile.id), context.memory.base(), call, effects);
  if (copy)
    carry_marks(context.memory, tile.id, accesses, bits, false);
  else
    mark_written(context.memory, tile.id, accesses);

  tile.barrier_due = true;
  tile.fp8_clips += effects.fp8_clips;
  tile.macs += kernel::macs(k->code, call);
  if (effects.f16_overflow && !context.options.saturate_f16)
    return raise(
        tile, FaultKind::F16Overflow, call.m[effects.overflow_argument % call.m.size()],
        fmt::format("{}: a result in m{} exceeds the F16 range", k->name, effects.overflow_argument + 2));
  tile.time += k->cycles(call);
  return true;
}

// m2 row, m3 offsets, m4 values, m5 words.
bool patch_row(Context& context, Tile& tile) {
  const std::uint64_t row = tile.m[2], offsets = tile.m[3], values = tile.m[4], count = tile.m[5];
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t offset = 0, value = 0;
    if (!read_word(context, tile, offsets + 4 * i, offset) ||
        !read_word(context, tile, values + 4 * i, value) || !write_word(context, tile, row + offset, value))
      return false;
  }
  tile.time += kernel::helper_cycles(kernel::Helper::PatchRow, count);
  return true;
}

// m2 entries, m3 their number, m4 remaining, m5 total.
bool repeat_patch(Context& context, Tile& tile, bool table) {
  const std::uint64_t entries = tile.m[2], count = tile.m[3];
  const std::uint32_t iteration = tile.m[5] - tile.m[4];
  const std::uint32_t entry_bytes = table ? 8 : 12;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t entry = entries + entry_bytes * i;
    std::uint32_t word = 0, second = 0, value = 0;
    if (!read_word(context, tile, entry, word) || !read_word(context, tile, entry + 4, second)) return false;
    if (table) {
      if (!read_word(context, tile, second + 4 * std::uint64_t{iteration}, value)) return false;
    } else {
      std::uint32_t step = 0;
      if (!read_word(context, tile, entry + 8, step)) return false;
      value = second + step * iteration;
    }
    if (!write_word(context, tile, word, value)) return false;
  }
  tile.time += kernel::helper_cycles(table ? kernel::Helper::RepeatTable : kernel::Helper::RepeatStep, count);
  return true;
}

bool host_run(Context& context, Tile& tile) {
  std::array<std::uint32_t, 4> words{};
  for (std::uint32_t i = 0; i < words.size(); ++i)
    if (!read_word(context, tile, std::uint64_t{tile.m[2]} + 4 * i, words[i])) return false;
  tile.host = {words[0], words[1], words[2], words[3]};
  tile.active = true;
  tile.stop = Stop::Host;
  return true;
}

bool run_helper(Context& context, Tile& tile, const Header& header, std::uint32_t target) {
  switch (static_cast<kernel::Helper>(header.code)) {
    case kernel::Helper::WorkerBarrier:
      if (tile.workers_active)
        return raise(tile, FaultKind::WorkersBusy, target, "worker barrier while workers are running");
      tile.barrier_due = false;
      return true;
    case kernel::Helper::PatchRow:
      return patch_row(context, tile);
    case kernel::Helper::RepeatTable:
      return repeat_patch(context, tile, true);
    case kernel::Helper::RepeatStep:
      return repeat_patch(context, tile, false);
    case kernel::Helper::HostRun:
      return host_run(context, tile);
    case kernel::Helper::Sample:
      return write_word(context, tile, tile.m[2], static_cast<std::uint32_t>(tile.time));
    default:
      return raise(tile, FaultKind::BadCallTarget, target, fmt::format("no helper has code {}", header.code));
  }
}

std::uint32_t return_register_of(const Header& header) {
  if (!header.helper) return isa::kM10Return;
  switch (static_cast<kernel::Helper>(header.code)) {
    case kernel::Helper::WorkerBarrier:
      return isa::kM7BarrierReturn;
    case kernel::Helper::PatchRow:
    case kernel::Helper::RepeatTable:
    case kernel::Helper::RepeatStep:
      return isa::kM9HelperReturn;
    default:
      return isa::kM10Return;
  }
}

}  // namespace

std::optional<Header> header_at(const Context& context, const Tile& tile, std::uint32_t address) {
  if (address % 4 != 0 || !executable(tile, address, 12)) return std::nullopt;
  if (context.memory.load32(tile.id, address) != kernel::kMagic) return std::nullopt;
  const std::uint32_t word1 = context.memory.load32(tile.id, address + 4);
  const std::uint32_t word2 = context.memory.load32(tile.id, address + 8);
  Header h;
  h.helper = word1 >> 16 == std::to_underlying(kernel::HeaderKind::Helper);
  h.code = static_cast<std::uint16_t>(word1);
  h.spec_words = word2 >> 24;
  h.spec_address = address + 12;
  if (word1 >> 16 > 1 || !executable(tile, address, 12 + 4 * h.spec_words)) return std::nullopt;
  return h;
}

bool call_native(Context& context, Tile& tile, const Header& header, std::uint32_t target,
                 std::uint32_t return_register) {
  if (return_register != return_register_of(header))
    return raise(tile, FaultKind::BadCallTarget, target,
                 fmt::format("called through $m{}, returns through $m{}", return_register,
                             return_register_of(header)));
  return header.helper ? run_helper(context, tile, header, target)
                       : run_kernel(context, tile, header, target);
}

bool read_word(Context& context, Tile& tile, std::uint64_t address, std::uint32_t& value) {
  const auto shown = static_cast<std::uint32_t>(address);
  if (!context.memory.contains(address, 4))
    return raise(tile, FaultKind::PointerOutOfRange, shown,
                 fmt::format("load at {:#x} outside memory", address));
  if (address % 4 != 0)
    return raise(tile, FaultKind::Unaligned, shown, fmt::format("load at {:#x}", address));
  if (context.memory.first_unwritten(tile.id, shown, 4) != shown + 4)
    return raise(tile, FaultKind::UndefinedRead, shown,
                 fmt::format("load at {:#x}, which was never written", address));
  value = context.memory.load32(tile.id, shown);
  return true;
}

bool write_word(Context& context, Tile& tile, std::uint64_t address, std::uint32_t value) {
  const auto shown = static_cast<std::uint32_t>(address);
  if (!context.memory.contains(address, 4))
    return raise(tile, FaultKind::PointerOutOfRange, shown,
                 fmt::format("store at {:#x} outside memory", address));
  if (address % 4 != 0)
    return raise(tile, FaultKind::Unaligned, shown, fmt::format("store at {:#x}", address));
  context.memory.store32(tile.id, shown, value);
  return true;
}

}  // namespace tw::sim
