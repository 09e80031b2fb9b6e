#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "package/package.h"
#include "target/device.h"

namespace tw::package {
namespace {

// Loader protocol of hardware.md 5.3: frames of 992 payload bytes, the first at memory base + 16.
constexpr std::uint32_t kLoadOffset = 0x10, kFrameBytes = 992, kMaxFrames = 643;
constexpr std::uint32_t kMaxPieceBytes = 4096;  // one arena slot, hardware.md 5.1
constexpr std::size_t kMaxMessages = 50;

struct Findings {
  std::vector<std::string> text;
  bool full() const { return text.size() >= kMaxMessages; }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!full()) text.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
};

void verify_target(const DeviceImage& image, Findings& out) {
  const Device c600;
  if (image.target.empty()) out.add("no target name");
  if (image.memory_base >= image.memory_end || image.memory_base % 4 != 0 ||
      image.memory_base > UINT32_MAX - kLoadOffset)
    out.add("memory [0x{:x}, 0x{:x}) is empty", image.memory_base, image.memory_end);
  if (image.tiles.empty()) out.add("no tiles");
  if (image.target != c600.name) return;
  if (image.tiles.size() != c600.tiles)
    out.add("{} tiles, target {} has {}", image.tiles.size(), c600.name, c600.tiles);
  if (image.memory_base != c600.memory_base || image.memory_end != c600.memory_end)
    out.add("memory [0x{:x}, 0x{:x}), target {} has [0x{:x}, 0x{:x})", image.memory_base, image.memory_end,
            c600.name, c600.memory_base, c600.memory_end);
}

void verify_segment(const DeviceImage& image, std::size_t tile, std::size_t i, std::uint64_t free_from,
                    Findings& out) {
  const Segment& s = image.tiles[tile].segments[i];
  const std::uint64_t end = std::uint64_t{s.address} + s.memory_size;
  const std::uint64_t load_base = std::uint64_t{image.memory_base} + kLoadOffset;
  if (i == 0 && s.address != load_base)
    out.add("tile {}: lowest segment at 0x{:x}, must be at 0x{:x}", tile, s.address, load_base);
  if (s.address < free_from)
    out.add("tile {}: segment {} at 0x{:x} begins before 0x{:x}, where the one below ends", tile, i,
            s.address, free_from);
  if (s.memory_size == 0) out.add("tile {}: segment {} is empty", tile, i);
  const std::uint64_t loader_end = load_base + std::uint64_t{kMaxFrames} * kFrameBytes;
  if (end > loader_end)
    out.add("tile {}: segment {} ends at 0x{:x}, the loader's {} frames at 0x{:x}", tile, i, end, kMaxFrames,
            loader_end);
  if (end > image.memory_end)
    out.add("tile {}: segment {} ends at 0x{:x}, memory at 0x{:x}", tile, i, end, image.memory_end);
  if (s.blob >= image.blobs.size())
    out.add("tile {}: segment {} names blob {} of {}", tile, i, s.blob, image.blobs.size());
  else if (image.blobs[s.blob].size() > s.memory_size)
    out.add("tile {}: segment {} of {} bytes is filled with {}", tile, i, s.memory_size,
            image.blobs[s.blob].size());
  if ((s.flags & ~(kRead | kWrite | kExecute)) != 0 || s.flags == 0)
    out.add("tile {}: segment {} has flags {}", tile, i, unsigned{s.flags});
}

void verify_tile(const DeviceImage& image, std::size_t tile, Findings& out) {
  const TileImage& t = image.tiles[tile];
  if (t.segments.empty()) out.add("tile {}: no segments", tile);
  std::uint64_t end = 0;
  bool entered = false;
  for (std::size_t i = 0; i < t.segments.size(); ++i) {
    verify_segment(image, tile, i, end, out);
    const Segment& s = t.segments[i];
    end = std::uint64_t{s.address} + s.memory_size;
    if ((s.flags & kExecute) == 0) continue;
    if (const Device c600; image.target == c600.name && end > c600.interleaved_base)
      out.add("tile {}: executable segment {} ends at 0x{:x}, instructions are fetched below 0x{:x}", tile, i,
              end, c600.interleaved_base);
    entered |= t.entry >= s.address && std::uint64_t{t.entry} + 4 <= end;
  }
  if (!entered || t.entry % 4 != 0)
    out.add("tile {}: entry 0x{:x} is no word of an executable segment", tile, t.entry);
}

std::uint32_t element_bytes(const std::string& dtype) {
  return dtype == "f32" ? 4 : dtype == "f16" ? 2 : dtype == "f8f143" ? 1 : 0;
}

// Bytes of the logical tensor in memory, whole words; UINT64_MAX when that does not fit.
std::uint64_t logical_bytes(const Binding& b) {
  std::uint64_t bytes = element_bytes(b.dtype);
  for (std::uint32_t d : b.shape) {
    if (d != 0 && bytes > (UINT64_MAX - 3) / d) return UINT64_MAX;
    bytes *= d;
  }
  return (bytes + 3) / 4 * 4;
}

// Slices in memory order; on one tile they must be disjoint.
std::vector<Slice> by_place(const Binding& b) {
  std::vector<Slice> slices = b.slices;
  std::ranges::sort(slices, {},
                    [](const Slice& s) { return std::tuple(s.tile, s.address, s.offset, s.bytes); });
  return slices;
}

void verify_slices(const DeviceImage& image, const Binding& b, Findings& out) {
  for (const Slice& s : b.slices) {
    if (s.tile >= image.tiles.size()) out.add("binding '{}': slice on tile {}", b.name, s.tile);
    if (s.address % 4 != 0 || s.bytes % 4 != 0 || s.offset % 4 != 0 || s.bytes == 0)
      out.add("binding '{}': slice of {} bytes at 0x{:x} offset {} is not in whole words", b.name, s.bytes,
              s.address, s.offset);
    const std::uint64_t end = std::uint64_t{s.address} + s.bytes;
    if (s.address < image.memory_base || end > image.memory_end)
      out.add("binding '{}': slice [0x{:x}, 0x{:x}) on tile {} is outside memory", b.name, s.address, end,
              s.tile);
    if (s.offset > b.bytes || s.bytes > b.bytes - s.offset)
      out.add("binding '{}': slice of {} bytes at offset {} ends behind {}", b.name, s.bytes, s.offset,
              b.bytes);
  }
  const std::vector<Slice> placed = by_place(b);
  for (std::size_t i = 1; i < placed.size(); ++i) {
    const Slice &a = placed[i - 1], &c = placed[i];
    if (a.tile == c.tile && std::uint64_t{a.address} + a.bytes > c.address)
      out.add("binding '{}': slices overlap at 0x{:x} of tile {}", b.name, c.address, c.tile);
  }
  std::vector<Slice> by_offset = b.slices;
  std::ranges::sort(by_offset, {}, [](const Slice& s) { return std::tuple(s.offset, s.bytes); });
  std::uint64_t covered = 0;
  for (const Slice& s : by_offset) {
    if (s.offset > covered) break;
    covered = std::max(covered, s.offset + s.bytes);
  }
  if (covered < b.bytes) out.add("binding '{}': no slice holds byte {} of {}", b.name, covered, b.bytes);
}

void verify_binding(const Package& package, std::size_t index, std::set<std::string>& names, Findings& out) {
  const Binding& b = package.image.bindings[index];
  if (b.name.empty()) out.add("binding {} has no name", index);
  if (!names.insert(b.name).second) out.add("two bindings are named '{}'", b.name);
  if (element_bytes(b.dtype) == 0) out.add("binding '{}': unknown type '{}'", b.name, b.dtype);
  if (b.scale != 0 && b.dtype != "f8f143") out.add("binding '{}': type {} has no scale", b.name, b.dtype);
  if (b.bytes == 0 || b.bytes % 4 != 0) out.add("binding '{}': {} bytes are no whole words", b.name, b.bytes);
  if (b.kind != BindingKind::Weight && b.bytes != logical_bytes(b))
    out.add("binding '{}': {} bytes, its shape needs {}", b.name, b.bytes, logical_bytes(b));
  verify_slices(package.image, b, out);
}

void verify_weights(const Package& package, Findings& out) {
  std::size_t k = 0;
  for (const Binding& b : package.image.bindings) {
    if (b.kind != BindingKind::Weight) continue;
    if (k < package.weights.size() && package.weights[k].size() != b.bytes)
      out.add("binding '{}': {} bytes of weights, expected {}", b.name, package.weights[k].size(), b.bytes);
    ++k;
  }
  if (k != package.weights.size())
    out.add("{} sections of weights for {} weight bindings", package.weights.size(), k);
}

// Pieces of one binding must be its slices, each byte moved once.
void verify_coverage(const Binding& b, std::vector<HostPiece> pieces, const char* call, Findings& out) {
  std::ranges::sort(pieces, {},
                    [](const HostPiece& p) { return std::tuple(p.tile, p.address, p.offset, p.bytes); });
  std::size_t next = 0;
  for (const Slice& s : by_place(b)) {
    for (std::uint32_t done = 0; done < s.bytes;) {
      const HostPiece* p = next < pieces.size() ? &pieces[next] : nullptr;
      if (p == nullptr || p->tile != s.tile || p->address != s.address + done ||
          p->offset != s.offset + done || p->bytes > s.bytes - done || p->bytes == 0) {
        out.add("{}: pieces of binding '{}' do not match its slice at 0x{:x} of tile {}, byte {}", call,
                b.name, s.address, s.tile, done);
        return;
      }
      done += p->bytes;
      ++next;
    }
  }
  if (next < pieces.size())
    out.add("{}: binding '{}' has {} pieces outside its slices", call, b.name, pieces.size() - next);
}

void verify_batches(const DeviceImage& image, const std::vector<HostBatch>& batches, const char* call,
                    BindingKind kind, Findings& out) {
  std::vector<std::vector<HostPiece>> of_binding(image.bindings.size());
  for (std::size_t n = 0; n < batches.size(); ++n) {
    const HostBatch& batch = batches[n];
    if (batch.to_device != (kind != BindingKind::Output)) out.add("{} batch {}: wrong direction", call, n);
    if (batch.pieces.empty()) out.add("{} batch {}: no pieces", call, n);
    for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
      const HostPiece& p = batch.pieces[i];
      if (i > 0 && p.tile <= batch.pieces[i - 1].tile)
        out.add("{} batch {}: tile {} after tile {}", call, n, p.tile, batch.pieces[i - 1].tile);
      if (p.bytes == 0 || p.bytes % 4 != 0 || p.bytes > kMaxPieceBytes)
        out.add("{} batch {}: piece of {} bytes on tile {}, allowed are words up to {}", call, n, p.bytes,
                p.tile, kMaxPieceBytes);
      if (p.binding >= image.bindings.size() || image.bindings[p.binding].kind != kind)
        out.add("{} batch {}: binding {} does not belong here", call, n, p.binding);
      else
        of_binding[p.binding].push_back(p);
    }
  }
  for (std::size_t b = 0; b < image.bindings.size(); ++b)
    if (image.bindings[b].kind == kind)
      verify_coverage(image.bindings[b], std::move(of_binding[b]), call, out);
}

void verify_side(const Package& package, Findings& out) {
  const std::size_t tiles = package.image.tiles.size();
  for (const Symbol& s : package.side.symbols)
    if (s.tile != UINT32_MAX && s.tile >= tiles) out.add("symbol '{}' on tile {}", s.name, s.tile);
  for (const TensorPlace& p : package.side.tensors)
    if (p.tile >= tiles) out.add("tensor '{}' on tile {}", p.tensor, p.tile);
}

}  // namespace

std::vector<std::string> verify(const Package& package) {
  const DeviceImage& image = package.image;
  Findings out;
  verify_target(image, out);
  for (std::size_t t = 0; t < image.tiles.size() && !out.full(); ++t) verify_tile(image, t, out);
  std::set<std::string> names;
  for (std::size_t b = 0; b < image.bindings.size(); ++b) verify_binding(package, b, names, out);
  verify_weights(package, out);
  verify_batches(image, image.initialize, "initialize", BindingKind::Weight, out);
  verify_batches(image, image.inputs, "inputs", BindingKind::Input, out);
  verify_batches(image, image.outputs, "outputs", BindingKind::Output, out);
  verify_side(package, out);
  return out.text;
}

}  // namespace tw::package
