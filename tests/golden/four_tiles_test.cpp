// One small network on four tiles, printed at every stage of the compiler and compared with the texts of
// tests/golden/<stage>/four_tiles.txt. scripts/update_goldens.sh rewrites them; read the difference before
// committing it.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compile/compile.h"
#include "emit/emit.h"
#include "exchange/exchange.h"
#include "graph/graph.h"
#include "place/place.h"
#include "plan/build.h"
#include "target/isa.h"
#include "target/topology.h"
#include "tile/problems.h"

namespace tw {
namespace {

graph::Graph network() {
  graph::Builder b("four-tiles");
  const ValueId x = b.host("x", {1, 4, 32});
  const ValueId scale = b.parameter("norm.scale", {32}), bias = b.parameter("norm.bias", {32});
  const ValueId weight = b.parameter("up.weight", {32, 32}), up_bias = b.parameter("up.bias", {32});
  const ValueId n = b.layer_norm("norm", x, scale, bias, 1e-6F);
  const ValueId y = b.add("up.add", b.gemm("up", n, weight), up_bias);
  return b.finish({b.gelu("gelu", y)});
}

// All stages, in the compiler's order; the row reservation is a round figure instead of the ladder's.
struct Stages {
  Device device = c600();
  graph::Graph graph = network();
  plan::Plan plan;
  tile::Program program;
  std::vector<tile::TilePlacement> problems;
  tile::Addresses addresses;
  std::vector<place::Placement> placements;
  exchange::Problem problem;  // of phase 0
  exchange::Schedule schedule;
  exchange::Rows rows;

  Stages() {
    plan::Options options;
    options.tiles = 4;
    options.precision = tensor::Precision::F16;
    options.threads = 1;
    Progress quiet;
    plan = plan::build(device, graph, options, quiet);
    program = tile::lower(plan, {}, 1);
    problems =
        tile::placement_problems(device, program, emit::code_bytes(device, program), device.element_bytes);
    addresses.of.resize(program.buffers.size());
    for (const tile::TilePlacement& t : problems) {
      placements.push_back(std::get<place::Placement>(place::solve(device, t.problem)));
      for (std::size_t r = 0; r < t.buffers.size(); ++r)
        addresses.of[t.buffers[r].value] = placements.back().address[r];
    }
    problem = tile::exchange_problem(program, program.phases.at(0), addresses);
    schedule = exchange::schedule(device, problem);
    rows = exchange::encode(device, schedule);
    EXPECT_TRUE(exchange::check(device, problem, rows).empty());
  }
};
const Stages& stages() {
  static const Stages s;
  return s;
}

std::string row_text(const exchange::Row& row) {
  std::string text = fmt::format("physical tile {}, horizon {}, {} sends, {} receives\n", row.tile.value,
                                 row.horizon, row.sends, row.receives);
  for (std::size_t i = 0; i < row.words.size(); ++i) {
    const std::uint32_t next = i + 1 < row.words.size() ? row.words[i + 1] : 0;
    const auto instr = isa::decode(row.words[i], next);
    text += fmt::format("{:3} {:08x}  {}\n", i, row.words[i], instr ? isa::disassemble(*instr) : "?");
    if (instr && instr->op == isa::Op::SendPicP)
      text += fmt::format("{:3} {:08x}\n", i + 1, row.words[i + 1]), ++i;
  }
  return text;
}

void expect_golden(const std::string& stage, const std::string& text) {
  const auto file = std::filesystem::path(TW_SOURCE_DIR) / "tests" / "golden" / stage / "four_tiles.txt";
  if (std::getenv("TW_UPDATE_GOLDENS") != nullptr) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  std::ifstream in(file, std::ios::binary);
  std::stringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(text, expected.str()) << file << " differs; scripts/update_goldens.sh rewrites it";
}

TEST(Golden, Graph) { expect_golden("graph", graph::print(stages().graph)); }
TEST(Golden, Plan) { expect_golden("plan", plan::print(stages().plan)); }
TEST(Golden, Tile) { expect_golden("tile", tile::print(stages().program)); }
TEST(Golden, Place) {
  expect_golden("place", place::print(stages().problems.at(0).problem, stages().placements.at(0)));
}
TEST(Golden, Exchange) {
  expect_golden("exchange", exchange::print(stages().problem) + exchange::print(stages().schedule));
}
TEST(Golden, Rows) {
  std::string text;
  for (const exchange::Row& row : stages().rows.rows) text += row_text(row);
  expect_golden("rows", text);
}

}  // namespace
}  // namespace tw
