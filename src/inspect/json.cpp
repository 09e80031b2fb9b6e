#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/version.h"
#include "inspect/inspect.h"
#include "inspect/listing.h"
#include "target/topology.h"

namespace tw::inspect {
namespace {
using Json = nlohmann::ordered_json;

Json package_json(const package::Package& p) {
  Json bindings = Json::array(), symbols = Json::array();
  for (const package::Binding& b : p.image.bindings) {
    bindings.push_back({{"name", b.name},
                        {"kind", name_of(b.kind)},
                        {"dtype", b.dtype},
                        {"scale", b.scale},
                        {"shape", b.shape},
                        {"bytes", b.bytes},
                        {"slices", b.slices.size()}});
  }
  for (const package::Symbol& s : p.side.symbols)
    symbols.push_back({{"address", s.address}, {"bytes", s.bytes}, {"name", s.name}});
  return {{"target", p.image.target},
          {"tiles", p.image.tiles.size()},
          {"bindings", bindings},
          {"symbols", symbols},
          {"batches",
           {{"initialize", p.image.initialize.size()},
            {"inputs", p.image.inputs.size()},
            {"outputs", p.image.outputs.size()}}}};
}

Json note_json(const Line& line) { return line.note.empty() ? Json(nullptr) : Json(line.note); }

Json program_json(const Tile& tile) {
  Json words = Json::array();
  for (const Line& line : program_listing(tile).lines)
    words.push_back({{"address", line.address},
                     {"word", *tile.memory.word(line.address)},
                     {"text", line.text},
                     {"note", note_json(line)}});
  return {{"address", tile.program}, {"words", words}};
}

Json tile_json(const Tile& tile) {
  Json segments = Json::array(), bindings = Json::array(), phases = Json::array();
  for (const package::Segment& s : tile.memory.segments())
    segments.push_back({{"address", s.address},
                        {"bytes", s.memory_size},
                        {"package_bytes", tile.memory.bytes_of(s).size()},
                        {"flags", flags_text(s.flags)}});
  for (const package::Binding& b : tile.package->image.bindings) {
    for (const package::Slice& s : b.slices) {
      if (s.tile == tile.tile)
        bindings.push_back(
            {{"name", b.name}, {"address", s.address}, {"offset", s.offset}, {"bytes", s.bytes}});
    }
  }
  for (std::size_t p = 0; p < tile.phases.size(); ++p) {
    const Phase& phase = tile.phases[p];
    phases.push_back({{"phase", p},
                      {"step", phase.step},
                      {"operation", phase.operation},
                      {"iterations", phase.iterations},
                      {"row", phase.row},
                      {"patched_words", phase.setup.count + phase.table.count + phase.steps.count}});
  }
  const bool known = tile.tile < topology::kTiles;
  return {{"tile", tile.tile},
          {"logical", known ? Json(topology::logical(PhysId(tile.tile)).value) : Json(nullptr)},
          {"entry", tile.package->image.tiles[tile.tile].entry},
          {"segments", segments},
          {"bindings", bindings},
          {"program", program_json(tile)},
          {"phases", phases}};
}

// Entries of a table up to its count, or to the end of what the package holds.
template <class Entry>
Json entries(std::uint32_t count, Entry entry) {
  Json out = Json::array();
  for (std::uint32_t k = 0; k < count; ++k) {
    const Json e = entry(k);
    if (e.is_null()) break;
    out.push_back(e);
  }
  return out;
}

Json patches_json(const Tile& tile, const Phase& p) {
  const Memory& m = tile.memory;
  const auto index = [&](std::uint32_t address) { return (address - p.row) / 4; };
  Json out = {{"setup", nullptr},
              {"repeat_steps", nullptr},
              {"repeat_table", nullptr},
              {"base_stride", p.base_stride}};
  if (p.setup.count > 0) {
    out["setup"] = {{"offsets", p.setup.offsets}, {"values", p.setup.values}};
    out["setup"]["words"] = entries(p.setup.count, [&](std::uint32_t k) -> Json {
      const auto offset = m.word(p.setup.offsets + 4 * k), value = m.word(p.setup.values + 4 * k);
      if (!offset || !value) return nullptr;
      return {{"word", *offset / 4}, {"value", *value}};
    });
  }
  if (p.steps.count > 0) {
    out["repeat_steps"] = {{"list", p.steps.list}};
    out["repeat_steps"]["words"] = entries(p.steps.count, [&](std::uint32_t k) -> Json {
      const std::uint32_t at = p.steps.list + 12 * k;
      const auto word = m.word(at), first = m.word(at + 4), step = m.word(at + 8);
      if (!word || !first || !step) return nullptr;
      return {{"word", index(*word)}, {"value", *first}, {"step", *step}};
    });
  }
  if (p.table.count > 0) {
    out["repeat_table"] = {{"list", p.table.list}};
    out["repeat_table"]["words"] = entries(p.table.count, [&](std::uint32_t k) -> Json {
      const auto word = m.word(p.table.list + 8 * k), table = m.word(p.table.list + 8 * k + 4);
      if (!word || !table) return nullptr;
      const Json values = entries(p.iterations, [&](std::uint32_t i) -> Json {
        const auto value = m.word(*table + 4 * i);
        return value ? Json(*value) : Json(nullptr);
      });
      return {{"word", index(*word)}, {"table", *table}, {"values", values}};
    });
  }
  return out;
}

Json phase_json(const Tile& tile, std::uint32_t index) {
  const Phase& phase = phase_of(tile, index);
  Json lines = Json::array();
  const std::vector<RowLine> listing = row_listing(tile, phase);
  for (const RowLine& row : listing)
    lines.push_back({{"address", row.line.address},
                     {"words", row.words},
                     {"event", row.event},
                     {"text", row.line.text},
                     {"note", note_json(row.line)},
                     {"patched", row.patched}});
  return {
      {"phase", index},
      {"step", phase.step},
      {"operation", phase.operation},
      {"iterations", phase.iterations},
      {"row",
       {{"address", phase.row}, {"events", listing.empty() ? 0 : listing.back().event}, {"lines", lines}}},
      {"patches", patches_json(tile, phase)}};
}

}  // namespace

std::string json(const package::Package& p, const Selection& selection) {
  if (selection.phase && !selection.tile) throw Error(ErrorKind::Usage, "--phase needs --tile");
  Json j = {{"schema_version", 1},
            {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}}};
  // Reported as it is when somebody wrote another summary into the package.
  const Json summary = Json::parse(p.side.summary_json, nullptr, false);
  j["compile"] = summary.is_discarded() ? Json(nullptr) : summary;
  const Json recipe = Json::parse(p.side.recipe_json, nullptr, false);
  j["recipe"] = recipe.is_discarded() ? Json(nullptr) : recipe;
  j["inspect"] = package_json(p);
  if (selection.tile) {
    const Tile tile = read_tile(p, *selection.tile);
    j["inspect"]["tile"] = tile_json(tile);
    if (selection.phase) j["inspect"]["phase"] = phase_json(tile, *selection.phase);
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tw::inspect
