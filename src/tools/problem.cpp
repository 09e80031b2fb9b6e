#include "tools/problem.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/capacity.h"
#include "base/error.h"
#include "base/version.h"
#include "emit/emit.h"
#include "inspect/tile.h"
#include "target/topology.h"
#include "tile/problems.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/source.h"

namespace tw::tools {
namespace {

const std::string kSolver = std::string("tilewright ") + kVersion;

compile::Result built_again(const Host& host, const package::Package& package, const Recipe& recipe,
                            const std::string& file) {
  const model::Model model = open_source(recipe).model;
  compile::Options options = compile_options(recipe, host.threads);
  options.optimization_steps = 0;  // the recipe's choices are those of the accepted build
  compile::Result result = compile::compile(host.device, model.graph, options, *host.progress);
  if (result.image != package.image || result.side.tensors != package.side.tensors)
    throw Error(ErrorKind::File,
                file +
                    ": its recipe, built again, gives another image; the package was made by "
                    "another version or for another --target, or was changed");
  return result;
}

inspect::PlacementProblem named(const plan::Plan& plan, const tile::Program& program, TileId tile,
                                const tile::TilePlacement& placement) {
  inspect::PlacementProblem out;
  out.tile = topology::physical(tile).value;
  out.problem = placement.problem;
  for (const BufferId b : placement.buffers)
    out.tensors.push_back(plan.at(program.buffers[b.value].tensor).name);
  return out;
}

inspect::Problem placement_of(const Host& host, const compile::Result& built, std::uint32_t tile) {
  const auto rows = std::ranges::find(built.side.symbols, "rows", &package::Symbol::name);
  TW_CHECK(rows != built.side.symbols.end(), "an image without a row table");
  const TileId logical = topology::logical(PhysId(tile));
  const auto problems = tile::placement_problems(host.device, built.program,
                                                 emit::code_bytes(host.device, built.program), rows->bytes);
  const tile::TilePlacement& problem = problems[logical.value];
  inspect::PlacementProblem out = named(built.plan, built.program, logical, problem);
  out.solver = kSolver;
  out.addresses.emplace();
  for (const BufferId b : problem.buffers) out.addresses->push_back(built.side.tensors[b.value].address);
  return out;
}

// The image is that of the recipe, so other rows than the schedule's are a mistake in reading them.
void require_rows_of(const package::Package& package, std::uint32_t phase, const exchange::Rows& rows) {
  for (const exchange::Row& row : rows.rows) {
    const inspect::Tile tile = inspect::read_tile(package, row.tile.value);
    std::vector<std::uint32_t> words;
    for (const inspect::RowWord& w : inspect::row_words(tile, inspect::phase_of(tile, phase)))
      words.push_back(w.value);
    TW_CHECK(words == row.words, fmt::format("the row of phase {} on tile {} is not that of the schedule",
                                             phase, row.tile.value));
  }
}

inspect::Problem exchange_of(const Host& host, const compile::Result& built, const package::Package& package,
                             const Recipe& recipe, std::uint32_t phase) {
  if (phase >= built.program.phases.size())
    throw Error(ErrorKind::Usage,
                fmt::format("--phase {}: the program has {} phases", phase, built.program.phases.size()));
  const tile::Phase& lowered = built.program.phases[phase];
  tile::Addresses addresses;
  for (const package::TensorPlace& t : built.side.tensors) addresses.of.push_back(t.address);
  inspect::ExchangeProblem out;
  out.phase = phase;
  for (const tile::Step& s : built.program.steps) {
    if (s.kind == tile::StepKind::Exchange && s.phase == phase) out.operation = built.program.paths[s.path];
  }
  out.problem = tile::exchange_problem(built.program, lowered, addresses);
  for (const tile::Transfer& t : lowered.transfers)
    out.tensors.push_back(built.plan.at(built.program.buffers[t.source.value].tensor).name);
  out.solver = kSolver;
  out.schedule = exchange::schedule(host.device, out.problem, {recipe.stream_words});
  require_rows_of(package, phase, exchange::encode(host.device, *out.schedule));
  return out;
}

nlohmann::ordered_json result_object() { return nlohmann::ordered_json::parse(result_json("", "")); }

}  // namespace

inspect::Problem problem_of(const Host& host, const std::string& file, const ProblemChoice& choice) {
  if (choice.tile.has_value() == choice.phase.has_value())
    throw Error(ErrorKind::Usage, "problem: give either --tile T, a placement, or --phase P, a schedule");
  const package::Package package = package::read(file);
  if (choice.tile && *choice.tile >= package.image.tiles.size())
    throw Error(ErrorKind::Usage,
                fmt::format("--tile {}: the package has {} tiles", *choice.tile, package.image.tiles.size()));
  const Recipe recipe = recipe_from_json(package.side.recipe_json, file);
  const compile::Result built = built_again(host, package, recipe, file);
  return choice.tile ? placement_of(host, built, *choice.tile)
                     : exchange_of(host, built, package, recipe, *choice.phase);
}

inspect::PlacementProblem unplaced_problem(const compile::Unplaced& u) {
  const TileId tile(u.error.capacity->tile);
  return named(u.plan, u.program, tile, u.problems[tile.value]);
}

std::string write_unplaced(const Host& host, const inspect::PlacementProblem& problem,
                           const std::string& folder) {
  const std::string file =
      (std::filesystem::path(folder) / fmt::format("placement-tile-{}.json", problem.tile)).string();
  make_parents(file);
  write_text(inspect::to_json(host.device, problem), file);
  return file;
}

inspect::Verdict check_file(const Host& host, const std::string& file) {
  return inspect::check(host.device, inspect::problem_from_json(host.device, read_text(file), file), file);
}

std::string problem_table(const inspect::Problem& problem, const std::string& file) {
  if (file == "-") return {};
  const auto* p = std::get_if<inspect::PlacementProblem>(&problem);
  const std::string what =
      p != nullptr
          ? fmt::format("placement of tile {}, {} requests", p->tile, p->problem.requests.size())
          : fmt::format("exchange phase {}, {} transfers", std::get<inspect::ExchangeProblem>(problem).phase,
                        std::get<inspect::ExchangeProblem>(problem).problem.transfers.size());
  return fmt::format("  problem                    {} ({})\n", file, what);
}

std::string problem_result_json(const inspect::Problem& problem, const std::string& file) {
  nlohmann::ordered_json j = result_object();
  const auto* p = std::get_if<inspect::PlacementProblem>(&problem);
  j["problem"] = {{"file", file}, {"kind", p != nullptr ? "placement" : "exchange"}};
  return j.dump(2) + "\n";
}

std::string verdict_table(const inspect::Verdict& v) {
  std::string t = fmt::format("{} of {}: {}\n", v.kind, v.subject,
                              v.broken.empty() ? "legal" : fmt::format("{} broken rule(s)", v.broken.size()));
  for (const std::string& rule : v.broken) t += "  " + rule + "\n";
  if (!v.broken.empty()) return t;
  if (v.kind == "placement")
    return t + fmt::format("  preferences that are not kept: weight {} of {}\n", grouped(v.shared_weight),
                           grouped(v.total_weight));
  return t + fmt::format("  {} messages, {} cycles, at least {}\n", grouped(v.messages), grouped(v.horizon),
                         grouped(v.bound_words));
}

std::string verdict_json(const inspect::Verdict& v) {
  nlohmann::ordered_json j = result_object();
  j["check"] = {{"kind", v.kind}, {"subject", v.subject}, {"legal", v.broken.empty()}, {"broken", v.broken}};
  const bool legal = v.broken.empty();
  const auto figure = [&](const char* key, std::uint64_t value) {
    j["check"][key] = legal ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  if (v.kind == "placement") {
    figure("shared_weight", v.shared_weight);
    figure("total_weight", v.total_weight);
  } else {
    figure("messages", v.messages);
    figure("horizon", v.horizon);
    figure("bound_words", v.bound_words);
  }
  return j.dump(2) + "\n";
}

}  // namespace tw::tools
