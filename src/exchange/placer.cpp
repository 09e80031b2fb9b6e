#include "exchange/placer.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::uint32_t kWriteGuard = 5;     // 1.4: receive window [P, P + n + 5)
constexpr std::uint32_t kLatest = 1u << 28;  // no phase comes near: a search that passes it does not end

std::uint32_t mux_to_store(PhysId tile) { return 52 + 2 * topology::row_of(tile); }

}  // namespace

Placer::Placer(const Device& device, const Pieces& pieces, const std::vector<char>& no_pairs)
    : device_(device), pieces_(pieces), no_pairs_(no_pairs) {
  std::uint32_t tiles = 0;
  for (const Transfer& t : pieces.list) tiles = std::max(tiles, t.source.value + 1);
  for (const Receiver& r : pieces.receivers) tiles = std::max(tiles, r.tile.value + 1);
  tiles_.resize(tiles);
  send_end_.assign(tiles, 0);
  mux_end_.assign(tiles, 0);
  tau_.resize(pieces.receivers.size());
  first_start_.reserve(pieces.list.size());
  std::uint32_t shortest = kLatest;
  for (const Transfer& t : pieces.list) {
    int start = 0;
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const int tau = topology::tau(t.source, pieces.receivers[k].tile);
      tau_[k] = static_cast<std::int16_t>(tau);
      start = std::max(start, -tau);
    }
    first_start_.push_back(static_cast<std::uint32_t>(start));
    shortest = std::min(shortest, t.words);
  }
  if (shortest != kLatest) fill_ = shortest;
  find_contention();
}

void Placer::find_contention() {
  std::vector<std::uint64_t> read(tiles_.size(), 0), written(tiles_.size(), 0);
  for (const Transfer& t : pieces_.list) {
    read[t.source.value] |=
        element_mask(device_, t.source_address, 4 * t.words, t.source_stride, pieces_.iterations);
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const Receiver& r = pieces_.receivers[k];
      written[r.tile.value] |= element_mask(device_, r.address, 4 * t.words, 0, 1);
    }
  }
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    tiles_[i].contended = read[i] & written[i];
    if (tiles_[i].contended == 0) continue;
    tiles_[i].elements.resize(64);
    for (std::uint64_t m = tiles_[i].contended; m != 0; m &= m - 1) {
      tiles_[i].elements[static_cast<std::size_t>(std::countr_zero(m))] = std::make_unique<ElementLanes>();
    }
  }
  find_piece_elements();
}

void Placer::find_piece_elements() {
  source_elements_.assign(pieces_.list.size(), 0);
  receiver_elements_.assign(pieces_.receivers.size(), 0);
  contended_.assign(pieces_.list.size(), 0);
  for (std::size_t i = 0; i < pieces_.list.size(); ++i) {
    const Transfer& t = pieces_.list[i];
    std::uint64_t all = 0;
    if (const std::uint64_t both = tiles_[t.source.value].contended) {
      all = source_elements_[i] =
          both & element_mask(device_, t.source_address, 4 * t.words, t.source_stride, pieces_.iterations);
    }
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const Receiver& r = pieces_.receivers[k];
      const std::uint64_t both = tiles_[r.tile.value].contended;
      if (both == 0) continue;
      all |= receiver_elements_[k] = both & element_mask(device_, r.address, 4 * t.words, 0, 1);
    }
    contended_[i] = all != 0;
    any_contended_ |= all != 0;
  }
}

std::uint32_t Placer::behind_contention(std::uint32_t piece, std::uint32_t s) const {
  const Transfer& t = pieces_.list[piece];
  for (std::uint64_t m = source_elements_[piece]; m != 0; m &= m - 1) {
    const auto e = static_cast<std::size_t>(std::countr_zero(m));
    s = std::max(s, tiles_[t.source.value].elements[e]->writes.end());
  }
  auto start = static_cast<int>(s);
  for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
    const PhysId r = pieces_.receivers[k].tile;
    const int stored = tau_[k] + 1 + static_cast<int>(mux_to_store(r));
    for (std::uint64_t m = receiver_elements_[k]; m != 0; m &= m - 1) {
      const auto e = static_cast<std::size_t>(std::countr_zero(m));
      start = std::max(start, static_cast<int>(tiles_[r.value].elements[e]->reads.end()) - stored);
    }
  }
  return static_cast<std::uint32_t>(start);
}

