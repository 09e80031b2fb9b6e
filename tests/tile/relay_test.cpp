// Relay gathers (compiler.md 10) on hand-made phases: what is delivered stays the same, and they are refused
// where they save nothing.
#include "tile/relay.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace tw::tile {
namespace {

constexpr std::uint32_t kTiles = 64;

BufferId add_buffer(Program& program, std::uint32_t tile, std::uint32_t bytes) {
  Buffer b;
  b.tile = TileId(tile);
  b.bytes = bytes;
  b.first = 1;
  b.last = 3;
  b.tensor = TensorId(0);
  program.buffers.push_back(b);
  return BufferId(static_cast<std::uint32_t>(program.buffers.size() - 1));
}

// `sources` tiles send one fragment of `words` words each to the same `receivers` shards.
Program gather_phase(std::uint32_t sources, std::uint32_t receivers, std::uint32_t words) {
  Program program;
  std::vector<BufferId> destinations;
  for (std::uint32_t r = 0; r < receivers; ++r)
    destinations.push_back(add_buffer(program, r, sources * 4 * words));
  Phase phase;
  for (std::uint32_t s = 0; s < sources; ++s) {
    const BufferId source = add_buffer(program, receivers + s, 4 * words);
    phase.transfers.push_back(
        {source, 0, words, static_cast<std::uint32_t>(phase.receivers.size()), receivers});
    for (const BufferId d : destinations) phase.receivers.push_back({d, s * 4 * words});
  }
  program.phases.push_back(std::move(phase));
  Step step;
  step.kind = StepKind::Exchange;
  program.steps.push_back(step);
  return program;
}

// Bytes of every buffer after the phase, transfers taken in list order; sources hold their own buffer number.
std::map<std::uint32_t, std::vector<std::uint32_t>> deliver(const Program& program) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> memory;
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b)
    memory[b].assign(program.buffers[b].bytes / 4, b);
  for (const Transfer& t : program.phases[0].transfers) {
    const std::vector<std::uint32_t> source = memory[t.source.value];
    for (std::uint32_t r = 0; r < t.receiver_count; ++r) {
      const Receiver& to = program.phases[0].receivers[t.first_receiver + r];
      for (std::uint32_t w = 0; w < t.words; ++w)
        memory[to.buffer.value].at(to.offset / 4 + w) = source.at(t.source_offset / 4 + w);
    }
  }
  return memory;
}

// A scheduler stand-in: every fragment costs its endpoint its words and a fixed gap, in cycles and in row
// bytes.
PhasePrice fragment_price(const Program& program, const Phase& phase) {
  std::vector<std::uint64_t> sends(kTiles, 0), receives(kTiles, 0);
  PhasePrice price;
  price.row_bytes.assign(kTiles, 8);
  constexpr std::uint32_t kGap = 12, kBytes = 8;
  for (const Transfer& t : phase.transfers) {
    const std::uint32_t from = program.buffers[t.source.value].tile.value;
    sends[from] += t.words + kGap;
    price.row_bytes[from] += kBytes;
    for (std::uint32_t r = 0; r < t.receiver_count; ++r) {
      const std::uint32_t to = program.buffers[phase.receivers[t.first_receiver + r].buffer.value].tile.value;
      receives[to] += t.words + kGap;
      price.row_bytes[to] += kBytes;
    }
  }
  for (std::uint32_t t = 0; t < kTiles; ++t)
    price.cycles = std::max(price.cycles, std::max(sends[t], receives[t]));
  return price;
}

TEST(Relay, GathersSmallFragmentsOnceAndDeliversTheSame) {
  const Program direct = gather_phase(40, 8, 8);
  Program relayed = direct;
  const RelayReport report = insert_relays(relayed, kTiles, fragment_price);
  ASSERT_EQ(report.phases, 1U);
  EXPECT_EQ(report.fragments_before, 40U * (1 + 8));
  // Forty gathers of one receiver each, eight forwards (five fragments a relay) to eight receivers each.
  EXPECT_EQ(report.fragments_after, 40U * 2 + 8 * (1 + 8));
  ASSERT_EQ(relayed.buffers.size(), direct.buffers.size() + 8);
  EXPECT_EQ(relayed.buffers[direct.buffers.size()].tile, TileId(kTiles - 1))
      << "the highest free tile relays";
  EXPECT_EQ(relayed.buffers.back().first, 1U);
  EXPECT_EQ(relayed.buffers.back().last, 1U);
  const auto expected = deliver(direct), actual = deliver(relayed);
  for (const auto& [buffer, words] : expected) EXPECT_EQ(actual.at(buffer), words) << buffer;
}

TEST(Relay, RefusesWhatSavesNothing) {
  Program single = gather_phase(1, 8, 64);  // one message already
  EXPECT_EQ(insert_relays(single, kTiles, fragment_price).phases, 0U);
  Program unicast = gather_phase(40, 1, 8);  // nothing is sent twice
  EXPECT_EQ(insert_relays(unicast, kTiles, fragment_price).phases, 0U);
  Program large = gather_phase(3, 8, 1024);  // payload, not controls, sets the time: the detour costs
  EXPECT_EQ(insert_relays(large, kTiles, fragment_price).phases, 0U);
}

TEST(Relay, LeavesAPhaseDirectWhenTilesRunOut) {
  Program program = gather_phase(40, 8, 8);
  const std::size_t transfers = program.phases[0].transfers.size();
  // All ten tiles are ends of the first part.
  EXPECT_EQ(insert_relays(program, 10, fragment_price).phases, 0U);
  EXPECT_EQ(program.phases[0].transfers.size(), transfers);
}

TEST(Relay, KeepsGapsApart) {
  Program program = gather_phase(40, 8, 8);
  for (std::uint32_t s = 20; s < 40; ++s) {  // second half of the destination moves up: two pieces
    Transfer& t = program.phases[0].transfers[s];
    for (std::uint32_t r = 0; r < t.receiver_count; ++r)
      program.phases[0].receivers[t.first_receiver + r].offset += 64;
  }
  for (std::uint32_t r = 0; r < 8; ++r) program.buffers[r].bytes += 64;
  const Program direct = program;
  ASSERT_EQ(insert_relays(program, kTiles, fragment_price).phases, 1U);
  EXPECT_EQ(program.buffers.size(), direct.buffers.size() + 10);  // two gapless halves of five relays each
  const auto expected = deliver(direct), actual = deliver(program);
  for (const auto& [buffer, words] : expected) EXPECT_EQ(actual.at(buffer), words) << buffer;
}

}  // namespace
}  // namespace tw::tile
