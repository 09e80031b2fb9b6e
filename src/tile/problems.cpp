#include "tile/problems.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "target/topology.h"

namespace tw::tile {
namespace {

// Planned data may stand below the code, between row table and region 1, and in region 1 (compiler.md 8.4).
std::vector<place::Range> free_ranges(const Device& device, std::uint32_t code_bytes,
                                      std::uint32_t row_bytes) {
  const std::uint32_t rows = device.code_base + up(code_bytes + device.fetch_guard, device.element_bytes);
  const std::uint32_t behind = rows + row_bytes;
  std::vector<place::Range> ranges = {{device.data_base, device.code_base}};
  if (behind < device.interleaved_base) ranges.push_back({behind, device.interleaved_base});
  ranges.push_back({device.interleaved_base, device.loader_end});
  return ranges;
}

place::Request request_of(const Buffer& b) {
  place::Request r;
  r.bytes = b.stride() * (b.members - 1) + b.bytes + b.tail;
  r.alignment = b.alignment;
  r.cls = b.memory == tensor::MemoryClass::Interleaved ? place::Class::Interleaved : place::Class::Standard;
  r.first = b.first;
  r.last = b.last == kForever ? place::kForever : b.last;
  return r;
}

// One preference for each pair.
void add_up(std::vector<place::Preference>& apart) {
  std::ranges::sort(apart, {}, [](const place::Preference& p) { return std::pair(p.a, p.b); });
  std::size_t kept = 0;
  for (const place::Preference& p : apart) {
    if (kept > 0 && apart[kept - 1].a == p.a && apart[kept - 1].b == p.b)
      apart[kept - 1].weight += p.weight;
    else
      apart[kept++] = p;
  }
  apart.resize(kept);
}

// Words that a phase reads from and writes into the buffers of each tile.
class Traffic {
 public:
  struct Use {
    std::uint32_t buffer = 0;
    std::uint64_t read = 0, written = 0;
  };

  explicit Traffic(const Program& program, std::uint32_t tiles)
      : program_(program), of_tile_(tiles), entry_(program.buffers.size(), kNone) {}

  void count(const Phase& phase) {
    for (std::uint32_t tile : active_) {
      for (const Use& u : of_tile_[tile]) entry_[u.buffer] = kNone;
      of_tile_[tile].clear();
    }
    active_.clear();
    for (const Transfer& t : phase.transfers) {
      use(t.source).read += t.words;
      for (std::uint32_t k = 0; k < t.receiver_count; ++k)
        use(phase.receivers[t.first_receiver + k].buffer).written += t.words;
    }
  }
  const std::vector<std::uint32_t>& active() const { return active_; }  // tiles
  const std::vector<Use>& of(std::uint32_t tile) const { return of_tile_[tile]; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  Use& use(BufferId id) {
    const std::uint32_t tile = program_.buffers[id.value].tile.value;
    std::vector<Use>& uses = of_tile_[tile];
    std::uint32_t& entry = entry_[id.value];
    if (entry == kNone) {
      if (uses.empty()) active_.push_back(tile);
      entry = static_cast<std::uint32_t>(uses.size());
      uses.push_back({id.value});
    }
    return uses[entry];
  }

  const Program& program_;
  std::vector<std::vector<Use>> of_tile_;
  std::vector<std::uint32_t> entry_;  // per buffer: its place in of_tile_
  std::vector<std::uint32_t> active_;
};

// Cycles that a phase may lose when sends from a and receives into b must not meet: the shorter stream has to
// wait for the longer or the other way round, and tiles behind it wait with it.
std::uint64_t loss(const Traffic::Use& a, const Traffic::Use& b) {
  return std::min(a.read, b.written) + std::max(a.read, b.written) / 8;
}

// Sources and destinations of one phase on one tile had better stand in different elements (hardware.md 1.4).
void prefer_apart(const Program& program, const std::vector<std::uint32_t>& index,
                  std::vector<TilePlacement>& tiles) {
  Traffic traffic(program, static_cast<std::uint32_t>(tiles.size()));
  for (const Phase& phase : program.phases) {
    traffic.count(phase);
    for (std::uint32_t tile : traffic.active()) {
      for (const Traffic::Use& a : traffic.of(tile)) {
        if (a.read == 0) continue;
        for (const Traffic::Use& b : traffic.of(tile)) {
          if (b.written == 0 || a.buffer == b.buffer) continue;
          const auto [low, high] = std::minmax(index[a.buffer], index[b.buffer]);
          tiles[tile].problem.apart.push_back({low, high, loss(a, b) * phase.iterations});
        }
      }
    }
  }
  for (TilePlacement& t : tiles) add_up(t.problem.apart);
}

}  // namespace

std::vector<TilePlacement> placement_problems(const Device& device, const Program& program,
                                              std::uint32_t code_bytes, std::uint32_t row_bytes) {
  std::vector<TilePlacement> tiles(device.tiles);
  for (TilePlacement& t : tiles) {
    t.problem.free = free_ranges(device, code_bytes, row_bytes);
    t.problem.aperture = {{device.aperture_begin, device.aperture_end}};
  }
  std::vector<std::uint32_t> index(program.buffers.size());
  for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    TW_CHECK(b.tile.value < device.tiles, "buffer on a tile that the device has");
    TilePlacement& t = tiles[b.tile.value];
    index[i] = static_cast<std::uint32_t>(t.buffers.size());
    t.buffers.push_back(BufferId(i));
    t.problem.requests.push_back(request_of(b));
  }
  for (const auto& [a, b] : program.separate)
    tiles[program.buffers[a.value].tile.value].problem.separate.emplace_back(index[a.value], index[b.value]);
  prefer_apart(program, index, tiles);
  return tiles;
}

exchange::Problem exchange_problem(const Program& program, const Phase& phase, const Addresses& addresses) {
  exchange::Problem problem;
  problem.iterations = phase.iterations;
  problem.transfers.reserve(phase.transfers.size());
  problem.receivers.reserve(phase.receivers.size());
  for (const Transfer& t : phase.transfers) {
    const Buffer& b = program.buffers[t.source.value];
    exchange::Transfer out;
    out.source = topology::physical(b.tile);
    out.source_address = addresses.of[t.source.value] + t.source_offset;
    out.source_stride = b.members > 1 && phase.iterations > 1 ? b.stride() : 0;
    out.words = t.words;
    out.first_receiver = t.first_receiver;
    out.receiver_count = t.receiver_count;
    problem.transfers.push_back(out);
  }
  for (const Receiver& r : phase.receivers)
    problem.receivers.push_back(
        {topology::physical(program.buffers[r.buffer.value].tile), addresses.of[r.buffer.value] + r.offset});
  return problem;
}

}  // namespace tw::tile
