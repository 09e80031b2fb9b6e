#include "report/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "report/memory.h"
#include "sample.h"

namespace tw::report {
namespace {
using testing::ElementsAre;
using json = nlohmann::json;

Report made(const package::Package& p = sample()) { return build(c600(), p, "two.ipuexe", 1234, 1); }

TEST(Report, LiveBytesOfATileAddUpAtEveryPoint) {
  const Report r = made();
  std::vector<std::uint64_t> total;
  for (const Live& l : live_bytes(r.lists[r.tiles[0].list], r.steps.size())) total.push_back(l.bytes());
  EXPECT_THAT(total, ElementsAre(4096, 5120, 5120, 5120, 5120, 5624, 4600, 4600, 4600));
  EXPECT_EQ(r.tiles[0].peak_bytes, 5624U);
  EXPECT_EQ(r.tiles[0].peak_step, 5U);
  EXPECT_EQ(r.tiles[0].peak_standard, 1528U);
  EXPECT_EQ(r.tiles[0].peak_interleaved, 4096U);
  EXPECT_EQ(r.tiles[0].resident_bytes, 4096U);
}

TEST(Report, TheFullestTileIsFoundAtEveryPoint) {
  const Report r = made();
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> tile;
  for (const Fullest& f : r.fullest) bytes.push_back(f.bytes), tile.push_back(f.tile);
  EXPECT_THAT(bytes, ElementsAre(4096, 5120, 5120, 5120, 12288, 5624, 4600, 4600, 4600));
  EXPECT_THAT(tile, ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0));
}

TEST(Report, HolesAreWhatIsNeitherAreaNorLiveTensor) {
  const Report r = made();
  const Ranges ranges = tensor_ranges(r.device, r.areas);
  // Aperture, data below the code, behind the row table, interleaved memory up to the loader's end.
  EXPECT_THAT(ranges, ElementsAre(std::pair(0x50000U, 0x58000U), std::pair(0x586E0U, 0x5C000U),
                                  std::pair(0x64000U, 0x80000U), std::pair(0x80000U, 0xE7BB0U)));
  const std::uint64_t all = 0x8000 + 0x3920 + 0x1C000 + 0x67BB0;
  EXPECT_EQ(r.tiles[0].free_bytes, all - 5624);
  EXPECT_EQ(r.tiles[0].largest_hole, 0x67BB0U - 4096);
  EXPECT_EQ(r.tiles[0].holes, 4U);  // x and y stand side by side at the start of theirs
  EXPECT_EQ(r.tiles[1].free_bytes, all - 12288);
}

TEST(Report, PhasesKnowStepIterationsAndRows) {
  const Report r = made();
  ASSERT_EQ(r.phases.size(), 3U);
  const std::uint64_t constant = c600().phase_constant;
  struct Want {
    std::uint32_t step, iterations, horizon, tiles;
    std::uint64_t messages, windows, words, kernels;
  };
  const Want want[] = {
      {2, 1, 14, 2, 2, 2, 8, 21 + 13}, {5, 3, 40, 2, 3, 1, 34, 3 * 12 + 2 * 14}, {7, 1, 14, 1, 1, 1, 4, 14}};
  for (int i = 0; i < 3; ++i) {
    const Phase& p = r.phases[i];
    EXPECT_EQ(p.step, want[i].step) << i;
    EXPECT_EQ(p.iterations, want[i].iterations) << i;
    EXPECT_EQ(p.horizon, want[i].horizon) << i;
    EXPECT_EQ(p.tiles, want[i].tiles) << i;
    EXPECT_EQ(p.messages, want[i].messages) << i;
    EXPECT_EQ(p.windows, want[i].windows) << i;
    EXPECT_EQ(p.words, want[i].words) << i;
    EXPECT_EQ(p.exchange_cycles, (want[i].horizon + constant) * want[i].iterations) << i;
    EXPECT_EQ(p.kernel_cycles_max, want[i].kernels)
        << i;  // compiler.md 5.4: a fill takes ceil(bytes / 48) + 11
  }
  EXPECT_EQ(r.phases[1].row_bytes_max, 20U);
  EXPECT_EQ(r.kernel_cycles_after, 111U);
}

TEST(Report, FiguresOfATileCountARepeatsBodyOnceAndItsCyclesAllTimes) {
  const Report r = made();
  EXPECT_EQ(r.tiles[0].messages, 3U);
  EXPECT_EQ(r.tiles[0].words, 34U);
  EXPECT_EQ(r.tiles[0].windows, 1U);
  EXPECT_EQ(r.tiles[0].row_cycles, 14U + 3 * 40);
  EXPECT_EQ(r.tiles[0].kernel_cycles, 21U + 3 * (12 + 14) + 111);
  EXPECT_EQ(r.tiles[1].kernel_cycles, 21U + 13 + 3 * (12 + 14) + 111);
  EXPECT_EQ(r.tiles[1].table_bytes, 48U);
}

TEST(Report, EqualTilesShareOneListAndNamesStandOnce) {
  package::Package p = sample();
  p.side.tensors.resize(4);
  p.side.tensors.erase(p.side.tensors.begin() + 1, p.side.tensors.begin() + 3);
  const Report r = made(p);
  EXPECT_EQ(r.lists.size(), 1U);
  EXPECT_THAT(r.tensors, ElementsAre("weights"));
}

TEST(Report, TheJsonHoldsTheSameNumbers) {
  const Report r = made();
  const json j = json::parse(to_json(r));
  EXPECT_EQ(j["schema_version"], 1);
  EXPECT_EQ(j["compile"]["fits"], true);
  const json& report = j["report"];
  EXPECT_EQ(report["package"], json({{"file", "two.ipuexe"}, {"bytes", 1234}}));
  EXPECT_EQ(report["tiles"]["peak_bytes"], json({5624, 12288}));
  EXPECT_EQ(report["fullest"]["bytes"], json({4096, 5120, 5120, 5120, 12288, 5624, 4600, 4600, 4600}));
  EXPECT_EQ(report["phases"]["horizon"], json({14, 40, 14}));
  EXPECT_EQ(report["steps"]["paths"], json({"in", "layer", "layer/a", "out"}));
  const json& list = report["lists"][report["tiles"]["list"][0].get<int>()];
  EXPECT_EQ(list["address"], json({0x64000, 0x64400, 0x80000}));
  EXPECT_EQ(list["last"], json({5, 8, 8}));
  EXPECT_EQ(report["tensors"][list["tensor"][2].get<int>()], "weights");
}

// A buffer holds parameters when weights are uploaded into it and it stays.
TEST(Report, ParametersAreWhatHoldsWeights) {
  package::Package p = sample();
  EXPECT_FALSE(made(p).lists[0][2].parameter);
  package::Binding& b = p.image.bindings.emplace_back();
  b.kind = package::BindingKind::Weight;
  b.slices = {{0, 0x80800, 0, 64}, {0, 0x64000, 64, 64}};  // into weights, and where x stands for some steps
  Report r = made(p);
  const std::vector<Buffer>& list = r.lists[r.tiles[0].list];
  EXPECT_THAT(std::vector({list[0].parameter, list[1].parameter, list[2].parameter}),
              ElementsAre(false, false, true));
  EXPECT_FALSE(r.lists[r.tiles[1].list].back().parameter);
  p.image.bindings[0].kind = package::BindingKind::Input;
  r = made(p);
  EXPECT_FALSE(r.lists[r.tiles[0].list][2].parameter);
}

// Both tiles hear tile 1 for three cycles in the short row; the long row sends 30 words.
TEST(Report, TheExchangeOfAPhaseIsInTheJson) {
  const Report r = made();
  EXPECT_EQ(r.phases[0].bound, 4U);
  EXPECT_EQ(r.phases[1].bound, 30U);
  EXPECT_EQ(r.phases[1].bound_tile, 0U);
  const json x = json::parse(to_json(r))["report"]["exchange"];
  const json& phase = x["phases"][1];
  EXPECT_EQ(phase["tile"], json({0, 1}));
  EXPECT_EQ(phase["events"], json({40, 14}));
  EXPECT_EQ(phase["messages"], json({2, 1}));
  EXPECT_EQ(phase["sent"], json({30, 4}));
  EXPECT_EQ(x["gaps"][phase["gaps"][0].get<int>()], json::array());
  EXPECT_EQ(x["gaps"][phase["gaps"][1].get<int>()], json({11}));
  EXPECT_EQ(x["words"][phase["words"][1].get<int>()], json({3}));
  EXPECT_EQ(x["sources"][phase["sources"][1].get<int>()], json({1}));
  EXPECT_EQ(x["tensors"][phase["tensors"][1].get<int>()], json({0, -1}));  // no pointer was set
  EXPECT_EQ(x["phases"][2]["tile"], json({1}));
}

// Kernels before each phase, all runs and tiles: the program of tests/report/sample.h, a fill taking
// ceil(bytes / 48) + 11 cycles.
TEST(Report, KernelsAreCountedByThePhaseThatFollows) {
  const Report r = made();
  struct Want {
    std::uint32_t phase;
    std::uint64_t calls, cycles, cycles_max;
  };
  const Want want[] = {{0, 3, 21 + 34, 34},
                       {1, 6 + 4, 2 * (3 * 12 + 2 * 14), 3 * 12 + 2 * 14},
                       {2, 2, 2 * 14, 14},
                       {3, 2, 2 * 111, 111}};
  ASSERT_EQ(r.kernels.size(), 4U);
  std::uint64_t kernels = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(r.kernels[i].phase, want[i].phase) << i;
    EXPECT_EQ(r.kernels[i].code, static_cast<std::uint16_t>(kernel::Code::Fill)) << i;
    EXPECT_EQ(r.kernels[i].calls, want[i].calls) << i;
    EXPECT_EQ(r.kernels[i].cycles, want[i].cycles) << i;
    EXPECT_EQ(r.kernels[i].cycles_max, want[i].cycles_max) << i;
    EXPECT_EQ(r.kernels[i].macs, 0U) << i;
    kernels += r.kernels[i].cycles;
  }
  EXPECT_EQ(kernels, r.tiles[0].kernel_cycles + r.tiles[1].kernel_cycles);
  std::uint64_t cycles = r.cycles_after;
  for (const Phase& p : r.phases) {
    EXPECT_GE(p.before_cycles, p.kernel_cycles_max);
    cycles += p.before_cycles + p.exchange_cycles;
  }
  EXPECT_EQ(cycles, r.cycles);
  const json report = json::parse(to_json(r))["report"];
  EXPECT_EQ(report["kernels"]["names"], json({"Fill"}));
  EXPECT_EQ(report["kernels"]["peak_macs"], json({0}));
  EXPECT_EQ(report["cycles"], r.cycles);
}

