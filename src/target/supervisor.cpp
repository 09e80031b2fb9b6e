#include "target/supervisor.h"

namespace tw::isa {
namespace {

// Words of the fixed sequence before a row call.
bool is_setup(const Instr& i) {
  switch (i.op) {
    case Op::Setzi:
      return i.m == 8;
    case Op::Put:
      return i.imm == static_cast<std::int32_t>(kIncomingBase) ||
             i.imm == static_cast<std::int32_t>(kIncomingDcount) ||
             i.imm == static_cast<std::int32_t>(kOutgoingBase);
    case Op::Call:
      return i.m == kM7BarrierReturn;
    case Op::Sync:
    case Op::Sans:
      return true;
    default:
      return false;
  }
}

Effect branch_if(bool taken, std::uint32_t to, std::uint32_t& target) {
  if (!taken) return Effect::Done;
  target = to;
  return Effect::Branch;
}

}  // namespace

void SupervisorClock::word(const Instr& instr) {
  time += kCyclesPerWord;
  setup = is_setup(instr) ? setup + kCyclesPerWord : 0;
  describes_batch = descriptor_word;
  descriptor_word = instr.op == Op::Setzi && instr.m == 2;
}

Effect apply(const Instr& i, Registers& m, std::uint32_t& target) {
  const std::uint32_t base = value_of(m, i.base), tested = value_of(m, i.m);
  const auto imm = static_cast<std::uint32_t>(i.imm);
  switch (i.op) {
    case Op::Setzi:
      set(m, i.m, imm);
      return Effect::Done;
    case Op::AddImm:
      set(m, i.m, base + imm);
      return Effect::Done;
    case Op::Shl:
      set(m, i.m, imm < 32 ? base << imm : 0);
      return Effect::Done;
    case Op::Shr:
      set(m, i.m, imm < 32 ? base >> imm : 0);
      return Effect::Done;
    case Op::AndImm:
      set(m, i.m, base & imm);
      return Effect::Done;
    case Op::OrImm:
      set(m, i.m, base | imm);
      return Effect::Done;
    case Op::Brz:
      return branch_if(tested == 0, i.address, target);
    case Op::Brnz:
      return branch_if(tested != 0, i.address, target);
    case Op::BrnzDec:
      set(m, i.m, tested - 1);
      return branch_if(tested != 0, i.address, target);
    case Op::Bri:
      return branch_if(true, i.address, target);
    case Op::Br:
      return branch_if(true, tested, target);
    default:
      return Effect::Other;
  }
}

}  // namespace tw::isa
