// What the placer is told of a program: the traffic of its phases as preferred separations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/problems.h"

namespace tw::tile {
namespace {

using testing::ElementsAre;

const Device kDevice;

Buffer buffer(std::uint32_t tile) {
  Buffer b;
  b.tile = TileId(tile);
  b.bytes = 4096;
  return b;
}

Transfer transfer(std::uint32_t source, std::uint32_t words, std::uint32_t receiver,
                  std::uint32_t count = 1) {
  Transfer t;
  t.source = BufferId(source);
  t.words = words;
  t.first_receiver = receiver;
  t.receiver_count = count;
  return t;
}

TEST(Problems, SourcesAndDestinationsOfAPhaseArePreferredApart) {
  Program program;
  // Tile 0: buffers 0, 2, 4; tile 1: buffers 1, 3.
  for (std::uint32_t i = 0; i < 5; ++i) program.buffers.push_back(buffer(i % 2));
  Phase phase;
  phase.iterations = 3;
  phase.transfers = {transfer(0, 100, 0), transfer(0, 60, 1), transfer(1, 40, 2, 2), transfer(3, 8, 4)};
  phase.receivers = {
      {BufferId(1), 0}, {BufferId(3), 0}, {BufferId(2), 0}, {BufferId(4), 0}, {BufferId(0), 2048}};
  program.phases.push_back(phase);
  const auto tiles = placement_problems(kDevice, program, 0x1000, 0x4000);
  // Tile 0 reads 160 words of buffer 0, writes 40 into each of 2 and 4, and 8 into 0 itself, which is no
  // pair. min(160, 40) + 160 / 8 = 60, times three iterations. Requests: 0, 1, 2 for buffers 0, 2, 4.
  EXPECT_THAT(tiles[0].problem.apart,
              ElementsAre(place::Preference{0, 1, 180}, place::Preference{0, 2, 180}));
  // Tile 1 reads 40 of buffer 1 and writes 60 into 3: 40 + 7; reads 8 of 3 and writes 100 into 1: 8 + 12.
  EXPECT_THAT(tiles[1].problem.apart, ElementsAre(place::Preference{0, 1, 3 * (47 + 20)}));
  EXPECT_THAT(tiles[2].problem.apart, ElementsAre());
}

TEST(Problems, PhasesOfOnePairAddUp) {
  Program program;
  program.buffers = {buffer(0), buffer(0), buffer(1)};
  for (const std::uint32_t words : {16u, 80u}) {
    Phase phase;
    phase.transfers = {transfer(0, words, 0), transfer(2, words, 1)};
    phase.receivers = {{BufferId(2), 0}, {BufferId(1), 0}};
    program.phases.push_back(phase);
  }
  const auto tiles = placement_problems(kDevice, program, 0x1000, 0x4000);
  EXPECT_THAT(tiles[0].problem.apart, ElementsAre(place::Preference{0, 1, 16 + 2 + 80 + 10}));
  EXPECT_THAT(tiles[1].problem.apart, ElementsAre());  // one buffer is both
}

}  // namespace
}  // namespace tw::tile
