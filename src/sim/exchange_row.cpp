#include "sim/exchange_row.h"

#include <fmt/core.h>

namespace tw::sim {
namespace {

using isa::Instr;
using isa::Op;

constexpr std::uint32_t kBaseWriteEvents = 13;                // hardware.md 3.8
constexpr std::uint64_t kMaxEvents = std::uint64_t{1} << 31;  // events stay 32-bit numbers

class RowDecoder {
 public:
  RowDecoder(Context& context, Tile& tile, Activity& activity)
      : context_(context), tile_(tile), out_(activity) {}

  bool decode() {
    start();
    if (!aligned_base(tile_.csr.incoming_base) || !aligned_base(tile_.csr.outgoing_base)) return false;
    const std::uint32_t limit = context_.device.interleaved_base;  // instructions come from region 0 only
    for (address_ = tile_.row;; address_ += 4) {
      if (!context_.memory.contains(address_, 4) || address_ + 4 > limit || address_ % 4 != 0)
        return fault(FaultKind::UnknownInstruction, fmt::format("row fetch at {:#x}", address_));
      const std::uint32_t word = load(address_);
      if (word == isa::kReturnWord) break;
      const bool two = word >> 28 == 0xF;
      const auto instr = isa::decode(word, two && address_ + 8 <= limit ? load(address_ + 4) : 0);
      if (!instr) return fault(FaultKind::UnknownInstruction, fmt::format("word {:08x} in a row", word));
      if (!execute(*instr)) return false;
      if (event_ > kMaxEvents) return fault(FaultKind::StepLimit, "row of more than 2^31 events");
    }
    out_.row_end = address_ + 4;
    out_.end_event = static_cast<std::uint32_t>(event_);
    index_sends();
    return true;
  }

 private:
  // About one bucket per send run, so that a receiver finds its run with one or two looks.
  void index_sends() {
    out_.run_at.clear();
    out_.bucket_shift = 0;
    if (out_.sends.empty()) return;
    const std::uint32_t end = out_.sends.back().event + out_.sends.back().words;
    while ((end >> out_.bucket_shift) > out_.sends.size()) ++out_.bucket_shift;
    for (std::uint32_t i = 0, event = 0; event < end; event += 1U << out_.bucket_shift) {
      while (out_.sends[i].event + out_.sends[i].words <= event) ++i;
      out_.run_at.push_back(i);
    }
  }
  void start() {
    out_.sends.clear();
    out_.mux.clear();
    out_.pointers.clear();
    out_.messages = 0;
    out_.row_begin = tile_.row;
    out_.first_mux = tile_.csr.mux;
    out_.first_pointer = tile_.csr.incoming_base;
  }
  std::uint32_t load(std::uint32_t address) const { return context_.memory.load32(tile_.id, address); }
  bool fault(FaultKind kind, const std::string& what) {
    raise(tile_, kind, address_, what);
    tile_.fault->cycle = event_;
    return false;
  }
  bool aligned_base(std::uint32_t base) {
    return base % 4 == 0 ||
           fault(FaultKind::Unaligned, fmt::format("exchange base register holds {:#x}", base));
  }

  bool execute(const Instr& i) {
    if (!tile_.active)
      return fault(FaultKind::BarrierMismatch,
                   fmt::format("'{}' in the row of a tile that does not take part", isa::disassemble(i)));
    switch (i.op) {
      case Op::Delay:
        return advance(i.n);
      case Op::DelayPic:
        return pic(i.selector, i.value, event_ + i.n) && advance(i.n);
      case Op::DelayXpic:
        return xpic(i.selector, i.value, event_ + i.n) && advance(i.n);
      case Op::Send:
        ++out_.messages;
        return open(i.address, i.control) && items(i.n);
      case Op::SendOff:
        return proceed(i) && items(i.n);
      case Op::SendPic:
        return proceed(i) &&
               (i.selector < 2 ? xpic(i.selector, i.value, event_ + 1)
                               : pic(i.selector - 2, i.value, event_ + 1)) &&
               items(i.n);
      case Op::SendPicP:
        return send_pair(i);
      case Op::Setzi:
        if (i.m != isa::kM15Zero) tile_.m[i.m] = static_cast<std::uint32_t>(i.imm);
        return advance(1);
      case Op::Put:
        return put(i);
      default:
        return fault(FaultKind::MisplacedInstruction, fmt::format("'{}' in a row", isa::disassemble(i)));
    }
  }

  bool advance(std::uint64_t n) {
    event_ += n;
    return true;
  }