TEST(Report, ARowThatHearsNoTileIsRefused) {
  package::Package p = sample();
  p.image.blobs[3][16] ^= 0x20;  // the source
  EXPECT_THROW(made(p), Error);
}

// A program that was never packed has memory to show, but neither phases nor kernels.
TEST(Report, WithoutPhasesThereIsStillMemoryToShow) {
  Report r = made();
  r.phases.clear();
  r.rows.clear();
  r.kernels.clear();
  r.meetings.clear();
  const json report = json::parse(to_json(r))["report"];
  EXPECT_EQ(report["phases"]["step"], json::array());
  EXPECT_EQ(report["exchange"]["phases"], json::array());
  EXPECT_EQ(report["kernels"]["names"], json::array());
  EXPECT_EQ(report["tiles"]["peak_bytes"], json({5624, 12288}));
}

TEST(Report, ThePageCannotBeClosedByAName) {
  package::Package p = sample();
  p.side.tensors[1].tensor = "</script><script>alert(1)</script>";
  const std::string json_text = to_json(made(p));
  const std::string html = to_html(json_text);
  const std::size_t begin = html.find("id=\"data\">") + 10;
  const std::string inside = html.substr(begin, html.find("</script>", begin) - begin);
  EXPECT_EQ(json::parse(inside), json::parse(json_text));
}

