#include "exchange/rounds.h"

#include <algorithm>

namespace tw::exchange {
namespace {

constexpr std::uint32_t kMaxLayer = 32;  // longer chains share a round at their end

// From every contended source to the contended tiles it sends to.
struct Graph {
  std::vector<std::vector<std::uint32_t>> to;
  std::vector<std::uint32_t> arriving;  // edges per tile
};

Graph contended_edges(const Pieces& pieces, const Placer& placer, std::uint32_t tiles) {
  Graph g;
  g.to.resize(tiles);
  g.arriving.assign(tiles, 0);
  for (const Unit& u : pieces.units) {
    if (!placer.reads_contended(u.first)) continue;
    const Transfer& t = pieces.list[u.first];
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const std::uint32_t r = pieces.receivers[k].tile.value;
      if (!placer.contended_tile(PhysId(r))) continue;
      g.to[t.source.value].push_back(r);
      ++g.arriving[r];
    }
  }
  return g;
}

// Longest chain of edges in front of each tile; tiles on or behind cycles get the largest.
std::vector<std::uint32_t> layers_of(Graph g) {
  const auto tiles = static_cast<std::uint32_t>(g.to.size());
  std::vector<std::uint32_t> layer(tiles, 0), ready;
  for (std::uint32_t t = 0; t < tiles; ++t) {
    if (g.arriving[t] == 0) ready.push_back(t);
  }
  std::uint32_t deepest = 0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::uint32_t next = std::min(layer[ready[i]] + 1, kMaxLayer);
    deepest = std::max(deepest, next);
    for (std::uint32_t r : g.to[ready[i]]) {
      layer[r] = std::max(layer[r], next);
      if (--g.arriving[r] == 0) ready.push_back(r);
    }
  }
  for (std::uint32_t t = 0; t < tiles; ++t) {
    if (g.arriving[t] != 0) layer[t] = deepest;
  }
  return layer;
}

}  // namespace

std::vector<std::uint32_t> unit_rounds(const Pieces& pieces, const Placer& placer) {
  const std::vector<std::uint32_t> layer = layers_of(contended_edges(pieces, placer, placer.tiles()));
  const std::uint32_t deepest = layer.empty() ? 0 : *std::ranges::max_element(layer);
  std::vector<std::uint32_t> rounds;
  rounds.reserve(pieces.units.size());
  for (const Unit& u : pieces.units) {
    const std::uint32_t source = pieces.list[u.first].source.value;
    rounds.push_back(placer.reads_contended(u.first) ? deepest - layer[source] : deepest + 1);
  }
  return rounds;
}

}  // namespace tw::exchange
