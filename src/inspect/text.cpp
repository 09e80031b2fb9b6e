#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inspect/inspect.h"
#include "inspect/listing.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::inspect {
namespace {

std::string with_note(const std::string& line, const std::string& note) {
  return note.empty() ? line + "\n" : fmt::format("{:<64} ; {}\n", line, note);
}

// The files that the package was built from, by their digests; nothing of a recipe that is not ours.
std::string sources_text(const std::string& recipe) {
  const nlohmann::json j = nlohmann::json::parse(recipe, nullptr, false);
  if (!j.is_object()) return {};
  std::string t;
  // As JSON writes a string, without the quotation marks: no control characters.
  const auto escaped = [](const nlohmann::json& text) {
    const std::string quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return quoted.substr(1, quoted.size() - 2);
  };
  const auto line = [&](const char* what, const nlohmann::json& name, const nlohmann::json& sha256) {
    if (name.is_string() && sha256.is_string() && !sha256.get<std::string>().empty())
      t += fmt::format("  {:<11} {} sha256 {}\n", what, escaped(name), escaped(sha256));
  };
  line("model", j.value("model", nlohmann::json()), j.value("onnx_sha256", nlohmann::json()));
  if (j.contains("weights") && j["weights"].is_object() && j["weights"].contains("files"))
    for (const nlohmann::json& f : j["weights"]["files"])
      if (f.is_object())
        line("weights", f.value("name", nlohmann::json()), f.value("sha256", nlohmann::json()));
  line("calibration", "", j.value("calibration_sha256", nlohmann::json()));
  return t.empty() ? t : "built from\n" + t;
}

std::string package_text(const package::Package& p) {
  std::string t = sources_text(p.side.recipe_json);
  t += fmt::format("target {}, {} tiles, {} distinct segment images\n", p.image.target, p.image.tiles.size(),
                   p.image.blobs.size());
  t += fmt::format("host batches: initialize {}, inputs {}, outputs {}\n", p.image.initialize.size(),
                   p.image.inputs.size(), p.image.outputs.size());
  t += "bindings\n";
  for (const package::Binding& b : p.image.bindings) {
    std::string shape;
    for (const std::uint32_t d : b.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    const std::string scale = b.dtype == "f8f143" ? fmt::format(" scale {}", b.scale) : "";
    t += fmt::format("  {:<6} {:<50} {}{} [{}] {} B in {} slices\n", name_of(b.kind), b.name, b.dtype, scale,
                     shape, b.bytes, b.slices.size());
  }
  t += "symbols on every tile\n";
  for (const package::Symbol& s : p.side.symbols) {
    if (s.tile == UINT32_MAX) t += fmt::format("  {:#07x} {:>6} B  {}\n", s.address, s.bytes, s.name);
  }
  return t;
}

std::string tile_head(const Tile& tile) {
  const package::DeviceImage& image = tile.package->image;
  const std::string logical =
      tile.tile < topology::kTiles ? fmt::format("{}", topology::logical(PhysId(tile.tile)).value) : "-";
  std::string t =
      fmt::format("tile {} (logical {}), entry {:#x}\n", tile.tile, logical, image.tiles[tile.tile].entry);
  for (const package::Segment& s : tile.memory.segments())
    t += fmt::format("  segment {:#07x}..{:#07x} {} {} bytes, {} of them in the package\n", s.address,
                     s.address + s.memory_size, flags_text(s.flags), s.memory_size,
                     tile.memory.bytes_of(s).size());
  for (const package::Binding& b : image.bindings) {
    for (const package::Slice& s : b.slices) {
      if (s.tile == tile.tile)
        t += fmt::format("  {:<7} {:#07x}..{:#07x} {} bytes {}..{}\n", name_of(b.kind), s.address,
                         s.address + s.bytes, b.name, s.offset, s.offset + s.bytes);
    }
  }
  return t;
}

std::string program_text(const Tile& tile) {
  std::string t = "program\n";
  for (const Line& line : program_listing(tile).lines)
    t += with_note(
        fmt::format("  {:#07x}: {:08x}  {}", line.address, *tile.memory.word(line.address), line.text),
        line.note);
  return t;
}

std::string patched_words(const Phase& p) {
  const std::uint32_t words = p.setup.count + p.table.count + p.steps.count;
  return words == 0 ? "" : fmt::format(", {} words patched", words);
}

std::string phases_text(const Tile& tile) {
  std::string t = "exchange phases\n";
  for (std::size_t i = 0; i < tile.phases.size(); ++i) {
    const Phase& p = tile.phases[i];
    t += fmt::format("  {:>4} step {:>4} row {:#07x} {:>4} words{}{} {}\n", i, p.step, p.row,
                     row_words(tile, p).size(), patched_words(p),
                     p.iterations > 1 ? fmt::format(", {} iterations", p.iterations) : "", p.operation);
  }
  return t;
}

std::string instruction_text(std::uint32_t word) {
  const auto instr = isa::decode(word);
  return instr ? isa::disassemble(*instr) : "-";
}

std::uint32_t word_index(const Phase& p, std::uint32_t address) { return (address - p.row) / 4; }

std::string setup_text(const Tile& tile, const Phase& p) {
  if (p.setup.count == 0) return {};
  std::string t = fmt::format("setup patch: {} words, offsets at {:#x}, values at {:#x}\n", p.setup.count,
                              p.setup.offsets, p.setup.values);
  for (std::uint32_t k = 0; k < p.setup.count; ++k) {
    const auto offset = tile.memory.word(p.setup.offsets + 4 * k),
               value = tile.memory.word(p.setup.values + 4 * k);
    if (!offset || !value) return t + "  the tables end outside the package\n";
    t += fmt::format("  word {:>4}  {:08x}  {}\n", *offset / 4, *value, instruction_text(*value));
  }
  return t;
}

std::string repeat_text(const Tile& tile, const Phase& p) {
  std::string t;
  if (p.steps.count > 0)
    t += fmt::format("Repeat patch by arithmetic: {} words, descriptors at {:#x}\n", p.steps.count,
                     p.steps.list);
  for (std::uint32_t k = 0; k < p.steps.count; ++k) {
    const std::uint32_t at = p.steps.list + 12 * k;
    const auto word = tile.memory.word(at), first = tile.memory.word(at + 4), step = tile.memory.word(at + 8);
    if (!word || !first || !step) return t + "  the list ends outside the package\n";
    t += fmt::format("  word {:>4}  {:08x} + iteration * {:#x}  {}\n", word_index(p, *word), *first, *step,
                     instruction_text(*first));
  }
  if (p.table.count > 0)
    t += fmt::format("Repeat patch from tables: {} words, descriptors at {:#x}\n", p.table.count,
                     p.table.list);
  for (std::uint32_t k = 0; k < p.table.count; ++k) {
    const auto word = tile.memory.word(p.table.list + 8 * k),
               table = tile.memory.word(p.table.list + 8 * k + 4);
    if (!word || !table) return t + "  the list ends outside the package\n";
    t += fmt::format("  word {:>4}  table at {:#x}:", word_index(p, *word), *table);
    for (std::uint32_t i = 0; i < p.iterations; ++i) {
      const auto value = tile.memory.word(*table + 4 * i);
      t += value ? fmt::format(" {:08x}", *value) : " -";
    }
    t += '\n';
  }
  if (p.base_stride > 0) t += fmt::format("OUTGOING_BASE: iteration * {} bytes\n", p.base_stride);
  return t;
}

std::string row_text(const Tile& tile, std::uint32_t index) {
  const Phase& phase = phase_of(tile, index);
  const std::vector<RowLine> lines = row_listing(tile, phase);
  std::string shared;
  for (std::size_t i = 0; i < tile.phases.size(); ++i) {
    if (i != index && tile.phases[i].row == phase.row)
      shared += fmt::format("{} {}", shared.empty() ? "" : ",", i);
  }
  std::string t = fmt::format("row of phase {} at {:#x}: {} words, {} cycles, step {} {}{}\n", index,
                              phase.row, row_words(tile, phase).size(),
                              lines.empty() ? 0 : lines.back().event, phase.step, phase.operation,
                              phase.iterations > 1 ? fmt::format(", {} iterations", phase.iterations) : "");
  if (!shared.empty()) t += "  shares its words with phases" + shared + "\n";
  for (const RowLine& row : lines) {
    std::string words;
    for (const std::uint32_t w : row.words) words += fmt::format("{:08x} ", w);
    t += with_note(fmt::format("  {:#07x}: {:<18}{} t={:<6} {}", row.line.address, words,
                               row.patched ? '*' : ' ', row.event, row.line.text),
                   row.line.note);
  }
  if (std::ranges::any_of(lines, &RowLine::patched)) t += "  * patched before the row runs; iteration 0\n";
  return t + setup_text(tile, phase) + repeat_text(tile, phase);
}

}  // namespace

const char* name_of(package::BindingKind kind) {
  switch (kind) {
    case package::BindingKind::Weight:
      return "weight";
    case package::BindingKind::Input:
      return "input";
    case package::BindingKind::Output:
      return "output";
  }
  return "";
}

std::string flags_text(std::uint8_t flags) {
  return {(flags & package::kRead) != 0 ? 'r' : '-', (flags & package::kWrite) != 0 ? 'w' : '-',
          (flags & package::kExecute) != 0 ? 'x' : '-'};
}

std::string text(const package::Package& p, const Selection& selection) {
  if (selection.phase && !selection.tile) throw Error(ErrorKind::Usage, "--phase needs --tile");
  if (!selection.tile) return package_text(p);
  const Tile tile = read_tile(p, *selection.tile);
  if (!selection.phase) return tile_head(tile) + program_text(tile) + phases_text(tile);
  return tile_head(tile) + row_text(tile, *selection.phase);
}

}  // namespace tw::inspect