TEST(Report, APackageWithoutWhatTheReportShowsIsRefused) {
  package::Package p = sample();
  p.side.symbols.pop_back();
  EXPECT_THROW(made(p), Error);
  p = sample();
  p.side.steps.pop_back();
  p.side.steps.pop_back();  // the last phase
  EXPECT_THROW(made(p), Error);
}

TEST(Report, DamagedPlacesDoNotHurt) {
  package::Package p = sample();
  p.side.tensors[0] = {"w", 0, UINT32_MAX, UINT32_MAX, 7, 3, UINT32_MAX, true};
  p.side.tensors[1] = {"x", 0, 0, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, false};
  EXPECT_EQ(made(p).tiles.size(), 2U);
  for (std::size_t cut = 0; cut <= 60; cut += 4) {
    package::Package q = sample();
    q.image.blobs[1].resize(cut);
    EXPECT_THROW(made(q), Error);
  }
}

// Whatever a reader of packages lets through ends in a report or in an Error.
TEST(Report, MutatedPackagesAreReportedOrRefused) {
  const std::vector<std::uint8_t> good = package::to_bytes(sample());
  EXPECT_EQ(package::from_bytes(good, "good"), sample());
  const std::vector<package::SectionInfo> sections = package::sections(good);
  std::mt19937 random(1);
  int reported = 0;
  for (int round = 0; round < 800; ++round) {
    std::vector<std::uint8_t> bytes = good;
    for (std::uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const package::SectionInfo& section = sections[random() % sections.size()];
      bytes[section.offset + random() % section.bytes] = static_cast<std::uint8_t>(random());
    }
    try {
      const package::Package package = package::from_bytes(package::rehash(std::move(bytes)), "mutated");
      const Report r = made(package);
      to_html(to_json(r));
      to_trace(r, package, {0, 1});
      ++reported;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(reported, 200);
}

}  // namespace
}  // namespace tw::report
