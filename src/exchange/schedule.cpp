#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "base/parallel.h"
#include "exchange/order.h"
#include "exchange/pieces.h"
#include "exchange/row.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::size_t kFewTiles = 8;  // rows that cannot be aligned and are worth a round of their own

// Suits multicasts and small pieces.
constexpr OrderPolicy kFirst{.slack = 0, .gap_weight = 4};
// Worth a try where the first is not near the bound: the rotations of equal blocks gain from kPlain,
// half-duplex tiles from one of the others, single receivers rather from the first of them and multicasts
// from the last.
constexpr std::array<OrderPolicy, 1> kPlain = {{{.slack = 60, .gap_weight = 0}}};
constexpr std::array<OrderPolicy, 3> kContended = {{{.slack = 0, .gap_weight = 16, .see_contention = true},
                                                    {.slack = 0, .gap_weight = 4, .in_rounds = true},
                                                    {.slack = 60, .gap_weight = 16, .see_contention = true}}};
constexpr std::size_t kRetryTransfers = 150'000;  // step budget: larger phases keep the first order
constexpr std::size_t kRetryOnce =
    60'000;  // deliveries: contended phases beyond have one retry, if bad at all
constexpr std::uint32_t kFixedCycles = 110;  // way in and out of a phase that no order saves

Schedule assemble(const Pieces& pieces, const std::vector<std::uint32_t>& starts) {
  Schedule out;
  out.iterations = pieces.iterations;
  out.receivers = pieces.receivers;
  out.messages.reserve(pieces.list.size());
  for (std::size_t i = 0; i < pieces.list.size(); ++i) {
    const Transfer& t = pieces.list[i];
    out.messages.push_back({t, starts[i]});
    out.horizon = std::max(out.horizon, std::max(starts[i] + t.words, 6u));
    for (std::uint32_t k = t.first_receiver; k < t.first_receiver + t.receiver_count; ++k) {
      const auto stored = static_cast<std::uint32_t>(topology::lambda(t.source, pieces.receivers[k].tile));
      out.horizon = std::max(out.horizon, starts[i] + stored + t.words + 5);
    }
  }
  return out;
}

// Policy limit of sends + receives per tile.
void check_fragments(const Device& device, const Pieces& pieces) {
  std::vector<std::uint32_t> fragments(device.tiles, 0);
  for (const Transfer& t : pieces.list) ++fragments[t.source.value];
  for (const Receiver& r : pieces.receivers) ++fragments[r.tile.value];
  for (std::uint32_t i = 0; i < device.tiles; ++i) {
    if (fragments[i] <= device.fragment_limit) continue;
    throw Error(ErrorKind::Fragments,
                fmt::format("exchange phase: physical tile {} has {} fragments, the limit is {}", i,
                            fragments[i], device.fragment_limit));
  }
}

std::vector<PhysId> unalignable_tiles(const Device& device, const Schedule& schedule) {
  const std::vector<TileWork> work = work_by_tile(device, schedule);
  std::vector<char> bad(work.size(), 0);
  parallel_for(work.size(), 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) bad[i] = !alignable(work[i]);
  });
  std::vector<PhysId> tiles;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (bad[i]) tiles.push_back(work[i].tile);
  }
  return tiles;
}

// What trials of one problem share. `no_pairs` keeps what was learned of rows that cannot be aligned.
struct Shared {
  const Device& device;
  const Problem& problem;
  const Options& options;
  std::vector<char> no_pairs;
  Pieces pieces;  // for these no_pairs
  bool contended = false;
};

void cut(Shared& shared) {
  shared.pieces = make_pieces(shared.device, shared.problem, shared.options, shared.no_pairs);
  check_fragments(shared.device, shared.pieces);
}

// Replaces `best` when the order leads to a shorter schedule. Where a sendpicp cannot be aligned (C2) its
// tile may not have two controls on one cycle in the next round, and after that no tile may, which always
// encodes.
void try_order(Shared& shared, const OrderPolicy& policy, std::optional<Schedule>& best) {
  for (bool last = false;;) {
    const Placement placement = place_all(shared.device, shared.pieces, policy, shared.no_pairs);
    shared.contended = placement.contended;
    Schedule out = assemble(shared.pieces, placement.starts);
    if (best && out.horizon >= best->horizon) return;
    const std::vector<PhysId> bad = unalignable_tiles(shared.device, out);
    if (bad.empty()) {
      best = std::move(out);
      return;
    }
    TW_CHECK(!last, "rows without double controls do not encode");
    last = !shared.no_pairs.empty() || bad.size() > kFewTiles;
    shared.no_pairs.assign(topology::kTiles, last);
    for (PhysId tile : bad) shared.no_pairs[tile.value] = 1;
    cut(shared);
  }
}

// Orders to try after the first.
std::span<const OrderPolicy> alternatives(const Problem& problem, bool contended, bool bad) {
  if (problem.transfers.size() > kRetryTransfers) return {};
  if (!contended) return kPlain;
  const std::span<const OrderPolicy> all = kContended;
  if (problem.receivers.size() <= kRetryOnce) return all;
  if (!bad) return {};
  return problem.receivers.size() > 2 * problem.transfers.size() ? all.last(1) : all.first(1);
}

}  // namespace

Schedule schedule(const Device& device, const Problem& problem, const Options& options) {
  const std::vector<std::string> faults = verify(device, problem);
  TW_CHECK(faults.empty(), fmt::format("exchange problem: {}", faults.front()));
  const std::uint64_t bound = bound_words(problem);
  Shared shared{device, problem, options, {}, {}, false};
  cut(shared);
  std::optional<Schedule> best;
  try_order(shared, kFirst, best);
  const bool bad = best->horizon > bound + bound / 4 + kFixedCycles;
  for (const OrderPolicy& policy : alternatives(problem, shared.contended, bad)) {
    if (best->horizon <= bound + bound / 16 + kFixedCycles) break;
    try_order(shared, policy, best);
  }
  best->bound_words = static_cast<std::uint32_t>(bound);
  return std::move(*best);
}

}  // namespace tw::exchange
