#include "tools/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/version.h"
#include "kernel/kernel.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::tools {
namespace {

const char* kind_text(package::BindingKind kind) {
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

class TileText {
 public:
  TileText(const package::Package& p, std::uint32_t tile) : p_(p), tile_(tile) {
    for (const package::Segment& s : p.image.tiles[tile].segments) segments_.push_back(&s);
    for (const package::Symbol& s : p.side.symbols) {
      if (s.tile == UINT32_MAX || s.tile == tile) symbols_[s.address] = s.name;
    }
  }

  std::string segments() const {
    std::string t = fmt::format("tile {} (logical {}), entry {:#x}\n", tile_,
                                topology::logical(PhysId(tile_)).value, p_.image.tiles[tile_].entry);
    for (const package::Segment* s : segments_) {
      t += fmt::format("  segment {:#07x}..{:#07x} {}{}{} {} bytes\n", s->address,
                       s->address + s->memory_size, (s->flags & package::kRead) != 0 ? 'r' : '-',
                       (s->flags & package::kWrite) != 0 ? 'w' : '-',
                       (s->flags & package::kExecute) != 0 ? 'x' : '-', s->memory_size);
    }
    return t;
  }

  // The generated program up to its descriptors, with the phase number at each row call.
  std::string program() {
    std::string t = "program\n";
    const std::uint32_t start = address_of("program");
    for (std::uint32_t at = start; has(at); at += 4) {
      const auto instr = isa::decode(word(at), has(at + 4) ? word(at + 4) : 0);
      if (!instr) break;
      t += line(at, *instr);
      if (is_row_call(at, *instr))
        t += fmt::format("  ; phase {}", phases_.size()), phases_.push_back(instr->address);
      t += '\n';
      if (instr->op == isa::Op::Br && at > start && ends_program(at)) break;
    }
    return t;
  }

  std::string row(std::uint32_t phase) {
    if (phases_.empty()) program();
    if (phase >= phases_.size())
      throw Error(ErrorKind::Usage,
                  fmt::format("--phase {}: the program has {} phases", phase, phases_.size()));
    std::string t = fmt::format("row of phase {} at {:#x} (as stored; patches change address words)\n", phase,
                                phases_[phase]);
    std::uint32_t event = 0;
    for (std::uint32_t at = phases_[phase]; has(at); at += 4) {
      const std::uint32_t next = has(at + 4) ? word(at + 4) : 0;
      const auto instr = isa::decode(word(at), next);
      if (!instr) return t + fmt::format("  {:#07x}: {:08x} ?\n", at, word(at));
      t += fmt::format("  {:#07x}: {:08x}  t={:<6} {}\n", at, word(at), event, isa::disassemble(*instr));
      if (word(at) == isa::kReturnWord) break;
      event += instr->n;
      if (instr->op == isa::Op::SendPicP) at += 4;
    }
    return t;
  }

 private:
  const package::Segment* find(std::uint32_t at) const {
    for (const package::Segment* s : segments_) {
      if (at >= s->address && at + 4 <= s->address + p_.image.blobs[s->blob].size()) return s;
    }
    return nullptr;
  }
  bool has(std::uint32_t at) const { return find(at) != nullptr; }
  std::uint32_t word(std::uint32_t at) const {
    const package::Segment* s = find(at);
    const auto& b = p_.image.blobs[s->blob];
    const std::size_t o = at - s->address;
    return b[o] | b[o + 1] << 8 | b[o + 2] << 16 | static_cast<std::uint32_t>(b[o + 3]) << 24;
  }
  std::uint32_t address_of(const std::string& name) const {
    for (const auto& [address, text] : symbols_) {
      if (text == name) return address;
    }
    throw Error(ErrorKind::File, "the package's side section names no '" + name + "'");
  }
  std::string line(std::uint32_t at, const isa::Instr& instr) const {
    std::string text = fmt::format("  {:#07x}: {:08x}  {}", at, word(at), isa::disassemble(instr));
    const auto it = instr.op == isa::Op::Call ? symbols_.find(instr.address) : symbols_.end();
    return it == symbols_.end() ? text : text + "  <" + it->second + ">";
  }
  bool is_row_call(std::uint32_t at, const isa::Instr& instr) const {
    if (instr.op != isa::Op::Call || instr.m != isa::kM10Return || !has(at - 4)) return false;
    const auto before = isa::decode(word(at - 4));
    return before && before->op == isa::Op::Sync && symbols_.find(instr.address) == symbols_.end();
  }
  // The last two words jump to the completion code.
  bool ends_program(std::uint32_t at) const {
    const auto before = isa::decode(word(at - 4));
    return before && before->op == isa::Op::Setzi &&
           static_cast<std::uint32_t>(before->imm) == address_of("complete");
  }

  const package::Package& p_;
  std::uint32_t tile_;
  std::vector<const package::Segment*> segments_;
  std::map<std::uint32_t, std::string> symbols_;
  std::vector<std::uint32_t> phases_;  // row address of each phase
};

}  // namespace

std::string inspect_text(const package::Package& p, std::optional<std::uint32_t> tile,
                         std::optional<std::uint32_t> phase) {
  if (phase && !tile) throw Error(ErrorKind::Usage, "--phase needs --tile");
  std::string t;
  if (!tile) {
    t += fmt::format("target {}, {} tiles, {} distinct segment images\n", p.image.target,
                     p.image.tiles.size(), p.image.blobs.size());
    t += fmt::format("host batches: initialize {}, inputs {}, outputs {}\n", p.image.initialize.size(),
                     p.image.inputs.size(), p.image.outputs.size());
    for (const package::Binding& b : p.image.bindings) {
      std::string shape;
      for (const std::uint32_t d : b.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
      t += fmt::format("  {:<6} {:<50} {} [{}] {} B in {} slices\n", kind_text(b.kind), b.name, b.dtype,
                       shape, b.bytes, b.slices.size());
    }
    t += "symbols on every tile\n";
    for (const package::Symbol& s : p.side.symbols) {
      if (s.tile == UINT32_MAX) t += fmt::format("  {:#07x} {:>6} B  {}\n", s.address, s.bytes, s.name);
    }
    return t;
  }
  if (*tile >= p.image.tiles.size())
    throw Error(ErrorKind::Usage,
                fmt::format("--tile {}: the package has {} tiles", *tile, p.image.tiles.size()));
  TileText text(p, *tile);
  t += text.segments();
  if (phase) return t + text.row(*phase);
  return t + text.program();
}

std::string inspect_json(const package::Package& p) {
  using json = nlohmann::ordered_json;
  json j = {{"schema_version", 1},
            {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}}};
  // Reported as it is when somebody wrote another summary into the package.
  const json summary = json::parse(p.side.summary_json, nullptr, false);
  j["compile"] = summary.is_discarded() ? json(nullptr) : summary;
  json bindings = json::array(), symbols = json::array();
  for (const package::Binding& b : p.image.bindings) {
    bindings.push_back({{"name", b.name},
                        {"kind", kind_text(b.kind)},
                        {"dtype", b.dtype},
                        {"scale", b.scale},
                        {"shape", b.shape},
                        {"bytes", b.bytes},
                        {"slices", b.slices.size()}});
  }
  for (const package::Symbol& s : p.side.symbols)
    symbols.push_back({{"address", s.address}, {"bytes", s.bytes}, {"name", s.name}});
  j["inspect"] = {{"target", p.image.target},
                  {"tiles", p.image.tiles.size()},
                  {"bindings", bindings},
                  {"symbols", symbols},
                  {"batches",
                   {{"initialize", p.image.initialize.size()},
                    {"inputs", p.image.inputs.size()},
                    {"outputs", p.image.outputs.size()}}}};
  return j.dump(2) + "\n";
}

}  // namespace tw::tools
