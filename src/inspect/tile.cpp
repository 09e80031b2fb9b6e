#include "inspect/tile.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "target/isa.h"

namespace tw::inspect {
namespace {
using isa::Instr;
using isa::Op;

const package::Symbol& symbol(const package::Package& p, const std::string& name) {
  const auto it = std::ranges::find(p.side.symbols, name, &package::Symbol::name);
  if (it == p.side.symbols.end())
    throw Error(ErrorKind::File, "the package's side section names no '" + name + "'");
  return *it;
}

std::optional<Instr> instruction(const Memory& memory, std::uint32_t at) {
  const auto word = memory.word(at);
  return word ? isa::decode(*word, memory.word(at + 4).value_or(0)) : std::nullopt;
}

// Walks the program and keeps the constants in its registers: what is passed to helpers and rows.
class ProgramReader {
 public:
  ProgramReader(Tile& tile, const package::Symbol& rows) : tile_(tile), rows_(rows) {}

  void run() {
    std::optional<Instr> before;
    std::uint32_t at = tile_.program;
    for (;; at += 4) {
      const auto instr = instruction(tile_.memory, at);
      if (!instr) break;
      execute(at, *instr, before);
      if (instr->op == Op::Br && before && leaves(at, *before)) {
        at += 4;
        break;
      }
      before = instr;
    }
    tile_.program_end = at;
    for (std::size_t p = 0; p < tile_.phases.size(); ++p) {
      if (base_slots_[p] != 0) tile_.phases[p].base_stride = stride_of(tile_.phases[p].call, base_slots_[p]);
    }
  }

 private:
  // `setzi m0, target; br m0` to somewhere outside: the completion code.
  bool leaves(std::uint32_t at, const Instr& before) const {
    const auto target = static_cast<std::uint32_t>(before.imm);
    return before.op == Op::Setzi && (target < tile_.program || target > at);
  }

  void execute(std::uint32_t at, const Instr& i, const std::optional<Instr>& before) {
    if (i.op == Op::Setzi) m_[i.m] = static_cast<std::uint32_t>(i.imm);
    if (i.op == Op::Ld32 && i.m == isa::kM6MovingBase && i.base == isa::kM11Stack)
      slot_ = static_cast<std::uint32_t>(i.imm);
    if (i.op != Op::Call) return;
    if (i.m == isa::kM9HelperReturn) return helper(i.address);
    if (i.m != isa::kM10Return) return;
    if (before && before->op == Op::Sync && i.address - rows_.address < rows_.bytes)
      return phase(at, i.address);
    const auto it = tile_.symbols.find(i.address);
    if (it != tile_.symbols.end() && it->second == "host_run") tile_.host_calls.push_back({at, m_[2]});
  }

  void helper(std::uint32_t address) {
    const auto it = tile_.symbols.find(address);
    if (it == tile_.symbols.end()) return;
    if (it->second == "patch_row") next_.setup = {m_[2], m_[3], m_[4], m_[5]};
    if (it->second == "repeat_table") next_.table = {m_[2], m_[3]}, next_.iterations = m_[5];
    if (it->second == "repeat_step") next_.steps = {m_[2], m_[3]}, next_.iterations = m_[5];
  }

  void phase(std::uint32_t at, std::uint32_t row) {
    next_.call = at;
    next_.row = row;
    tile_.phases.push_back(std::exchange(next_, {}));
    base_slots_.push_back(std::exchange(slot_, 0));
  }

  // The end of the Repeat adds the stride to the slot: ld32 m0; add m0...; st32 m0.
  std::uint32_t stride_of(std::uint32_t from, std::uint32_t slot) const {
    const auto is_slot = [&](const Instr& i, Op op) {
      return i.op == op && i.m == 0 && i.base == isa::kM11Stack && static_cast<std::uint32_t>(i.imm) == slot;
    };
    for (std::uint32_t at = from; at < tile_.program_end; at += 4) {
      auto i = instruction(tile_.memory, at);
      if (!i || !is_slot(*i, Op::Ld32)) continue;
      std::uint32_t sum = 0;
      for (i = instruction(tile_.memory, at += 4); i && i->op == Op::AddImm;
           i = instruction(tile_.memory, at += 4))
        sum += static_cast<std::uint32_t>(i->imm);
      if (i && is_slot(*i, Op::St32)) return sum;
    }
    return 0;
  }

