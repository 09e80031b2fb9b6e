// The executable package: device image, bindings, host calls, and a side section that only tools read
// (hardware.md 5.3, decisions.md 16-20; docs/package-format.md). On disk: Cap'n Proto metadata, then raw
// page-aligned payload sections, XXH3-64 each.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tw::package {

inline constexpr std::uint32_t kVersion = 3;

enum SegmentFlags : std::uint8_t { kRead = 1, kWrite = 2, kExecute = 4 };

struct Segment {
  std::uint32_t address = 0, memory_size = 0;  // bytes; memory_size >= blob size, the rest stays unwritten
  std::uint32_t blob = 0;                      // index into DeviceImage::blobs
  std::uint8_t flags = kRead;
  bool operator==(const Segment&) const = default;
};
struct TileImage {  // one per physical tile, index = PhysId
  std::uint32_t entry = 0;
  std::vector<Segment> segments;  // ascending, disjoint, lowest exactly at load_base, end <= loader_end
  bool operator==(const TileImage&) const = default;
};

// One piece of a binding: `bytes` at `offset` of the binding's data live at `address` of physical tile
// `tile`. Replicated data have several slices with the same offset. Offsets and sizes are multiples of 4.
struct Slice {
  std::uint32_t tile = 0, address = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool operator==(const Slice&) const = default;
};
enum class BindingKind : std::uint8_t { Weight, Input, Output };
struct Binding {
  std::string name;
  BindingKind kind = BindingKind::Input;
  std::string dtype;                 // "f16", "f32", "f8f143"
  int scale = 0;                     // f8f143 only
  std::vector<std::uint32_t> shape;  // logical
  std::uint64_t bytes = 0;  // of the packed data (Weight: storage order incl. padding; else row-major)
  std::vector<Slice> slices;
  bool operator==(const Binding&) const = default;
};

// Host transfer of one call, cut in batches: in batch b every tile moves at most one piece (<= 4096 B).
struct HostPiece {
  std::uint32_t tile = 0, address = 0, bytes = 0;
  std::uint32_t binding = 0;
  std::uint64_t offset = 0;
  bool operator==(const HostPiece&) const = default;
};
struct HostBatch {
  bool to_device = true;
  std::vector<HostPiece> pieces;  // ascending tile, at most one per tile
  bool operator==(const HostBatch&) const = default;
};

struct DeviceImage {   // all that the simulator loads
  std::string target;  // Device::name
  std::uint32_t memory_base = 0, memory_end = 0;
  std::vector<std::vector<std::uint8_t>> blobs;  // deduplicated segment data
  std::vector<TileImage> tiles;                  // exactly Device::tiles
  std::vector<Binding> bindings;
  std::vector<HostBatch> initialize, inputs, outputs;  // in program order; "run" = inputs then outputs
  std::uint64_t step_limit = 0;  // cycles per call after which a run is stopped (decisions.md 14)
  bool operator==(const DeviceImage&) const = default;
};

// Names for addresses of one tile class, for faults, inspect and reports; not needed to run.
struct Symbol {
  std::uint32_t tile = UINT32_MAX;  // UINT32_MAX: on every tile
  std::uint32_t address = 0, bytes = 0;
  std::string name;
  bool operator==(const Symbol&) const = default;
};
struct TensorPlace {
  std::string tensor;
  std::uint32_t tile = 0, address = 0, bytes = 0;  // physical tile
  std::uint32_t first_step = 0, last_step = 0;     // 0 = upload, otherwise step index + 1
  std::uint32_t taken = 0;   // bytes that count at peaks: access tail and padding to the alignment in
  bool interleaved = false;  // asks for interleaved memory; others may stand anywhere
  bool operator==(const TensorPlace&) const = default;
};

enum class StepKind : std::uint8_t { Compute, Exchange, RepeatBegin, RepeatEnd, Checkpoint };
struct Step {
  std::string name;  // path of the operation that it belongs to
  StepKind kind = StepKind::Compute;
  std::uint32_t count = 1;  // RepeatBegin: iterations
  bool operator==(const Step&) const = default;
};

struct Side {                // tools only; the simulator's core never sees it
  std::string summary_json;  // the `compile` object of cli.md
  std::string recipe_json;   // everything needed to build the same plan again (model, options, seed)
  std::string plan_text;     // printed plan
  std::vector<Symbol> symbols;
  std::vector<TensorPlace> tensors;
  std::vector<Step> steps;  // of the program, a Repeat's body once
  bool operator==(const Side&) const = default;
};

struct Package {
  DeviceImage image;
  std::vector<std::vector<std::uint8_t>> weights;  // packed data of the Weight bindings, in binding order
  Side side;
  bool operator==(const Package&) const = default;
};

// Structural rules (segments, bindings cover, batches within limits...). Empty = good.
std::vector<std::string> verify(const Package& package);

// Writes to a temporary beside `file` and renames; Error{Io} names path and cause, nothing partial remains.
// Returns the file's size in bytes.
std::uint64_t write(const Package& package, const std::filesystem::path& file);
// Bounds-checked; Error{File} for truncation, wrong magic, version, target, hash, or anything verify() finds.
Package read(const std::filesystem::path& file);
// In-memory forms (tests, fuzzing, mutation). to_bytes is deterministic.
std::vector<std::uint8_t> to_bytes(const Package& package);
Package from_bytes(std::vector<std::uint8_t> bytes, const std::string& name_for_errors);

// For tools and mutation tests: where the payload sections of a file are, and the same file with all hashes
// made good again after bytes of sections were changed. Both accept damaged files (what is out of bounds is
// left out).
struct SectionInfo {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;  // "metadata", "blob 3", "weights 0"
  bool operator==(const SectionInfo&) const = default;
};
std::vector<SectionInfo> sections(std::span<const std::uint8_t> file);
std::vector<std::uint8_t> rehash(std::vector<std::uint8_t> file);

}  // namespace tw::package
