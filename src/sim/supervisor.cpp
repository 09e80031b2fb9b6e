#include "sim/supervisor.h"

#include <fmt/core.h>

#include "sim/native.h"

namespace tw::sim {
namespace {

using isa::Instr;
using isa::Op;

// Bounds the work between two looks at the cycle count whatever the words are.
constexpr std::uint64_t kMaxInstructions = std::uint64_t{1} << 26;

class Supervisor {
 public:
  Supervisor(Context& context, Tile& tile) : context_(context), tile_(tile) {}

  void run() {
    tile_.stop = Stop::Running;
    tile_.setup = 0;
    while (tile_.stop == Stop::Running) step();
  }

 private:
  std::uint32_t reg(std::uint32_t m) const { return isa::value_of(tile_.m, m); }
  void set(std::uint32_t m, std::uint32_t value) { isa::set(tile_.m, m, value); }
  bool fault(FaultKind kind, const std::string& what) { return raise(tile_, kind, pc_, what); }
  void stand(Stop stop) { tile_.stop = stop; }

  void step() {
    pc_ = tile_.pc;
    if (!fetchable(pc_)) {
      fault(FaultKind::UnknownInstruction, fmt::format("fetch at {:#x} outside executable memory", pc_));
      return;
    }
    const std::uint32_t word = context_.memory.load32(tile_.id, pc_);
    const std::optional<Instr> instr = isa::decode(word);
    if (!instr) {
      fault(FaultKind::UnknownInstruction, fmt::format("word {:08x} at {:#x}", word, pc_));
      return;
    }
    tile_.word(*instr);
    if (tile_.time > context_.step_limit || ++tile_.instructions > kMaxInstructions) {
      fault(FaultKind::StepLimit, fmt::format("more than {} cycles in one call", context_.step_limit));
      return;
    }
    tile_.pc = pc_ + 4;
    execute(*instr);
  }

  bool fetchable(std::uint32_t address) {
    if (address % 4 != 0) return false;
    if (address >= range_.begin && address < range_.end && range_.end - address >= 4) return true;
    for (const Range& r : tile_.executable)
      if (address >= r.begin && std::uint64_t{address} + 4 <= r.end) {
        range_ = r;
        return true;
      }
    return false;
  }

  void execute(const Instr& i) {
    std::uint32_t target = 0;
    switch (isa::apply(i, tile_.m, target)) {
      case isa::Effect::Done:
        return check_stack(i);
      case isa::Effect::Branch:
        return branch(target);
      case isa::Effect::Other:
        break;
    }
    switch (i.op) {
      case Op::Put:
        put(i);
        return;
      case Op::Get:
        get(i);
        return;
      case Op::Ld32:
        load(i);
        return;
      case Op::St32:
        store(i);
        return;
      case Op::Call:
        call(i);
        return;
      case Op::Sans:
        sans(i);
        return;
      case Op::Sync:
        sync(static_cast<std::uint32_t>(i.imm));
        return;
      case Op::Runall:
        if (tile_.workers_active) fault(FaultKind::WorkersBusy, "runall while workers are running");
        tile_.workers_active = true;
        return;
      case Op::Trap:
        tile_.trap_code = static_cast<std::uint32_t>(i.imm);
        stand(Stop::Trap);
        return;
      default:
        fault(FaultKind::MisplacedInstruction, fmt::format("'{}' outside a row", isa::disassemble(i)));
    }
  }

  void put(const Instr& i) {
    const std::uint32_t v = reg(i.m);
    switch (i.imm) {
      case isa::kIncomingMux:
        tile_.csr.mux = v;
        return;
      case isa::kIncomingBase:
        tile_.csr.incoming_base = v;
        return;
      case isa::kIncomingDcount:
        tile_.csr.dcount = v;
        return;
      case isa::kOutgoingBase:
        tile_.csr.outgoing_base = v;
        return;
      default:
        if (i.imm < 0x21 || i.imm > 0x26)  // WORKERn_BASE
          fault(FaultKind::MisplacedInstruction, fmt::format("put to register {:#x}", i.imm));
    }
  }

  void get(const Instr& i) {
    switch (i.imm) {
      case 0x03:  // TILE_ID
        return set(i.m, tile_.id);
      case 0x60:  // SCOUNT_L
        return set(i.m, static_cast<std::uint32_t>(tile_.time));
      case 0x61:  // SCOUNT_U
        return set(i.m, static_cast<std::uint32_t>(tile_.time >> 32));
      default:
        fault(FaultKind::MisplacedInstruction, fmt::format("get of register {:#x}", i.imm));
    }
  }

