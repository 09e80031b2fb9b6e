// Row tables on hand-made rows (hardware.md 3.9, decisions.md 30): sharing, zero addresses, moving senders.
#include "emit/rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "target/isa.h"

namespace tw::emit {
namespace {

constexpr std::uint32_t kSendMask = 0x3FFFF << 3;

// A row that sends one word from each address (bytes) in turn, every site moving by its stride.
exchange::Row send_row(std::uint32_t tile,
                       const std::vector<std::pair<std::uint32_t, std::uint32_t>>& sends) {
  exchange::Row row;
  row.tile = PhysId(tile);
  for (const auto& [address, stride] : sends) {
    row.sites.push_back({static_cast<std::uint32_t>(row.words.size()), kSendMask, 2 * stride});
    row.words.push_back(isa::send(1, address / 4, 1));
  }
  row.words.push_back(isa::kReturnWord);
  return row;
}

TileRows build(const std::vector<exchange::Row>& phases, std::uint32_t iterations = 1) {
  std::vector<exchange::Rows> rows;
  for (const exchange::Row& r : phases) rows.push_back({{r}, 10});
  return build_rows(c600(), rows, std::vector<std::uint32_t>(phases.size(), iterations))
      .at(phases[0].tile.value);
}

std::uint32_t word_at(const TileRows& rows, std::uint32_t offset) {
  const auto& b = rows.bytes;
  return b.at(offset) | b.at(offset + 1) << 8 | b.at(offset + 2) << 16 |
         static_cast<std::uint32_t>(b.at(offset + 3)) << 24;
}

TEST(RowTable, StartsWithTheRowOfInactivePhases) {
  const TileRows rows = build({send_row(5, {{0x60000, 0}})});
  EXPECT_EQ(word_at(rows, 0), 0x43A00000U);
  ASSERT_EQ(rows.uses.size(), 1U);
  EXPECT_TRUE(rows.uses[0].active);
  EXPECT_EQ(rows.uses[0].row % 8, 0U) << "sendpicp needs rows on 8 bytes";
  EXPECT_EQ(word_at(rows, rows.uses[0].row), isa::send(1, 0x60000 / 4, 1));
}

TEST(RowTable, EqualRowsAreStoredOnce) {
  const exchange::Row row = send_row(5, {{0x60000, 0}, {0x60100, 0}});
  const TileRows rows = build({row, row, row});
  EXPECT_EQ(rows.uses[0].row, rows.uses[1].row);
  EXPECT_EQ(rows.uses[0].row, rows.uses[2].row);
  for (const RowUse& u : rows.uses) EXPECT_EQ(u.patch_count, 0U);
}

TEST(RowTable, OneShapeIsSharedWhereItIsSmallerAndEveryUseWritesTheUnion) {
  // Ten words of which one is an address: eight uses of one shape with other addresses, one of them zero.
  std::vector<exchange::Row> phases;
  for (std::uint32_t p = 0; p < 8; ++p) {
    exchange::Row row = send_row(5, {{p == 3 ? 0 : 0x60000 + 0x100 * p, 0}});
    for (int i = 0; i < 8; ++i) row.words.insert(row.words.begin() + 1, isa::delay(7));
    phases.push_back(row);
  }
  const TileRows rows = build(phases);
  for (std::uint32_t p = 0; p < 8; ++p) {
    const RowUse& u = rows.uses[p];
    EXPECT_EQ(u.row, rows.uses[0].row);
    ASSERT_EQ(u.patch_count, 1U) << "also the use with the zero address writes its word";
    EXPECT_EQ(word_at(rows, u.patch_offsets), 0U);
    EXPECT_EQ(word_at(rows, u.patch_values), phases[p].words[0]);
  }
  EXPECT_LT(rows.bytes.size(), 8 * 40U) << "smaller than eight rows";
}

TEST(RowTable, SendsThatMoveAlikeUseTheBaseRegister) {
  const TileRows rows = build({send_row(5, {{0x60000, 0x240}, {0x60100, 0x240}})}, 24);
  EXPECT_EQ(rows.uses[0].base_stride, 0x240U);
  EXPECT_EQ(rows.uses[0].step_count + rows.uses[0].table_count + rows.uses[0].patch_count, 0U);
}

// A fixed sender beside a moving one cannot use the base: arithmetic patches from three iterations on.
TEST(RowTable, MixedSendersArePatchedByArithmetic) {
  const exchange::Row row = send_row(5, {{0x60000, 0}, {0x60100, 0x240}});
  const TileRows rows = build({row}, 3);
  const RowUse& u = rows.uses[0];
  EXPECT_EQ(u.base_stride, 0U);
  ASSERT_EQ(u.step_count, 1U);
  EXPECT_EQ(u.table_count, 0U);
  EXPECT_EQ(word_at(rows, u.step_list), u.row + 4) << "word address, relative to the table";
  EXPECT_EQ(word_at(rows, u.step_list + 4), row.words[1]);
  EXPECT_EQ(word_at(rows, u.step_list + 8), 2U * 0x240) << "step of the instruction word (3.9)";
  ASSERT_EQ(rows.fixups.size(), 1U);
  EXPECT_EQ(rows.fixups[0], u.step_list);
}

TEST(RowTable, TwoIterationsArePatchedFromATable) {
  const exchange::Row row = send_row(5, {{0x60000, 0}, {0x60100, 0x240}});
  const TileRows rows = build({row}, 2);
  const RowUse& u = rows.uses[0];
  ASSERT_EQ(u.table_count, 1U);
  EXPECT_EQ(u.step_count, 0U);
  EXPECT_EQ(word_at(rows, u.table_list), u.row + 4);
  const std::uint32_t values = word_at(rows, u.table_list + 4);
  EXPECT_EQ(word_at(rows, values), isa::send(1, 0x60100 / 4, 1));
  EXPECT_EQ(word_at(rows, values + 4), isa::send(1, 0x60340 / 4, 1));
  EXPECT_EQ(rows.fixups, (std::vector<std::uint32_t>{u.table_list, u.table_list + 4}));
}

TEST(RowTable, OtherStridesOnOneTileArePatched) {
  const TileRows rows = build({send_row(5, {{0x60000, 0x100}, {0x60100, 0x240}})}, 4);
  EXPECT_EQ(rows.uses[0].base_stride, 0U);
  EXPECT_EQ(rows.uses[0].step_count, 2U);
}

}  // namespace
}  // namespace tw::emit
