// Kernels of a tile: contract, cost and host function per family, one file each (compiler.md 3.8, 5.4;
// decisions.md 2-9, 17). A host function sees only SRAM bytes and the call's words: registers m2.. and the
// specialisation words that stand in the kernel's header in executable memory.
// docs/kernels.md is the normative table of argument order per kernel.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tw::kernel {

enum class Code : std::uint16_t {
  GemmF16 = 1,
  GemmF8,
  Sum,
  Add,
  Gelu,
  BiasGelu,
  LayerNorm,
  Moments,
  Apply,
  Softmax,
  Merge,
  CastF16ToF8,
  CastF8ToF16,
  CastF32ToF16,
  PackRowToF8Left,
  RepackF8Left,
  PackRowToLeft,
  PackRowToRight,
  PackRowToBlock,
  UnpackLeft,
  UnpackBlock,
  CopyU64,
  CopyStrided64,
  CopyU32,
  CopyStrided32,
  CopyU16,
  Fill,
  AddLayerNorm,
  AddMoments,
  LayerNormF8,
  GeluF8,
  BiasGeluF8,
  Unary,
  Binary,
  Reduce,
  SoftmaxRows,
  NormRows,
  Rope,
  CastF16ToF32
};

// A call as the supervisor makes it: m[0] = $m2 (output), m[1..7] = $m3..$m9, and the header's spec words.
struct Call {
  std::array<std::uint32_t, 8> m{};
  std::span<const std::uint32_t> spec;
};

// A rectangle of bytes that a call touches: `rows` rows of `row_bytes`, `stride` bytes apart.
struct Access {
  std::uint8_t argument = 0;  // index into Call::m of the operand
  bool write = false;
  std::uint32_t address = 0, row_bytes = 0, rows = 1, stride = 0;
};

// Counters and faults a host function raises.
struct Effects {
  std::uint64_t fp8_clips = 0;
  bool f16_overflow = false;            // a finite result beyond 65504 (decisions.md 8): a device fault
  std::uint32_t overflow_argument = 0;  // operand written when it happened
};

struct Kernel {
  Code code{};
  const char* name = "";
  std::uint32_t arguments = 0;     // words of Call::m used
  std::uint32_t address_mask = 0;  // bit i: m[i] is an SRAM address
  std::uint32_t spec_words = 0;
  std::uint32_t image_bytes = 0;  // reserved executable bytes, header included
  // Empty when the arguments break the contract (alignment, multiples, ranges): text says which.
  std::string (*validate)(const Call&) = nullptr;
  // Bytes consumed (read and needed defined) and bytes written, exactly; declared tails are not in it.
  std::vector<Access> (*accesses)(const Call&) = nullptr;
  std::uint64_t (*cycles)(const Call&) = nullptr;
  // `sram` is indexed by (address - memory_base).
  void (*run)(std::uint8_t* sram, std::uint32_t memory_base, const Call&, Effects&) = nullptr;
  // Index pairs (argument, argument) whose accesses must hit disjoint contention elements (GEMM left/output).
  std::vector<std::pair<std::uint8_t, std::uint8_t>> separate;
};

const Kernel* find(Code code);  // nullptr: unknown
std::span<const Kernel> all();

// The mode argument of Softmax: rows are split over workers exactly when that is cheaper (decisions.md 6).
bool softmax_splits_rows(std::uint32_t rows, std::uint32_t keys, std::uint32_t padded);

// Header at the entry of each kernel and helper in executable memory, little-endian words:
// [0] kMagic, [1] code | kind << 16, [2] image bytes | spec count << 24, [3..] spec words.
inline constexpr std::uint32_t kMagic = 0x314B5754;  // "TWK1"; not a legal instruction
enum class HeaderKind : std::uint16_t { Kernel = 0, Helper = 1 };
enum class Helper : std::uint16_t {
  WorkerBarrier = 1,  // return $m7; waits for the workers
  PatchRow,           // return $m9; m2 row, m3 offsets, m4 values, m5 count (words)
  RepeatTable,  // return $m9; m2 entries {word address, table address}, m3 entries, m4 remaining, m5 total
  RepeatStep,   // return $m9; m2 entries {word address, initial, step}, m3 entries, m4 remaining, m5 total
  HostRun,      // return $m10; m2 descriptor {direction, tile address, bytes, arena offset}
  Sample,
  Copy
};
std::vector<std::uint32_t> header_words(HeaderKind kind, std::uint16_t code, std::uint32_t image_bytes,
                                        std::span<const std::uint32_t> spec);

// Host-side F16/F8 arithmetic never uses FMA contraction; see docs/numerics.md.

}  // namespace tw::kernel