std::uint32_t Placer::try_source(const Transfer& t, std::uint64_t elements, std::uint32_t s) const {
  const TileTimeline& tile = tiles_[t.source.value];
  s = tile.send.next_free(s, t.words);
  for (std::uint64_t m = elements; m != 0; m &= m - 1) {
    s = tile.elements[static_cast<std::size_t>(std::countr_zero(m))]->writes.next_free(s, t.words);
  }
  while (tile.control_at(s + 1)) ++s;  // S2
  return s;
}

bool Placer::receiver_blocked(const Transfer& t, const Receiver& r, std::uint32_t start, std::uint32_t x,
                              std::uint32_t pointer) const {
  const TileTimeline& tile = tiles_[r.tile.value];
  const std::uint32_t neutral = x + t.words;
  if (tile.starts.test(x - 1) || tile.starts.test(neutral - 1) || tile.starts.test(pointer - 1))
    return true;  // S2
  if (r.tile == t.source && (x == start + 1 || neutral == start + 1 || pointer == start + 1)) return true;
  if (no_pairs_.empty() || !no_pairs_[r.tile.value]) return false;
  return tile.pointers.test(x) || tile.pointers.test(neutral) || tile.selects.test(pointer);
}

std::uint32_t Placer::try_receivers(const Transfer& t, std::uint32_t s) const {
  for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
    const Receiver& r = pieces_.receivers[k];
    const TileTimeline& tile = tiles_[r.tile.value];
    const auto x = static_cast<std::uint32_t>(static_cast<int>(s) + tau_[k] + 1);
    std::uint32_t moved = tile.mux.next_free(x, t.words);
    for (std::uint64_t m = receiver_elements_[k]; m != 0; m &= m - 1) {
      const std::uint32_t p = moved + mux_to_store(r.tile);
      const Lane& reads = tile.elements[static_cast<std::size_t>(std::countr_zero(m))]->reads;
      moved += reads.next_free(p, t.words + kWriteGuard) - p;
    }
    s += moved - x;
    if (moved == x && receiver_blocked(t, r, s, x, x + mux_to_store(r.tile))) ++s;
  }
  return s;
}

std::uint32_t Placer::place(std::uint32_t piece, std::uint32_t lower) {
  const Transfer& t = pieces_.list[piece];
  const std::uint64_t elements = source_elements_[piece];
  std::uint32_t s = std::max(lower, first_start_[piece]);
  for (;;) {
    const std::uint32_t tried = s;
    s = try_receivers(t, try_source(t, elements, s));
    if (s == tried) break;
    TW_CHECK(s < kLatest, "no legal start for an exchange piece");
  }
  occupy(t, elements, s);
  return s;
}

void Placer::occupy(const Transfer& t, std::uint64_t elements, std::uint32_t s) {
  TileTimeline& source = tiles_[t.source.value];
  source.send.insert(s, s + t.words, fill_);
  source.starts.set(s);
  for (std::uint64_t m = elements; m != 0; m &= m - 1) {
    source.elements[static_cast<std::size_t>(std::countr_zero(m))]->reads.insert(s, s + t.words, fill_);
  }
  send_end_[t.source.value] = std::max(send_end_[t.source.value], s + t.words);
  for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
    const Receiver& r = pieces_.receivers[k];
    TileTimeline& tile = tiles_[r.tile.value];
    const auto x = static_cast<std::uint32_t>(static_cast<int>(s) + tau_[k] + 1);
    const std::uint32_t pointer = x + mux_to_store(r.tile);
    tile.mux.insert(x, x + t.words, fill_);
    tile.selects.set(x);
    tile.selects.set(x + t.words);
    tile.pointers.set(pointer);
    for (std::uint64_t m = receiver_elements_[k]; m != 0; m &= m - 1) {
      tile.elements[static_cast<std::size_t>(std::countr_zero(m))]->writes.insert(
          pointer, pointer + t.words + kWriteGuard, fill_);
    }
    mux_end_[r.tile.value] = std::max(mux_end_[r.tile.value], x + t.words);
  }
}

}  // namespace tw::exchange