  std::uint32_t stack_end() const { return context_.device.data_base; }
  std::uint32_t stack_begin() const { return context_.device.data_base - 0x100; }  // decisions.md 32

  bool address_of(const Instr& i, std::uint32_t& address) {
    address = reg(i.base) + reg(i.delta) + 4 * static_cast<std::uint32_t>(i.imm);
    if (i.base == isa::kM11Stack && (address < stack_begin() || address + 4 > stack_end()))
      return fault(FaultKind::StackOverflow, fmt::format("access to {:#x} through $m11", address));
    return true;
  }

  void load(const Instr& i) {
    std::uint32_t address = 0, value = 0;
    if (address_of(i, address) && read_word(context_, tile_, address, value)) set(i.m, value);
  }

  void store(const Instr& i) {
    std::uint32_t address = 0;
    if (!address_of(i, address) || !write_word(context_, tile_, address, reg(i.m))) return;
    if (address == context_.device.runtime_state && reg(i.m) == 1) tile_.completed = true;
  }

  void check_stack(const Instr& i) {
    if (i.op != Op::AddImm || i.m != isa::kM11Stack) return;
    const std::uint32_t top = reg(isa::kM11Stack);
    if (top < stack_begin() || top > stack_end())
      fault(FaultKind::StackOverflow, fmt::format("$m11 becomes {:#x}", top));
  }

  void branch(std::uint32_t target) {
    if (target == 0 && tile_.completed) return stand(Stop::Halted);
    if (!fetchable(target)) {
      raise(tile_, FaultKind::BadCallTarget, target, fmt::format("branch at {:#x} to {:#x}", pc_, target));
      return;
    }
    tile_.pc = target;
  }

  void call(const Instr& i) {
    if (const auto header = header_at(context_, tile_, i.address)) {
      set(i.m, pc_ + 4);
      if (call_native(context_, tile_, *header, i.address, i.m) && tile_.stop == Stop::Host)
        tile_.arrive_at_host_run();
      return;
    }
    if (!fetchable(i.address)) {
      raise(tile_, FaultKind::BadCallTarget, i.address,
            fmt::format("call at {:#x} to {:#x}: no kernel, helper or program there", pc_, i.address));
      return;
    }
    set(i.m, pc_ + 4);
    tile_.pc = i.address;
  }

  void sans(const Instr& i) {
    if (i.imm > 1 || tile_.sans)
      fault(FaultKind::MisplacedInstruction, fmt::format("sans {} cannot be answered here", i.imm));
    tile_.sans = static_cast<std::uint32_t>(i.imm);
  }

  void sync(std::uint32_t zone) {
    if (zone == 2) {
      tile_.workers_active = false;
      return;
    }
    if (zone == 1) {
      if (!tile_.sans) {
        fault(FaultKind::MisplacedInstruction, "sync 1 without sans");
        return;
      }
      const bool external = *tile_.sans == 1;
      tile_.sans.reset();
      tile_.active = false;
      if (!external) return internal(false);
      tile_.arrive();
      return stand(Stop::Host);
    }
    if (tile_.sans || (zone != 3 && zone != 7)) {
      fault(FaultKind::MisplacedInstruction, fmt::format("sync {} cannot be answered here", zone));
      return;
    }
    if (zone == 7) return stand(Stop::External);
    internal(true);
  }

  // A barrier of all tiles; with `call $m10, row` behind it, an exchange.
  void internal(bool active) {
    tile_.active = active;
    tile_.row = 0;
    const auto next =
        fetchable(pc_ + 4) ? isa::decode(context_.memory.load32(tile_.id, pc_ + 4)) : std::nullopt;
    if (!next || next->op != Op::Call || next->m != isa::kM10Return ||
        header_at(context_, tile_, next->address))
      return stand(Stop::Internal);
    tile_.row = next->address;
    tile_.arrive();
    tile_.pc = pc_ + 8;
    set(isa::kM10Return, tile_.pc);
    if (active && !exchange_ready()) return;
    stand(Stop::Exchange);
  }

  bool exchange_ready() {
    if (tile_.workers_active || tile_.barrier_due)
      return fault(FaultKind::WorkersBusy, "exchange without a worker barrier since the last kernel");
    if (tile_.csr.dcount != 1)
      return fault(FaultKind::BadDcount,
                   fmt::format("INCOMING_DCOUNT is {} at an internal exchange", tile_.csr.dcount));
    return true;
  }

  Context& context_;
  Tile& tile_;
  std::uint32_t pc_ = 0;
  Range range_;
};

}  // namespace

void run_supervisor(Context& context, Tile& tile) { Supervisor(context, tile).run(); }

}  // namespace tw::sim
