// Copies: runs between shards, split into what travels and what stays on its tile (compiler.md 4.2).
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

constexpr std::uint32_t kClearGap =
    528;  // 11 cycles x 48 bytes: one more call costs as much (compiler.md 4.2)

// Owners with a shard that no earlier owner has.
std::vector<std::uint32_t> distinct_owners(const Lowering& lowering, TensorId id) {
  const Placed& p = lowering.placed(id);
  std::vector<std::uint32_t> owners;
  for (std::uint32_t o = 0; o < p.canonical.size(); ++o)
    if (p.canonical[o] == o && lowering.buffer(id, o).valid()) owners.push_back(o);
  return owners;
}

}  // namespace

std::vector<tensor::ByteRange> clear_ranges(std::span<const tensor::ByteRange> padding) {
  std::vector<tensor::ByteRange> ranges;
  for (const tensor::ByteRange& p : padding) {
    const tensor::ByteRange r{p.begin / 8 * 8, up(p.end, 8U)};
    if (!ranges.empty() && r.begin <= ranges.back().end + kClearGap) {
      ranges.back().end = std::max(ranges.back().end, r.end);
    } else {
      ranges.push_back(r);
    }
  }
  return ranges;
}

void check_words(const Lowering& lowering, std::span<const tensor::Run> runs, TensorId dst, TensorId src) {
  for (const tensor::Run& r : runs) {
    if ((r.src_offset | r.dst_offset | r.bytes) % 4 == 0) continue;
    throw Error(ErrorKind::SubWord,
                fmt::format("copy of {} ({}) to {} ({}) moves {} bytes from offset {} to {}: not whole words",
                            lowering.tensor(src).name, to_string(lowering.tensor(src).type),
                            lowering.tensor(dst).name, to_string(lowering.tensor(dst).type), r.bytes,
                            r.src_offset, r.dst_offset));
  }
}

std::vector<tensor::Run> movable_runs(const Lowering& lowering, TensorId dst, std::uint32_t owner,
                                      const tensor::CoordMap& map, TensorId src, bool with_padding) {
  const tensor::ResolvedLayout &to = lowering.layout(dst), &from = lowering.layout(src);
  std::vector<tensor::Run> runs =
      with_padding ? tensor::runs_with_padding(to, owner, map, from) : tensor::runs(to, owner, map, from);
  check_words(lowering, runs, dst, src);
  return runs;
}

Mover::Mover(Lowering& lowering, TensorId src, Movement& movement)
    : lowering_(lowering), src_(src), movement_(movement), sent_(lowering.layout(src).owners(), 0) {}

std::uint32_t Mover::holder_on(TileId tile, std::uint32_t canonical) const {
  const Placed& p = lowering_.placed(src_);
  if (tile.value >= p.first_on.size()) return kNone;
  for (std::uint32_t o = p.first_on[tile.value]; o != kNone; o = p.next_on[o])
    if (p.canonical[o] == canonical) return o;
  return kNone;
}

// The replica that has sent least so far, the lowest of equals.
BufferId Mover::choose_source(const tensor::Run& run, std::uint32_t words) {
  const tensor::ResolvedLayout& shards = lowering_.layout(src_);
  std::uint32_t best = run.src_owner;
  for (std::uint32_t r = 1; r < shards.type().layout.tiling.replicas; ++r) {
    const std::uint32_t owner = shards.replica(run.src_owner, r);
    if (sent_[owner] < sent_[best]) best = owner;
  }
  sent_[best] += words;
  return lowering_.buffer(src_, best);
}

void Mover::move(const tensor::Run& run, std::span<const Target> targets) {
  std::vector<Receiver>& receivers = movement_.phase.receivers;
  const auto first = static_cast<std::uint32_t>(receivers.size());
  for (const Target& t : targets) {
    const std::uint32_t here = holder_on(t.tile, run.src_owner);
    if (here == kNone) {
      receivers.push_back({t.buffer, t.base + run.dst_offset});
    } else {
      movement_.local.push_back({t.tile, t.buffer, lowering_.buffer(src_, here), t.base + run.dst_offset,
                                 run.src_offset, run.bytes});
    }
  }
  const std::uint32_t count = static_cast<std::uint32_t>(receivers.size()) - first;
  if (count == 0) return;
  const std::uint32_t words = run.bytes / 4;
  movement_.phase.transfers.push_back({choose_source(run, words), run.src_offset, words, first, count});
}

void Movement::finish(Lowering& lowering) {
  lowering.flush();
  if (!phase.transfers.empty()) {
    phase.iterations = lowering.iterations;
    if (!lowering.inside_repeat)
      for (const Transfer& t : phase.transfers)
        TW_CHECK(lowering.program.buffers[t.source.value].members == 1,
                 "a sequence is used outside its Repeat");
    Step step;
    step.kind = StepKind::Exchange;
    step.phase = static_cast<std::uint32_t>(lowering.program.phases.size());
    lowering.program.phases.push_back(std::move(phase));
    lowering.add_step(step);
  }
  std::stable_sort(local.begin(), local.end(),
                   [](const LocalRun& a, const LocalRun& b) { return a.dst < b.dst; });
  for (std::size_t begin = 0; begin < local.size();) {
    std::size_t end = begin + 1;
    while (end < local.size() && local[end].dst == local[begin].dst) ++end;
    copy_calls(lowering, std::span(local).subspan(begin, end - begin));
    begin = end;
  }
  lowering.flush();
}

bool independent(const plan::Plan& plan, const plan::Copy& first, const plan::Copy& second) {
  const TensorId to = plan.storage_of(second.dst), from = plan.storage_of(second.src);
  return to != plan.storage_of(first.dst) && to != plan.storage_of(first.src) &&
         from != plan.storage_of(first.dst);
}

namespace {

void add_copy(Lowering& lowering, const plan::Copy& copy, Movement& movement) {
  const tensor::ResolvedLayout& to = lowering.layout(copy.dst);
  TW_CHECK(lowering.plan.storage_of(copy.dst) != lowering.plan.storage_of(copy.src),
           "a copy onto its own storage");
  const std::vector<std::uint32_t> owners = distinct_owners(lowering, copy.dst);
  const bool with_padding = copy.move_padding || lowering.clean_padding(copy.src);
  std::vector<std::vector<tensor::Run>> runs(owners.size());
  std::vector<std::vector<tensor::ByteRange>> clears(owners.size());
  parallel_for(owners.size(), 4, lowering.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      runs[i] = movable_runs(lowering, copy.dst, owners[i], copy.map, copy.src, with_padding);
      if (copy.clear_padding)
        clears[i] = clear_ranges(uncovered(tensor::padding_ranges(to, owners[i]), runs[i]));
    }
  });
  Mover mover(lowering, copy.src, movement);
  std::vector<Target> targets;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    targets.clear();
    for (std::uint32_t r = 0; r < to.type().layout.tiling.replicas; ++r) {
      const std::uint32_t owner = to.replica(owners[i], r);
      targets.push_back({lowering.tile_of(copy.dst, owner), lowering.buffer(copy.dst, owner), 0});
      for (const tensor::ByteRange& range : clears[i])
        lowering.fill(targets.back().tile, targets.back().buffer, range.begin, range.end);
    }
    for (const tensor::Run& run : runs[i]) mover.move(run, targets);
  }
}

}  // namespace

void lower_copies(Lowering& lowering, std::span<const plan::Copy* const> copies) {
  Movement movement;
  for (const plan::Copy* copy : copies) add_copy(lowering, *copy, movement);
  movement.finish(lowering);
}

}  // namespace tw::tile
