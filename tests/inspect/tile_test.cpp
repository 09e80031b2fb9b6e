// What is read from the words of a tile, against what the compiler put there.
#include "inspect/tile.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "exchange/exchange.h"
#include "inspect/inspect.h"
#include "inspect/listing.h"
#include "small_package.h"
#include "target/isa.h"
#include "tile/problems.h"

namespace tw::inspect {
namespace {
using testing::HasSubstr;

std::uint32_t small_word(const package::Package& p, std::uint32_t tile, std::uint32_t address) {
  return Memory(p.image, tile).word(address).value();
}

// Rows of every phase, scheduled again from the program: equal to what the tiles run after their patches, on
// active tiles; the others return at once.
TEST(Tile, RowsAfterPatchesAreThoseOfTheSchedule) {
  const SmallPackage& small = small_package();
  tile::Addresses addresses;
  for (const package::TensorPlace& t : small.result.side.tensors) addresses.of.push_back(t.address);
  std::vector<Tile> tiles;
  for (std::uint32_t t = 0; t < small.device.tiles; ++t) tiles.push_back(read_tile(small.package, t));
  for (std::size_t p = 0; p < small.result.program.phases.size(); ++p) {
    const exchange::Problem problem =
        tile::exchange_problem(small.result.program, small.result.program.phases[p], addresses);
    const exchange::Rows rows = exchange::encode(
        small.device, exchange::schedule(small.device, problem, {small.options.stream_words}));
    std::map<std::uint32_t, std::vector<std::uint32_t>> wanted;
    for (const exchange::Row& row : rows.rows) wanted[row.tile.value] = row.words;
    for (std::uint32_t t = 0; t < tiles.size(); ++t) {
      ASSERT_EQ(tiles[t].phases.size(), small.result.program.phases.size());
      const Phase& phase = tiles[t].phases[p];
      std::vector<std::uint32_t> words;
      for (const RowWord& w : row_words(tiles[t], phase)) words.push_back(w.value);
      const auto it = wanted.find(t);
      EXPECT_EQ(words, it == wanted.end() ? std::vector{isa::kReturnWord} : it->second)
          << "phase " << p << " tile " << t;
      EXPECT_EQ(phase.iterations, problem.iterations);
    }
  }
}

// Every tensor that is named beside a constant of the program is one that some call gets at that address.
TEST(Tile, ConstantsNameTheTensorsOfCalls) {
  const SmallPackage& small = small_package();
  const tile::Program& program = small.result.program;
  std::map<std::uint32_t, std::map<std::uint32_t, std::set<std::string>>> wanted;  // by tile and address
  for (const tile::Call& call : program.calls) {
    for (const tile::Arg& arg : call.args) {
      if (!arg.buffer.valid()) continue;
      const package::TensorPlace& t = small.result.side.tensors[arg.buffer.value];
      const std::string offset = arg.value == 0 ? "" : fmt::format("+{:#x}", arg.value);
      wanted[t.tile][t.address + arg.value].insert(
          fmt::format("{:#x} {}{}", t.address + arg.value, t.tensor, offset));
    }
  }
  std::size_t named = 0, constants = 0;
  for (const auto& [tile, calls] : wanted) {
    for (const Line& line : program_listing(read_tile(small.package, tile)).lines) {
      const auto instr = isa::decode(small_word(small.package, tile, line.address));
      if (instr->op != isa::Op::Setzi || instr->m < 2) continue;
      const auto it = calls.find(static_cast<std::uint32_t>(instr->imm));
      if (it == calls.end()) continue;
      ++constants;
      if (line.note.find(' ') == std::string::npos) continue;
      EXPECT_TRUE(it->second.contains(line.note)) << "tile " << tile << ": " << line.note;
      ++named;
    }
  }
  EXPECT_GT(named, 1000U);
  EXPECT_GT(named, constants * 9 / 10);
}

TEST(Tile, MovingSendersHaveTheStrideOfTheirSequence) {
  const SmallPackage& small = small_package();
  std::size_t moving = 0;
  for (std::size_t p = 0; p < small.result.program.phases.size(); ++p) {
    std::map<std::uint32_t, std::set<std::uint32_t>> strides;  // by tile, of all its sends
    tile::Addresses addresses;
    for (const package::TensorPlace& t : small.result.side.tensors) addresses.of.push_back(t.address);
    for (const exchange::Transfer& t :
         tile::exchange_problem(small.result.program, small.result.program.phases[p], addresses).transfers)
      strides[t.source.value].insert(t.source_stride);
    for (const auto& [tile, of] : strides) {
      const Phase phase = read_tile(small.package, tile).phases[p];
      if (of.size() > 1 || phase.table.count + phase.steps.count > 0) continue;
      EXPECT_EQ(phase.base_stride, *of.begin()) << "phase " << p << " tile " << tile;
      moving += phase.base_stride > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(moving, 10U);
}

// One tile, one phase with every kind of patch, as hardware.md 3.8 and 3.9 give the calls.
constexpr std::uint32_t kCode = 0x5C000, kPatchRow = 0x5C100, kRepeatTable = 0x5C200, kRepeatStep = 0x5C300,
                        kProgram = 0x5D000, kRows = 0x60000;

std::vector<std::uint8_t> bytes_of(const std::vector<std::uint32_t>& words) {
  std::vector<std::uint8_t> out;
  for (const std::uint32_t w : words)
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::uint8_t>(w >> (8 * i)));
  return out;
}

package::Package patched_package() {
  package::Package p;
  p.image.target = "one";
  // +0 idle, +8 the row, +0x20 offsets, +0x28 values, +0x30 steps, +0x3c tables, +0x44 table of two
  // iterations.
  p.image.blobs = {
      bytes_of({isa::kReturnWord, 0, isa::send(4, 0, 1), isa::delaypic(9, 0, 0), isa::send(2, 0, 1),
                isa::send(3, 0, 2), isa::kReturnWord, 0, 4, 0, isa::delaypic(9, 0, 0x20000 / 4),
                isa::send(4, 0x18000 / 4, 1), kRows + 0x10, isa::send(2, 0x40, 1), 0x80, kRows + 0x14,
                kRows + 0x44, isa::send(3, 0x50, 2), isa::send(3, 0x60, 2)}),
      bytes_of({isa::setzi(2, kRows + 8),
                isa::setzi(3, kRows + 0x20),
                isa::setzi(4, kRows + 0x28),
                isa::setzi(5, 2),
                isa::call(9, kPatchRow),
                isa::ld32(4, 11, 15, 0),
                isa::setzi(5, 2),
                isa::setzi(2, kRows + 0x3C),
                isa::setzi(3, 1),
                isa::call(9, kRepeatTable),
                isa::setzi(2, kRows + 0x30),
                isa::setzi(3, 1),
                isa::call(9, kRepeatStep),
                isa::sync(3),
                isa::call(10, kRows + 8),
                isa::sans(0),
                isa::sync(1),
                isa::call(10, kRows),
                isa::setzi(0, kCode),
                isa::br(0)})};
  p.image.tiles = {{kCode, {{kProgram, 80, 1, package::kRead}, {kRows, 76, 0, package::kRead}}}};
  p.side.symbols = {{UINT32_MAX, kPatchRow, 256, "patch_row"},
                    {UINT32_MAX, kRepeatTable, 256, "repeat_table"},
                    {UINT32_MAX, kRepeatStep, 256, "repeat_step"},
                    {UINT32_MAX, kProgram, 0x1000, "program"},
                    {UINT32_MAX, kRows, 0x4000, "rows"}};
  using package::StepKind;
  p.side.steps = {{"r", StepKind::RepeatBegin, 2},
                  {"a", StepKind::Exchange},
                  {"r", StepKind::RepeatEnd},
                  {"b", StepKind::Exchange}};
  p.side.tensors = {{"x", 0, 0x18000, 64, 1, 2, 64, false},
                    {"y", 0, 0x1FFF0, 64, 2, 2, 64, false},
                    {"late", 0, 0x18000, 64, 3, 9, 64, false}};
  return p;
}

TEST(Tile, PatchesAreReadFromTheProgram) {
  const package::Package p = patched_package();
  const Tile tile = read_tile(p, 0);
  ASSERT_EQ(tile.phases.size(), 2U);
  EXPECT_EQ(tile.phases[1].row, kRows);
  EXPECT_EQ(row_words(tile, tile.phases[1]).size(), 1U);
  std::vector<std::uint32_t> words;
  for (const RowWord& w : row_words(tile, tile.phases[0])) words.push_back(w.value);
  EXPECT_EQ(words, (std::vector{isa::send(4, 0x6000, 1), isa::delaypic(9, 0, 0x8000), isa::send(2, 0x40, 1),
                                isa::send(3, 0x50, 2), isa::kReturnWord}));
}

TEST(Inspect, PatchesInReadableForm) {
  const package::Package p = patched_package();
  const std::string t = text(p, {0, 0});
  EXPECT_THAT(t, HasSubstr("row of phase 0 at 0x60008: 5 words, 18 cycles, step 2 a, 2 iterations\n"));
  EXPECT_THAT(t, HasSubstr("* t=0      send 4, 0x6000, 1"));
  EXPECT_THAT(t, HasSubstr("; from 0x18000 x\n"));
  EXPECT_THAT(t, HasSubstr("; into 0x20000 y+0x10\n"));
  EXPECT_THAT(t, HasSubstr("setup patch: 2 words, offsets at 0x60020, values at 0x60028\n"
                           "  word    1  60408000"));
  EXPECT_THAT(t, HasSubstr("Repeat patch by arithmetic: 1 words, descriptors at 0x60030\n"
                           "  word    2  78200201 + iteration * 0x80  send 2, 0x40, 1\n"));
  EXPECT_THAT(t, HasSubstr("Repeat patch from tables: 1 words, descriptors at 0x6003c\n"
                           "  word    3  table at 0x60044: 78400282 78400302\n"));
  const auto j = nlohmann::json::parse(json(p, {0, 0}))["inspect"]["phase"];
  EXPECT_EQ(j["patches"]["setup"]["words"][1],
            (nlohmann::json{{"word", 0}, {"value", isa::send(4, 0x6000, 1)}}));
  EXPECT_EQ(j["patches"]["repeat_steps"]["words"][0]["step"], 0x80);
  EXPECT_EQ(j["patches"]["repeat_table"]["words"][0]["values"].size(), 2U);
  EXPECT_EQ(j["row"]["lines"][0]["text"], "send 4, 0x6000, 1");
}

TEST(Inspect, WhatThePackageDoesNotHaveIsOneLine) {
  const package::Package p = patched_package();
  const auto message = [&](const Selection& s) -> std::string {
    try {
      text(p, s);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Usage);
      EXPECT_THROW(json(p, s), Error);
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({1, {}}), "--tile 1: the package has 1 tiles");
  EXPECT_EQ(message({0, 2}), "--phase 2: the program has 2 phases");
  EXPECT_EQ(message({{}, 0}), "--phase needs --tile");
}

// Counts and addresses far outside: no access behind the end, no endless loop.
TEST(Inspect, DamagedProgramsAreReadToTheEndOfThePackage) {
  package::Package p = patched_package();
  for (std::size_t w = 0; w < 20; ++w) {
    for (const std::uint32_t bad :
         {isa::setzi(2, 0xFFFFF), isa::setzi(3, 0xFFFFF), isa::setzi(5, 0xFFFFF), 0U}) {
      package::Package damaged = p;
      for (int i = 0; i < 4; ++i)
        damaged.image.blobs[1][4 * w + i] = static_cast<std::uint8_t>(bad >> (8 * i));
      const Tile tile = read_tile(damaged, 0);
      for (std::uint32_t phase = 0; phase < tile.phases.size(); ++phase) {
        EXPECT_FALSE(text(damaged, {0, phase}).empty());
        EXPECT_FALSE(json(damaged, {0, phase}).empty());
      }
    }
  }
}

}  // namespace
}  // namespace tw::inspect
