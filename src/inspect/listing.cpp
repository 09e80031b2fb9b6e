#include "inspect/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "target/isa.h"

namespace tw::inspect {
namespace {
using isa::Instr;
using isa::Op;

constexpr std::uint32_t kBaseWriteEvents = 13;  // `put` in a row, hardware.md 3.8
constexpr std::uint32_t kShortestZeros = 16;    // bytes that become one .zero

using Notes = std::map<std::uint32_t, std::string>;

std::string phase_note(const Tile& tile, std::size_t phase) {
  const std::string& operation = tile.phases[phase].operation;
  return fmt::format("phase {}{}", phase, operation.empty() ? "" : " of " + operation);
}

std::string host_note(const Tile& tile, const HostCall& call) {
  const auto direction = tile.memory.word(call.descriptor), address = tile.memory.word(call.descriptor + 4),
             bytes = tile.memory.word(call.descriptor + 8);
  if (!direction || !address || !bytes) return "host_run";
  std::string binding;
  for (const package::Binding& b : tile.package->image.bindings) {
    if ((b.kind == package::BindingKind::Output) != (*direction != 0)) continue;
    for (const package::Slice& s : b.slices) {
      if (s.tile == tile.tile && *address >= s.address && *address - s.address < s.bytes) binding = b.name;
    }
  }
  return fmt::format("host_run: {} B {} {:#x} {}", *bytes, *direction == 0 ? "to" : "from", *address,
                     binding);
}

// Constants that are addresses of SRAM, with the tensor there if only one stands there between the phases
// around.
void note_addresses(const Tile& tile, Notes& notes) {
  const package::DeviceImage& image = tile.package->image;
  std::uint32_t first = 1;
  for (std::size_t p = 0, at = tile.program; at < tile.program_end; at += 4) {
    for (; p < tile.phases.size() && tile.phases[p].call < at; ++p) first = tile.phases[p].step + 1;
    const auto instr = isa::decode(tile.memory.word(static_cast<std::uint32_t>(at)).value_or(0));
    if (!instr || instr->op != Op::Setzi || instr->m < 2) continue;  // m0 counts and jumps
    const auto value = static_cast<std::uint32_t>(instr->imm);
    if (value < image.memory_base || value >= image.memory_end) continue;
    const std::uint32_t last = p < tile.phases.size() ? tile.phases[p].step - 1 : UINT32_MAX - 1;
    const std::string tensor = first <= last ? tensor_at(tile, value, first, last) : "";
    notes[static_cast<std::uint32_t>(at)] =
        fmt::format("{:#x}{}{}", value, tensor.empty() ? "" : " ", tensor);
  }
}

Notes program_notes(const Tile& tile) {
  Notes notes;
  note_addresses(tile, notes);
  for (std::size_t p = 0; p < tile.phases.size(); ++p) notes[tile.phases[p].call] = phase_note(tile, p);
  for (const HostCall& call : tile.host_calls) notes[call.call] = host_note(tile, call);
  return notes;
}

// The name of what is called, jumped to, or put into the register that jumps use.
std::string symbol_note(const Tile& tile, const Instr& i) {
  const bool jump =
      i.op == Op::Call || i.op == Op::Bri || i.op == Op::Brz || i.op == Op::Brnz || i.op == Op::BrnzDec;
  if (!jump && (i.op != Op::Setzi || i.m != 0)) return {};
  const auto it = tile.symbols.find(jump ? i.address : static_cast<std::uint32_t>(i.imm));
  return it == tile.symbols.end() ? "" : it->second;
}

// One statement at `at`, of at most `end - at` bytes.
Line statement(const Tile& tile, std::uint32_t at, std::uint32_t end, bool code) {
  const std::uint32_t word = tile.memory.word(at).value();
  if (code) {
    const auto next = at + 8 <= end ? tile.memory.word(at + 4) : std::nullopt;
    const auto instr = isa::decode(word, next.value_or(0));
    const bool two = instr && instr->op == Op::SendPicP;
    if (instr && (!two || next))
      return {at, two ? 8U : 4U, isa::disassemble(*instr), symbol_note(tile, *instr)};
  }
  std::uint32_t zeros = 0;
  while (at + zeros + 4 <= end && tile.memory.word(at + zeros) == 0U) zeros += 4;
  if (!code && zeros >= kShortestZeros) return {at, zeros, fmt::format(".zero {}", zeros), ""};
  return {at, 4, fmt::format(".word {:#010x}", word), ""};
}

void append(const Tile& tile, std::uint32_t begin, std::uint32_t end, bool code, const Notes& notes,
            Section& out) {
  for (std::uint32_t at = begin; at + 4 <= end;) {
    Line line = statement(tile, at, end, code);
    if (const auto it = notes.find(at); it != notes.end()) line.note = it->second;
    at += line.bytes;
    out.lines.push_back(std::move(line));
  }
}

// A named part of the tile's memory.
struct Span {
  std::uint32_t begin = 0, end = 0;
  std::string title;
  bool code = false;
};

std::string phase_list(const std::vector<std::size_t>& phases) {
  std::string text = phases.size() == 1 ? "phase" : "phases";
  for (std::size_t i = 0; i < std::min<std::size_t>(phases.size(), 8); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", phases[i]);
  return phases.size() <= 8 ? text : text + fmt::format(" and {} more", phases.size() - 8);
}

void add_row_spans(const Tile& tile, std::vector<Span>& spans) {
  std::map<std::uint32_t, std::vector<std::size_t>> users;
  for (std::size_t p = 0; p < tile.phases.size(); ++p) users[tile.phases[p].row].push_back(p);
  for (const auto& [address, phases] : users) {
    const auto words = row_words(tile, tile.phases[phases.front()]);
    spans.push_back({address, address + 4 * static_cast<std::uint32_t>(words.size()),
                     "row of " + phase_list(phases), true});
  }
  for (std::size_t p = 0; p < tile.phases.size(); ++p) {
    const Phase& phase = tile.phases[p];
    const auto data = [&](std::uint32_t begin, std::uint32_t bytes, const char* what) {
      if (bytes > 0 && begin <= UINT32_MAX - bytes)
        spans.push_back({begin, begin + bytes, fmt::format("{}, phase {}", what, p), false});
    };
    data(phase.setup.offsets, 4 * phase.setup.count, "offsets of the setup patch");
    data(phase.setup.values, 4 * phase.setup.count, "values of the setup patch");
    data(phase.table.list, 8 * phase.table.count, "Repeat patch: word, table");
    data(phase.steps.list, 12 * phase.steps.count, "Repeat patch: word, first value, step");
    for (std::uint32_t k = 0; k < phase.table.count; ++k) {
      const auto table = tile.memory.word(phase.table.list + 8 * k + 4);
      if (!table) break;
      data(*table, 4 * phase.iterations, "Repeat table");
    }
  }
}

std::vector<Span> spans_of(const Tile& tile) {
  std::vector<Span> spans = {{tile.program, tile.program_end, "program", true}};
  for (const package::Symbol& s : tile.package->side.symbols) {
    if ((s.tile != UINT32_MAX && s.tile != tile.tile) || s.name == "program" || s.name == "rows") continue;
    if (s.address > UINT32_MAX - s.bytes) continue;
    spans.push_back({s.address, s.address + s.bytes, s.name, s.name == "boot" || s.name == "complete"});
  }
  if (!tile.host_calls.empty())
    spans.push_back({tile.program_end,
                     tile.program_end + 16 * static_cast<std::uint32_t>(tile.host_calls.size()),
                     "host descriptors: direction, address, bytes, arena", false});
  add_row_spans(tile, spans);
  std::ranges::sort(spans, {}, [](const Span& s) { return std::tie(s.begin, s.end, s.title); });
  return spans;
}

// The section of one segment; spans that start inside it get their title and kind.
void list_segment(const Tile& tile, const package::Segment& segment, const std::vector<Span>& spans,
                  const Notes& notes, std::vector<Section>& out) {
  const auto bytes = static_cast<std::uint32_t>(tile.memory.bytes_of(segment).size());
  const std::uint32_t end = segment.address + bytes;
  std::uint32_t at = segment.address;
  const auto part = [&](std::uint32_t until, const std::string& title, bool code) {
    if (at >= until) return;
    Section& section = out.emplace_back(Section{at, title, {}});
    append(tile, at, until, code, notes, section);
    at += (until - at) / 4 * 4;
  };
  for (const Span& s : spans) {
    if (s.begin < at || s.begin >= end || s.begin % 4 != segment.address % 4 || s.begin == s.end) continue;
    part(s.begin, "", false);
    part(std::min(s.end, end), s.title, s.code);
  }
  part(end, "", false);
  if (at == end) return;
  if (out.empty() || at == segment.address) out.push_back({at, "", {}});
  for (; at < end; ++at)
    out.back().lines.push_back(
        {at, 1, fmt::format(".byte {:#04x}", tile.memory.bytes_of(segment)[at - segment.address]), ""});
}

std::string tensor_note(const Tile& tile, const char* how, std::uint32_t item_address, std::uint32_t step) {
  const std::string tensor = tensor_at(tile, 4 * item_address, step, step);
  return tensor.empty() ? fmt::format("{} {:#x}", how, 4 * item_address)
                        : fmt::format("{} {:#x} {}", how, 4 * item_address, tensor);
}

std::string mux_note(std::uint32_t source) {
  return source == isa::kMuxNeutral ? "mux closed" : fmt::format("mux to tile {}", source);
}

std::string row_note(const Tile& tile, const Instr& i, std::uint32_t step) {
  switch (i.op) {
    case Op::Send:
      return i.control == 0 ? "" : tensor_note(tile, "from", i.address, step);
    case Op::DelayPic:
      return i.selector == 0 ? tensor_note(tile, "into", i.value, step) : "";
    case Op::DelayXpic:
      return mux_note(i.value);
    case Op::SendPic:
      return i.selector == 2   ? tensor_note(tile, "into", i.value, step)
             : i.selector == 0 ? mux_note(i.value)
                               : "";
    case Op::SendPicP: {
      const std::string from = i.control == 0 ? "" : tensor_note(tile, "from", i.address, step) + "; ";
      return from + mux_note(i.xpic & 0x1FFF) + "; " + tensor_note(tile, "into", i.pic, step);
    }
    default:
      return "";
  }
}

}  // namespace

Section program_listing(const Tile& tile) {
  Section out{tile.program, "program", {}};
  append(tile, tile.program, tile.program_end, true, program_notes(tile), out);
  return out;
}

std::vector<RowLine> row_listing(const Tile& tile, const Phase& phase) {
  const std::vector<RowWord> words = row_words(tile, phase);
  std::vector<RowLine> lines;
  std::uint32_t event = 0;
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::uint32_t next = w + 1 < words.size() ? words[w + 1].value : 0;
    const auto instr = isa::decode(words[w].value, next);
    RowLine& row = lines.emplace_back();
    row.event = event;
    row.line.address = words[w].address;
    row.line.text = instr ? isa::disassemble(*instr) : fmt::format(".word {:#010x}", words[w].value);
    row.line.note = instr ? row_note(tile, *instr, phase.step) : "no instruction";
    for (std::size_t k = 0; k < (instr && instr->op == Op::SendPicP ? 2U : 1U) && w + k < words.size(); ++k) {
      row.words.push_back(words[w + k].value);
      row.patched = row.patched || words[w + k].value != words[w + k].stored;
    }
    w += row.words.size() - 1;
    row.line.bytes = 4 * static_cast<std::uint32_t>(row.words.size());
    if (!instr || words[w].value == isa::kReturnWord) break;
    event += instr->op == Op::Put ? kBaseWriteEvents : std::max(instr->n, 1U);
  }
  return lines;
}

std::vector<Section> tile_listing(const Tile& tile) {
  const std::vector<Span> spans = spans_of(tile);
  const Notes notes = program_notes(tile);
  std::vector<Section> out;
  for (const package::Segment& s : tile.memory.segments()) list_segment(tile, s, spans, notes, out);
  return out;
}

}  // namespace tw::inspect
