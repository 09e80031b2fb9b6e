#include "report/walk.h"

#include <algorithm>
#include <utility>

#include "kernel/helper.h"
#include "kernel/macs.h"

namespace tw::report {
namespace {
using isa::Instr;
using isa::Op;

constexpr std::uint32_t kMaxWords = 1U << 22;
constexpr std::uint32_t kMaxPatches = 1U << 17;  // words of a tile

}  // namespace

TileWalk::TileWalk(const package::DeviceImage& image, std::uint32_t tile, std::uint32_t program)
    : memory_(image, tile), tile_(tile), next_(program) {}

Stretch TileWalk::next(std::vector<Work>* work) {
  work_ = work;
  stretch_ = {};
  noted_ = 0;
  clock_.time = clock_.setup = 0;
  std::optional<Barrier> barrier;
  for (std::uint32_t words = 0; !barrier && words < kMaxWords; ++words) {
    pc_ = next_;
    const auto instr = memory_.instruction(pc_);
    if (!instr) break;
    next_ = pc_ + 4;
    clock_.word(*instr);
    barrier = execute(*instr);
  }
  stretch_.barrier = barrier.value_or(Barrier::End);
  stretch_.cycles = clock_.time;
  spend(Work::Supervisor, 0, 0);
  return stretch_;
}

std::optional<Barrier> TileWalk::execute(const Instr& i) {
  std::uint32_t target = 0;
  switch (isa::apply(i, m_, target)) {
    case isa::Effect::Done:
      return std::nullopt;
    case isa::Effect::Branch:
      next_ = target;
      return std::nullopt;
    case isa::Effect::Other:
      break;
  }
  switch (i.op) {
    case Op::Ld32:
      isa::set(m_, i.m, memory_.at(address_of(i)).value_or(0));
      return std::nullopt;
    case Op::St32:
      memory_.store(address_of(i), isa::value_of(m_, i.m));
      return std::nullopt;
    case Op::Get:
      isa::set(m_, i.m, i.imm == 0x03 ? tile_ : 0);  // TILE_ID; no program of ours asks for the time
      return std::nullopt;
    case Op::Call:
      return call(i);
    case Op::Sans:
      sans_ = static_cast<std::uint32_t>(i.imm);
      return std::nullopt;
    case Op::Sync:
      return sync(static_cast<std::uint32_t>(i.imm));
    case Op::Trap:
      return Barrier::Other;
    case Op::Put:
    case Op::Runall:
      return std::nullopt;
    default:
      return Barrier::End;
  }
}

std::uint32_t TileWalk::address_of(const Instr& i) const {
  return isa::value_of(m_, i.base) + isa::value_of(m_, i.delta) + 4 * static_cast<std::uint32_t>(i.imm);
}

std::optional<Barrier> TileWalk::call(const Instr& i) {
  isa::set(m_, i.m, next_);
  if (memory_.at(i.address) != kernel::kMagic) {
    next_ = i.address;
    return std::nullopt;
  }
  const std::uint32_t what = memory_.at(i.address + 4).value_or(0);
  if (what >> 16 == static_cast<std::uint32_t>(kernel::HeaderKind::Helper))
    return helper(static_cast<std::uint16_t>(what));
  run_kernel(i.address);
  return std::nullopt;
}

std::optional<Barrier> TileWalk::helper(std::uint16_t code) {
  switch (static_cast<kernel::Helper>(code)) {
    case kernel::Helper::PatchRow:
      patch_row();
      break;
    case kernel::Helper::RepeatTable:
      patch_repeat(true);
      break;
    case kernel::Helper::RepeatStep:
      patch_repeat(false);
      break;
    case kernel::Helper::HostRun:
      clock_.arrive_at_host_run();
      return Barrier::Host;
    default:
      return std::nullopt;
  }
  const bool row = static_cast<kernel::Helper>(code) == kernel::Helper::PatchRow;
  spend(Work::RowSetup, code, kernel::helper_cycles(static_cast<kernel::Helper>(code), m_[row ? 5 : 3]));
  return std::nullopt;
}

// m2 row, m3 offsets, m4 values, m5 words.
void TileWalk::patch_row() {
  for (std::uint32_t i = 0; i < std::min(m_[5], kMaxPatches); ++i) {
    const auto offset = memory_.at(m_[3] + 4 * i), value = memory_.at(m_[4] + 4 * i);
    if (!offset || !value) return;
    memory_.store(m_[2] + *offset, *value);
  }
}

// m2 entries, m3 their number, m4 remaining, m5 total.
void TileWalk::patch_repeat(bool table) {
  const std::uint32_t iteration = m_[5] - m_[4];
  for (std::uint32_t i = 0; i < std::min(m_[3], kMaxPatches); ++i) {
    const std::uint32_t entry = m_[2] + (table ? 8 : 12) * i;
    const auto word = memory_.at(entry), second = memory_.at(entry + 4);
    if (!word || !second) return;
    const auto value =
        table ? memory_.at(*second + 4 * iteration) : *second + memory_.at(entry + 8).value_or(0) * iteration;
    if (value) memory_.store(*word, *value);
  }
}

std::optional<Barrier> TileWalk::sync(std::uint32_t zone) {
  const std::optional<std::uint32_t> sans = std::exchange(sans_, std::nullopt);
  if (zone == 2) return std::nullopt;
  if (zone == 1 && sans == 1U) {
    clock_.arrive();
    return Barrier::Host;
  }
  return zone == 1 || zone == 3 ? internal() : Barrier::Other;
}

// A barrier of all tiles; with `call $m10, row` behind it, an exchange.
Barrier TileWalk::internal() {
  const auto instr = memory_.instruction(next_);
  if (!instr || instr->op != Op::Call || instr->m != isa::kM10Return ||
      memory_.at(instr->address) == kernel::kMagic)
    return Barrier::Other;
  clock_.arrive();
  next_ += 4;
  m_[isa::kM10Return] = next_;
  stretch_.row = instr->address;
  return Barrier::Exchange;
}

void TileWalk::run_kernel(std::uint32_t header) {
  const std::uint32_t what = memory_.at(header + 4).value_or(0), sizes = memory_.at(header + 8).value_or(0);
  const kernel::Kernel* k = kernel::find(static_cast<kernel::Code>(what & 0xFFFF));
  if (what >> 16 != static_cast<std::uint32_t>(kernel::HeaderKind::Kernel) || k == nullptr ||
      sizes >> 24 != k->spec_words)
    return;
  std::vector<std::uint32_t> spec(k->spec_words);
  for (std::uint32_t i = 0; i < spec.size(); ++i) spec[i] = memory_.at(header + 12 + 4 * i).value_or(0);
  kernel::Call call;
  for (std::uint32_t i = 0; i < call.m.size(); ++i) call.m[i] = m_[i + 2];
  call.spec = spec;
  if (!k->validate(call).empty()) return;
  const std::uint64_t cycles = k->cycles(call);
  spend(Work::Kernel, what & 0xFFFF, cycles);
  if (work_ != nullptr && cycles > 0) work_->back().macs = kernel::macs(k->code, call);
}

// Everything that the clock shows beyond what is noted was spent on supervisor words.
void TileWalk::spend(Work::Kind kind, std::uint16_t code, std::uint64_t cycles) {
  if (work_ != nullptr) {
    if (clock_.time > noted_) work_->push_back({Work::Supervisor, 0, clock_.time - noted_, 0});
    if (cycles > 0) work_->push_back({kind, code, cycles, 0});
    noted_ = clock_.time + cycles;
  }
  clock_.time += cycles;
}

}  // namespace tw::report
