#include "report/row.h"

#include <gmock/gmock.h>

#include "sample.h"
#include "target/topology.h"

namespace tw::report {
namespace {

Row row_of(const std::vector<std::uint32_t>& words, std::uint32_t logical_tile = 0) {
  package::Package p = sample();
  p.image.blobs[3] = bytes_of(words);
  return read_row(TileMemory(p.image, 0), kRows, topology::physical(TileId(logical_tile)).value);
}

// hardware.md 3.3, "0 -> 1286, 3 w", receiver: X = 113, P = X + 52, horizon P + 3 + 5. The pointer is patched
// in.
TEST(ReportRow, ReadsTheReceiverOfAPublishedVector) {
  const Row row = row_of({0x641c0000, 0x64008640, 0x61800000 | 0x1C000, 0x40a00007, isa::kReturnWord}, 1286);
  EXPECT_EQ(row.fault, "");
  ASSERT_EQ(row.windows.size(), 1U);
  EXPECT_EQ(row.windows[0].begin, 113U);
  EXPECT_EQ(row.windows[0].words, 3U);
  EXPECT_EQ(row.windows[0].source, 0U);
  EXPECT_EQ(row.windows[0].address, 0x70000U);
  EXPECT_EQ(row.events, 113U + 52 + 3 + 5);
  EXPECT_EQ(row.bytes, 20U);
  EXPECT_EQ(row.received, 3U);
  EXPECT_EQ(row.messages, 0U);
}

// "32 -> 0, 4148 w", sender: one message of 52 + 4096 words behind 109 idle events.
TEST(ReportRow, ReadsTheSenderOfAPublishedVector) {
  const Row row = row_of({0x40a0006c, 0x7fe00001, 0x766fc001, isa::kReturnWord}, 32);
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.messages, 1U);
  EXPECT_EQ(row.sent, 64U + 4084);
  EXPECT_EQ(row.events, 109U + 4148);
  EXPECT_TRUE(row.windows.empty());
}

// Two turns side by side: the first word of the second goes where the pointer has come to, unless it is set.
TEST(ReportRow, TheRunningPointerTellsWhereAWindowGoes) {
  using namespace isa;
  std::vector<std::uint32_t> words = {
      delayxpic(10, 0, 5),      delayxpic(20, 0, 6), delayxpic(4, 0, kMuxNeutral),
      delaypic(28, 0, 0x1C000), delay(100),          kReturnWord};
  Row row = row_of(words);  // tile 0 is in row 0: written 52 events behind the mux, from event 62 on
  ASSERT_EQ(row.windows.size(), 2U);
  EXPECT_EQ(row.windows[0].address, 0x70000U);
  EXPECT_EQ(row.windows[1].address, 0x70000U + 4 * 20);
  words.insert(words.begin() + 4, delaypic(20, 0, 0x1D000));
  row = row_of(words);
  EXPECT_EQ(row.windows[0].address, 0x70000U);
  EXPECT_EQ(row.windows[1].address, 0x74000U);
}

TEST(ReportRow, TensorsAreThoseThatLiveAtTheStep) {
  Row row;
  row.windows = {{0, 4, 1, 0x70000}, {4, 4, 1, 0x7000C}, {8, 4, 1, 0x70010}, {12, 4, 1, 0x6FFFC}};
  // tensor, address, bytes, taken, first, last: the second has the place of the first later on
  const std::vector<Buffer> buffers = {{3, 0x70000, 12, 16, 1, 5}, {4, 0x70000, 64, 64, 6, 9}};
  name_tensors(row, buffers, 5);
  using W = Window;
  EXPECT_THAT(std::vector({row.windows[0].tensor, row.windows[1].tensor, row.windows[2].tensor,
                           row.windows[3].tensor}),
              testing::ElementsAre(3U, 3U, W::kNoTensor, W::kNoTensor));
  name_tensors(row, buffers, 6);
  EXPECT_EQ(row.windows[2].tensor, 4U);
}

TEST(ReportRow, WhatDoesNotBelongInARowIsAFault) {
  EXPECT_NE(row_of({isa::delay(5)}).fault, "");  // no return
  EXPECT_NE(row_of({isa::setzi(1, 1), isa::kReturnWord}).fault, "");
}

}  // namespace
}  // namespace tw::report
