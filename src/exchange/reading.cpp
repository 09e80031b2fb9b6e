#include "exchange/reading.h"

#include <fmt/core.h>

#include "target/isa.h"

namespace tw::exchange {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const std::uint32_t> words) : words_(words) {}

  Reading run() {
    std::size_t i = 0;
    for (bool returned = false; !returned; ++i) {
      if (i >= words_.size()) {
        fault(i, "no return");
        break;
      }
      const auto instr = isa::decode(words_[i], i + 1 < words_.size() ? words_[i + 1] : 0);
      if (!instr) {
        fault(i, "unknown instruction");
        break;
      }
      if (instr->op == isa::Op::SendPicP && i % 2) fault(i, "sendpicp is not 8-byte aligned");
      returned = execute(i, *instr);
      if (instr->op == isa::Op::SendPicP) ++i;
    }
    out_.words = static_cast<std::uint32_t>(i);
    return std::move(out_);
  }

 private:
  // True at the return.
  bool execute(std::size_t i, const isa::Instr& in) {
    const std::uint32_t begin = out_.events;
    switch (in.op) {
      case isa::Op::Delay:
        break;
      case isa::Op::DelayPic:
        pointer(i, begin + in.n, in.selector, in.value);
        break;
      case isa::Op::DelayXpic:
        select(i, begin + in.n, in.selector, in.value);
        break;
      case isa::Op::Send:
        open(i, in.address, in.control);
        opened_ = true;
        items(begin, in.n);
        break;
      case isa::Op::SendOff:
        if (in.address != 0) fault(i, "sendoff with an offset");
        if (!streaming_) fault(i, "sendoff without a stream");
        if (in.control != control_) fault(i, "sendoff changes the send control");
        items(begin, in.n);
        break;
      case isa::Op::SendPic:
        if (!streaming_) fault(i, "sendpic without a stream");
        if (in.selector < 2)
          select(i, begin + 1, in.selector, in.value);
        else
          pointer(i, begin + 1, in.selector - 2, in.value);
        items(begin, in.n);
        break;
      case isa::Op::SendPicP:
        if (in.control != 0) {
          open(i, in.address, in.control);
          items(begin, in.n);
        }
        select(i, begin + 1, in.xpic >> 13, in.xpic & 0x1FFF);
        pointer(i, begin + 1, in.selector, in.pic);
        break;
      case isa::Op::Br:
        if (in.m != isa::kM10Return) fault(i, "return through a wrong register");
        return true;
      default:
        fault(i, "instruction does not belong in a row");
    }
    out_.events = begin + in.n;
    return false;
  }

  void open(std::size_t i, std::uint32_t address, std::uint32_t control) {
    if (control < 1 || control > 3) fault(i, "send control is no 32-bit direction");
    address_ = address;
    control_ = control;
    streaming_ = true;
  }
  // Continues the message before where it ends here: a sendpicp names its stream anew.
  void items(std::uint32_t event, std::uint32_t n) {
    SendRun* last = opened_ || out_.sends.empty() ? nullptr : &out_.sends.back();
    if (last && last->event + last->words == event && last->address + last->words == address_ &&
        last->control == control_)
      last->words += n;
    else
      out_.sends.push_back({event, n, address_, control_});
    opened_ = false;
    address_ += n;
  }
  void select(std::size_t i, std::uint32_t cycle, std::uint32_t selector, std::uint32_t value) {
    if (selector != 0) fault(i, "paired mux control");
    add(i, out_.selects, cycle, value);
  }
  void pointer(std::size_t i, std::uint32_t cycle, std::uint32_t selector, std::uint32_t value) {
    if (selector != 0) fault(i, "format control");
    add(i, out_.pointers, cycle, value);
  }
  void add(std::size_t i, std::vector<TimedValue>& to, std::uint32_t cycle, std::uint32_t value) {
    if (!to.empty() && to.back().cycle >= cycle) fault(i, "two controls of one kind on a cycle");
    to.push_back({cycle, value});
  }
  void fault(std::size_t word, const char* what) {
    out_.faults.push_back(fmt::format("word {}: {}", word, what));
  }

  std::span<const std::uint32_t> words_;
  Reading out_;
  std::uint32_t address_ = 0, control_ = 0;
  bool streaming_ = false;
  bool opened_ = false;  // by the instruction being read
};

}  // namespace

Reading read_row(std::span<const std::uint32_t> words) { return Reader(words).run(); }

}  // namespace tw::exchange