  bool open(std::uint32_t item, std::uint32_t control) {
    if ((control & 4) != 0) return fault(FaultKind::WidthMismatch, "64-bit send");
    control_ = control;
    next_ = std::uint64_t{tile_.csr.outgoing_base} + 4 * std::uint64_t{item};
    stream_end_ = event_;
    stream_words_ = 0;
    return true;
  }

  // sendoff and sendpic: only directly behind the items they continue (hardware.md 7.1).
  bool proceed(const Instr& i) {
    if (control_ == 0 || stream_end_ != event_)
      return fault(FaultKind::MisplacedInstruction,
                   fmt::format("'{}' continues no stream", isa::disassemble(i)));
    if (i.op == Op::SendOff && (i.address != 0 || i.control != control_))
      return fault(FaultKind::MisplacedInstruction,
                   fmt::format("'{}' leaves its stream", isa::disassemble(i)));
    return true;
  }

  bool items(std::uint32_t n) {
    if (control_ == 0) return advance(n);
    if (!context_.memory.contains(next_, 4 * std::uint64_t{n}))
      return fault(FaultKind::SendOutOfRange, fmt::format("send of {} words from {:#x}", n, next_));
    stream_words_ += n;
    if (stream_words_ > context_.device.max_message_words)
      return fault(FaultKind::SendOutOfRange,
                   fmt::format("message of more than {} words", context_.device.max_message_words));
    const auto event = static_cast<std::uint32_t>(event_), address = static_cast<std::uint32_t>(next_);
    if (!out_.sends.empty()) {
      SendRun& last = out_.sends.back();
      if (last.event + last.words == event && last.address + 4 * last.words == address &&
          last.control == control_) {
        last.words += n;
        return finish_items(n);
      }
    }
    out_.sends.push_back({event, n, address, control_});
    return finish_items(n);
  }
  bool finish_items(std::uint32_t n) {
    next_ += 4 * std::uint64_t{n};
    event_ += n;
    stream_end_ = event_;
    return true;
  }

  bool pic(std::uint32_t selector, std::uint32_t value, std::uint64_t event) {
    if (selector != 0) return fault(FaultKind::WidthMismatch, "incoming format control");
    out_.pointers.push_back({static_cast<std::uint32_t>(event), tile_.csr.incoming_base + 4 * value});
    return true;
  }
  bool xpic(std::uint32_t selector, std::uint32_t value, std::uint64_t event) {
    if (selector != 0) return fault(FaultKind::WidthMismatch, "paired mux control");
    out_.mux.push_back({static_cast<std::uint32_t>(event), value});
    return true;
  }

  bool send_pair(const Instr& i) {
    if (address_ % 8 != 0) return fault(FaultKind::Unaligned, "sendpicp not on an 8-byte boundary");
    if (!pic(i.selector, i.pic, event_ + 1) || !xpic(i.xpic >> 13, i.xpic & 0x1FFF, event_ + 1)) return false;
    if (i.control == 0) {
      advance(i.n);
    } else {
      const std::uint64_t restart = std::uint64_t{tile_.csr.outgoing_base} + 4 * std::uint64_t{i.address};
      if ((i.control & 4) != 0) return fault(FaultKind::WidthMismatch, "64-bit send");
      if (control_ != i.control || stream_end_ != event_ || restart != next_)
        return fault(FaultKind::MisplacedInstruction, "sendpicp restarts no running stream at its next item");
      if (!items(i.n)) return false;
    }
    address_ += 4;  // the second word is skipped
    return true;
  }

  bool put(const Instr& i) {
    const std::uint32_t value = i.m == isa::kM15Zero ? 0 : tile_.m[i.m];
    advance(kBaseWriteEvents);
    if (i.imm == static_cast<std::int32_t>(isa::kIncomingBase))
      tile_.csr.incoming_base = value;
    else if (i.imm == static_cast<std::int32_t>(isa::kOutgoingBase))
      tile_.csr.outgoing_base = value;
    else
      return fault(FaultKind::MisplacedInstruction, fmt::format("put to register {:#x} in a row", i.imm));
    return aligned_base(value);
  }

  Context& context_;
  Tile& tile_;
  Activity& out_;
  std::uint64_t event_ = 0;
  std::uint32_t address_ = 0;  // of the instruction
  std::uint32_t control_ = 0;  // of the running stream; 0: none
  std::uint64_t next_ = 0;     // byte address of its next item
  std::uint64_t stream_end_ = 0, stream_words_ = 0;
};

}  // namespace

bool decode_row(Context& context, Tile& tile, Activity& activity) {
  return RowDecoder(context, tile, activity).decode();
}

}  // namespace tw::sim