  Tile& tile_;
  const package::Symbol& rows_;
  std::array<std::uint32_t, 16> m_{};
  std::uint32_t slot_ = 0;  // of OUTGOING_BASE, for the next phase
  Phase next_;
  std::vector<std::uint32_t> base_slots_;
};

// Steps and operations of the exchange phases, and iterations of those inside a Repeat.
void name_phases(Tile& tile) {
  std::uint32_t iterations = 1;
  std::size_t phase = 0;
  const auto& steps = tile.package->side.steps;
  for (std::size_t s = 0; s < steps.size() && phase < tile.phases.size(); ++s) {
    if (steps[s].kind == package::StepKind::RepeatBegin) iterations = std::max(steps[s].count, 1U);
    if (steps[s].kind == package::StepKind::RepeatEnd) iterations = 1;
    if (steps[s].kind != package::StepKind::Exchange) continue;
    Phase& p = tile.phases[phase++];
    p.step = static_cast<std::uint32_t>(s + 1);
    p.operation = steps[s].name;
    p.iterations = iterations;
  }
}

}  // namespace

std::optional<std::uint32_t> Memory::word(std::uint32_t address) const {
  for (const package::Segment& s : segments()) {
    const auto& b = bytes_of(s);
    if (address < s.address || std::uint64_t{address} - s.address + 4 > b.size()) continue;
    const std::size_t o = address - s.address;
    return b[o] | b[o + 1] << 8 | b[o + 2] << 16 | static_cast<std::uint32_t>(b[o + 3]) << 24;
  }
  return std::nullopt;
}

Tile read_tile(const package::Package& package, std::uint32_t tile) {
  if (tile >= package.image.tiles.size())
    throw Error(ErrorKind::Usage,
                fmt::format("--tile {}: the package has {} tiles", tile, package.image.tiles.size()));
  Tile out{.package = &package,
           .tile = tile,
           .memory = Memory(package.image, tile),
           .symbols = {},
           .tensors = {},
           .program = symbol(package, "program").address,
           .phases = {},
           .host_calls = {}};
  for (const package::Symbol& s : package.side.symbols) {
    if (s.tile == UINT32_MAX || s.tile == tile) out.symbols[s.address] = s.name;
  }
  for (const package::TensorPlace& t : package.side.tensors) {
    if (t.tile == tile) out.tensors.push_back(t);
  }
  ProgramReader(out, symbol(package, "rows")).run();
  name_phases(out);
  return out;
}

const Phase& phase_of(const Tile& tile, std::uint32_t phase) {
  if (phase >= tile.phases.size())
    throw Error(ErrorKind::Usage,
                fmt::format("--phase {}: the program has {} phases", phase, tile.phases.size()));
  return tile.phases[phase];
}

std::vector<RowWord> row_words(const Tile& tile, const Phase& phase) {
  const Memory& memory = tile.memory;
  std::vector<RowWord> row;
  for (std::uint32_t at = phase.row;; at += 4) {
    const auto word = memory.word(at);
    if (!word) break;
    row.push_back({at, *word, *word});
    if (*word == isa::kReturnWord) break;
    const auto instr = instruction(memory, at);
    if (!instr) break;
    if (instr->op != Op::SendPicP) continue;
    const std::uint32_t second = memory.word(at += 4).value_or(0);
    row.push_back({at, second, second});
  }
  const auto write = [&](std::uint32_t address, std::optional<std::uint32_t> value) {
    const std::uint32_t index = (address - phase.row) / 4;
    if (value && index < row.size()) row[index].value = *value;
  };
  // A damaged count ends with the memory that the package holds.
  for (std::uint32_t k = 0; k < phase.setup.count; ++k) {
    const auto offset = memory.word(phase.setup.offsets + 4 * k);
    if (!offset) break;
    write(phase.setup.row + *offset, memory.word(phase.setup.values + 4 * k));
  }
  for (std::uint32_t k = 0; k < phase.table.count; ++k) {
    const auto word = memory.word(phase.table.list + 8 * k),
               values = memory.word(phase.table.list + 8 * k + 4);
    if (!word || !values) break;
    write(*word, memory.word(*values));
  }
  for (std::uint32_t k = 0; k < phase.steps.count; ++k) {
    const auto word = memory.word(phase.steps.list + 12 * k);
    if (!word) break;
    write(*word, memory.word(phase.steps.list + 12 * k + 4));
  }
  return row;
}

std::string tensor_at(const Tile& tile, std::uint32_t address, std::uint32_t first, std::uint32_t last) {
  const package::TensorPlace* found = nullptr;
  for (const package::TensorPlace& t : tile.tensors) {
    if (last < t.first_step || first > t.last_step) continue;
    if (address < t.address || address - t.address >= t.bytes) continue;
    if (found != nullptr) return {};
    found = &t;
  }
  if (found == nullptr) return {};
  const std::uint32_t offset = address - found->address;
  return offset == 0 ? found->tensor : fmt::format("{}+{:#x}", found->tensor, offset);
}

}  // namespace tw::inspect
