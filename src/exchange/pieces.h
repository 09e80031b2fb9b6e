// What the scheduler places: coalesced and split pieces of a problem's transfers, grouped into streams, with
// the dependences between them (hardware.md 3.7, 6.5). Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/exchange.h"

namespace tw::exchange {

// A run of pieces of one source and destination set that is placed as a whole.
struct Unit {
  std::uint32_t first = 0, count = 0;  // pieces
  std::uint32_t words = 0;
  std::uint32_t predecessors = 0;  // dependences that end here
};

// `to` must wait for `from` on `tile`: each end is the unit's reads or its writes there.
struct Dependence {
  std::uint32_t from = 0, to = 0;
  PhysId tile;
  bool from_reads = false, to_reads = false;
};

struct Pieces {
  std::vector<Transfer> list;
  std::vector<Receiver> receivers;  // of each piece, ascending by tile
  std::vector<Unit> units;
  std::vector<Dependence> dependences;  // ascending by from
  std::uint32_t iterations = 1;
};

// `no_pairs[tile]`: the tile may not have two controls on one cycle, so pieces whose own pointer and neutral
// coincide there (n = 52 + 2 rho) are halved.
Pieces make_pieces(const Device& device, const Problem& problem, const Options& options,
                   const std::vector<char>& no_pairs);

// Joins list-adjacent transfers whose source and every destination continue (3.7); receivers get sorted by
// tile.
Pieces coalesce(const Problem& problem);

// Dependences between the pieces of `pieces.list` (indexes of pieces, not units); by byte ranges per tile.
std::vector<Dependence> find_dependences(const Pieces& pieces);

// Byte ranges [a, a + bytes + i * stride), i < iterations, and [b, b + other) share a byte.
bool overlaps(std::uint64_t a, std::uint64_t bytes, std::uint64_t stride, std::uint32_t iterations,
              std::uint64_t b, std::uint64_t other);

// Contention elements of a byte range over all iterations as a bit mask; elements 64 apart share a bit, which
// only makes the scheduler more careful.
std::uint64_t element_mask(const Device& device, std::uint32_t address, std::uint32_t bytes,
                           std::uint32_t stride, std::uint32_t iterations);

}  // namespace tw::exchange
