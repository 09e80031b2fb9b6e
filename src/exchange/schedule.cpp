#include <algorithm>
#include <array>

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

// The first suits multicasts and small pieces, the second the rotations of equal blocks.
constexpr std::array<OrderPolicy, 2> kPolicies = {
    {{.slack = 0, .gap_weight = 4}, {.slack = 60, .gap_weight = 0}}};
constexpr std::size_t kRetryTransfers = 150'000;  // step budget: larger phases keep the first order
constexpr std::uint32_t kFixedCycles = 110;       // way in and out of a phase that no order saves

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

// Where a sendpicp cannot be aligned (C2) its tile may not have two controls on one cycle in the next round,
// and after that no tile may, which always encodes. `no_pairs` keeps what was learned.
Schedule schedule_once(const Device& device, const Problem& problem, const Options& options,
                       const OrderPolicy& policy, std::vector<char>& no_pairs) {
  for (bool last = false;;) {
    const Pieces pieces = make_pieces(device, problem, options, no_pairs);
    check_fragments(device, pieces);
    Schedule out = assemble(pieces, place_all(device, pieces, policy, no_pairs));
    const std::vector<PhysId> bad = unalignable_tiles(device, out);
    if (bad.empty()) return out;
    TW_CHECK(!last, "rows without double controls do not encode");
    last = !no_pairs.empty() || bad.size() > kFewTiles;
    no_pairs.assign(topology::kTiles, last);
    for (PhysId tile : bad) no_pairs[tile.value] = 1;
  }
}

}  // namespace

Schedule schedule(const Device& device, const Problem& problem, const Options& options) {
  const std::vector<std::string> faults = verify(device, problem);
  TW_CHECK(faults.empty(), fmt::format("exchange problem: {}", faults.front()));
  const std::uint32_t bound = bound_words(problem);
  std::vector<char> no_pairs;
  Schedule out = schedule_once(device, problem, options, kPolicies[0], no_pairs);
  for (std::size_t i = 1; i < kPolicies.size(); ++i) {
    if (problem.transfers.size() > kRetryTransfers || out.horizon <= bound + bound / 16 + kFixedCycles) break;
    Schedule other = schedule_once(device, problem, options, kPolicies[i], no_pairs);
    if (other.horizon < out.horizon) out = std::move(other);
  }
  out.bound_words = bound;
  return out;
}

}  // namespace tw::exchange
