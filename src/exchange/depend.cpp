// Dependences of hardware.md 3.7: a later transfer that reads what an earlier one writes, or overwrites what
// an earlier one reads or writes.
#include <algorithm>
#include <tuple>

#include "exchange/pieces.h"

namespace tw::exchange {
namespace {

struct Access {
  std::uint32_t begin = 0, end = 0;  // bytes over all iterations
  std::uint32_t piece = 0;
  bool reads = false;
};

std::vector<std::vector<Access>> accesses_by_tile(const Pieces& p) {
  std::uint32_t tiles = 0;
  for (const Transfer& t : p.list) tiles = std::max(tiles, t.source.value + 1);
  for (const Receiver& r : p.receivers) tiles = std::max(tiles, r.tile.value + 1);
  std::vector<std::vector<Access>> tile(tiles);
  for (std::uint32_t i = 0; i < p.list.size(); ++i) {
    const Transfer& t = p.list[i];
    const std::uint32_t last = t.source_address + t.source_stride * (p.iterations - 1);
    tile[t.source.value].push_back({t.source_address, last + 4 * t.words, i, true});
    for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
      const Receiver& r = p.receivers[t.first_receiver + k];
      tile[r.tile.value].push_back({r.address, r.address + 4 * t.words, i, false});
    }
  }
  return tile;
}

// Both ranges really meet in some iteration, not only between two iterations' sources.
bool meet(const Pieces& p, const Access& a, const Access& b) {
  const Access& moving = a.reads ? a : b;
  const Access& fixed = a.reads ? b : a;
  if (!moving.reads) return true;
  const Transfer& t = p.list[moving.piece];
  return overlaps(t.source_address, 4ull * t.words, t.source_stride, p.iterations, fixed.begin,
                  fixed.end - fixed.begin);
}

// `all` is sorted by begin. False only when no write meets anything.
bool may_meet(const std::vector<Access>& all) {
  std::uint32_t end_any = 0, end_write = 0;
  for (const Access& a : all) {
    if (a.begin < (a.reads ? end_write : end_any)) return true;
    end_any = std::max(end_any, a.end);
    if (!a.reads) end_write = std::max(end_write, a.end);
  }
  return false;
}

void pair_up(const Pieces& p, PhysId tile, const std::vector<Access>& all, std::vector<Dependence>& out) {
  std::vector<Access> reads, writes;  // that reach the current begin
  for (const Access& a : all) {
    auto compare = [&](std::vector<Access>& open) {
      std::erase_if(open, [&](const Access& o) { return o.end <= a.begin; });
      for (const Access& o : open) {
        if (o.piece == a.piece || !meet(p, o, a)) continue;
        const Access &early = o.piece < a.piece ? o : a, &late = o.piece < a.piece ? a : o;
        out.push_back({early.piece, late.piece, tile, early.reads, late.reads});
      }
    };
    compare(writes);
    if (!a.reads) compare(reads);
    (a.reads ? reads : writes).push_back(a);
  }
}

}  // namespace

std::vector<Dependence> find_dependences(const Pieces& p) {
  std::vector<Dependence> out;
  auto tile = accesses_by_tile(p);
  for (std::uint32_t i = 0; i < tile.size(); ++i) {
    std::ranges::sort(tile[i], [](const Access& a, const Access& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.piece < b.piece;
    });
    if (may_meet(tile[i])) pair_up(p, PhysId(i), tile[i], out);
  }
  std::ranges::sort(out, {}, [](const Dependence& d) {
    return std::tuple(d.from, d.to, d.tile, d.from_reads, d.to_reads);
  });
  return out;
}

}  // namespace tw::exchange
