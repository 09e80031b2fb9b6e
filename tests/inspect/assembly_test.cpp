// Disassembled and assembled again, everything is as it was.
#include "inspect/assembly.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"
#include "inspect/listing.h"
#include "small_package.h"
#include "target/isa.h"

namespace tw::inspect {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

std::map<std::uint32_t, std::uint8_t> bytes_of(const std::vector<Block>& blocks) {
  std::map<std::uint32_t, std::uint8_t> bytes;
  for (const Block& b : blocks) {
    for (std::size_t i = 0; i < b.bytes.size(); ++i)
      bytes[b.address + static_cast<std::uint32_t>(i)] = b.bytes[i];
  }
  return bytes;
}

std::vector<Block> segments_of(const package::Package& p, std::uint32_t tile) {
  std::vector<Block> blocks;
  for (const package::Segment& s : p.image.tiles[tile].segments)
    blocks.push_back({s.address, p.image.blobs[s.blob]});
  return blocks;
}

TEST(Assembly, EveryByteOfEveryTileComesBack) {
  const package::Package& p = small_package().package;
  std::map<std::vector<std::uint32_t>, int> seen;  // equal images once
  std::size_t bytes = 0;
  for (std::uint32_t t = 0; t < p.image.tiles.size(); ++t) {
    std::vector<std::uint32_t> blobs;
    for (const package::Segment& s : p.image.tiles[t].segments) blobs.push_back(s.blob);
    if (seen[blobs]++ > 0) continue;
    const auto wanted = bytes_of(segments_of(p, t));
    EXPECT_TRUE(bytes_of(assemble(assembly_text(read_tile(p, t)), "tile")) == wanted) << "tile " << t;
    bytes += wanted.size();
  }
  EXPECT_GE(seen.size(), 64U);
  EXPECT_GT(bytes, 64U * 20'000);
}

TEST(Assembly, EveryRowComesBackPatched) {
  const package::Package& p = small_package().package;
  std::size_t rows = 0, patched = 0;
  for (std::uint32_t t = 0; t < p.image.tiles.size(); t += 4) {
    const Tile tile = read_tile(p, t);
    for (const Phase& phase : tile.phases) {
      std::string text = ".org 0x60000\n";
      for (const RowLine& line : row_listing(tile, phase)) {
        text += line.line.text + "\n";
        patched += line.patched ? 1 : 0;
      }
      std::vector<std::uint8_t> wanted;
      for (const RowWord& w : row_words(tile, phase)) {
        for (int i = 0; i < 4; ++i) wanted.push_back(static_cast<std::uint8_t>(w.value >> (8 * i)));
      }
      EXPECT_THAT(assemble(text, "row"), ElementsAre(Block{0x60000, wanted}));
      ++rows;
    }
  }
  EXPECT_GT(rows, 1000U);
  EXPECT_GT(patched, 100U);
}

TEST(Assembly, WordsThatAreNoInstructionAreData) {
  package::Package p = small_package().package;
  // A segment of odd size with a word that no instruction has, a sendpicp cut at the end of its segment.
  p.image.blobs.push_back({0x01, 0x00, 0xF0, 0x43, 0xAA, 0xBB, 0xCC});
  p.image.blobs.push_back({0x00, 0x00, 0x60, 0xF6});
  auto& segments = p.image.tiles[0].segments;
  segments.push_back({0x70001, 16, static_cast<std::uint32_t>(p.image.blobs.size() - 2), package::kRead});
  segments.push_back({0x70020, 4, static_cast<std::uint32_t>(p.image.blobs.size() - 1), package::kRead});
  const std::string text = assembly_text(read_tile(p, 0));
  EXPECT_THAT(text,
              HasSubstr(".org 0x70001\n  .word 0x43f00001\n  .byte 0xaa\n  .byte 0xbb\n  .byte 0xcc\n"));
  EXPECT_THAT(text, HasSubstr(".org 0x70020\n  .word 0xf6600000\n"));
  EXPECT_TRUE(bytes_of(assemble(text, "tile 0")) == bytes_of(segments_of(p, 0)));
}

TEST(Assembly, NamesCannotEndTheirComment) {
  package::Package p = small_package().package;
  for (package::Symbol& s : p.side.symbols) {
    if (s.name == "boot" || s.name == "worker_barrier") s.name += "\n.word 1\r\n";
  }
  const std::string text = assembly_text(read_tile(p, 0));
  EXPECT_THAT(text, HasSubstr("; worker_barrier?.word 1??\n"));
  EXPECT_TRUE(bytes_of(assemble(text, "tile 0")) == bytes_of(segments_of(p, 0)));
}

TEST(Assembler, StatementsCommentsAndBlocks) {
  EXPECT_THAT(assemble("; nothing\n\n", "t"), ElementsAre());
  EXPECT_THAT(
      assemble(".org 0x5c000 ; here\n br $m10 ; 0x43A00000\n .zero 2\r\n.byte 255\n"
               ".org 376839\n.word 1\n.org 64\n.org 128\n  .word 0x01020304",
               "t"),
      ElementsAre(Block{0x5C000, {0x00, 0x00, 0xA0, 0x43, 0, 0, 255, 1, 0, 0, 0}}, Block{128, {4, 3, 2, 1}}));
}

TEST(Assembler, NamesEveryBadLine) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      assemble(text, "x.s");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("br $m10"), "x.s:1: there is no .org before the first statement");
  EXPECT_EQ(message(".org 0\nmov $m1\n\n.word\n.byte 256\n.word 0x100000000\n.space 4\nsend 65, 0, 1\n"),
            "x.s:2: no instruction is called 'mov'\n"
            "x.s:4: .word: '' is no number below 4294967296\n"
            "x.s:5: .byte: 256 is more than 255\n"
            "x.s:6: .word: '0x100000000' is no number below 4294967296\n"
            "x.s:7: no directive is called '.space'\n"
            "x.s:8: send: operand 1 is no number 1..64");
  EXPECT_EQ(message(".org 0xfffffffe\n.word 1\n"), "x.s:2: runs over the last address");
  EXPECT_EQ(message(".org 0\n.zero 1048576\n.byte 1\n"), "x.s:3: more than 1048576 bytes in all");
  std::string many = ".org 0\n";
  for (int i = 0; i < 30; ++i) many += "nop\n";
  EXPECT_THAT(message(many), HasSubstr("\nand 10 more"));
}

}  // namespace
}  // namespace tw::inspect
