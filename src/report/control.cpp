#include "report/control.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "kernel/kernel.h"
#include "target/isa.h"

namespace tw::report {
namespace {
using isa::Instr;
using isa::Op;

constexpr std::uint32_t kBaseWriteEvents = 13;  // `put` in a row, hardware.md 3.8

// Words of one tile as loaded.
class Words {
 public:
  Words(const package::DeviceImage& image, std::uint32_t tile)
      : image_(image), segments_(image.tiles[tile].segments) {}

  std::optional<std::uint32_t> at(std::uint32_t address) {
    if (!holds(address)) {
      const auto it = std::ranges::find_if(segments_, [&](const package::Segment& s) {
        return s.address <= address && address - s.address + 4 <= image_.blobs[s.blob].size();
      });
      if (it == segments_.end()) return std::nullopt;
      begin_ = it->address;
      bytes_ = image_.blobs[it->blob];
    }
    const std::size_t o = address - begin_;
    return bytes_[o] | bytes_[o + 1] << 8 | bytes_[o + 2] << 16 |
           static_cast<std::uint32_t>(bytes_[o + 3]) << 24;
  }
  std::optional<Instr> instruction(std::uint32_t address) {
    const auto word = at(address);
    if (!word) return std::nullopt;
    const bool two = *word >> 28 == 0xF;
    return isa::decode(*word, two ? at(address + 4).value_or(0) : 0);
  }

 private:
  bool holds(std::uint32_t address) const {
    return address >= begin_ && std::uint64_t{address} - begin_ + 4 <= bytes_.size();
  }
  const package::DeviceImage& image_;
  const std::vector<package::Segment>& segments_;
  std::uint32_t begin_ = 0;  // of the segment used last
  std::span<const std::uint8_t> bytes_;
};

bool opens_window(std::uint32_t source) { return source != isa::kMuxNeutral; }

Row read_row(Words& words, std::uint32_t address) {
  Row row{.address = address};
  std::uint32_t at = address;
  bool sending = false;
  for (;; at += 4) {
    const auto instr = words.instruction(at);
    if (!instr || words.at(at) == isa::kReturnWord) break;
    const Instr& i = *instr;
    switch (i.op) {
      case Op::Send:
        sending = i.control != 0;
        row.messages += sending ? 1 : 0;
        [[fallthrough]];
      case Op::SendOff:
        row.words += sending ? i.n : 0;
        break;
      case Op::SendPic:
        row.words += sending ? i.n : 0;
        row.windows += i.selector < 2 && opens_window(i.value) ? 1 : 0;
        break;
      case Op::SendPicP:
        row.words += i.control != 0 ? i.n : 0;
        row.windows += opens_window(i.xpic & 0x1FFF) ? 1 : 0;
        at += 4;
        break;
      case Op::DelayXpic:
        row.windows += opens_window(i.value) ? 1 : 0;
        break;
      default:
        break;
    }
    row.events += i.op == Op::Put ? kBaseWriteEvents : std::max(i.n, 1U);
  }
  row.bytes = at + 4 - address;
  return row;
}

struct Loop {
  std::uint32_t begin = 0, end = 0, iterations = 1;
};

// A loop ends with `setzi 0, begin; br 0`. The outermost runs over the calls of the model: it counts once.
std::vector<Loop> find_loops(Words& words, std::uint32_t program, std::span<const std::uint32_t> repeats) {
  std::vector<Loop> loops;
  std::optional<Instr> before;
  for (std::uint32_t at = program;; at += 4) {
    const auto instr = words.instruction(at);
    if (!instr) break;
    if (instr->op == Op::Br && before && before->op == Op::Setzi) {
      const auto target = static_cast<std::uint32_t>(before->imm);
      if (target < program || target > at) break;  // the completion code: the program is over
      loops.push_back({target, at, 1});
    }
    before = instr;
  }
  for (std::size_t i = 0; i + 1 < loops.size() && i < repeats.size(); ++i)
    loops[i].iterations = std::max(repeats[i], 1U);
  return loops;
}

std::uint64_t cycles_of_call(Words& words, std::uint32_t target,
                             const std::array<std::uint32_t, 16>& registers) {
  const std::uint32_t what = words.at(target + 4).value_or(0), sizes = words.at(target + 8).value_or(0);
  if (what >> 16 != static_cast<std::uint32_t>(kernel::HeaderKind::Kernel)) return 0;
  const kernel::Kernel* k = kernel::find(static_cast<kernel::Code>(what & 0xFFFF));
  if (k == nullptr || sizes >> 24 != k->spec_words) return 0;
  std::vector<std::uint32_t> spec(k->spec_words);
  for (std::uint32_t i = 0; i < spec.size(); ++i) spec[i] = words.at(target + 12 + 4 * i).value_or(0);
  kernel::Call call;
  for (std::uint32_t i = 0; i < call.m.size(); ++i) call.m[i] = registers[i + 2];
  call.spec = spec;
  return k->validate(call).empty() ? k->cycles(call) : 0;
}

class Reader {
 public:
  Reader(Words& words, std::uint32_t program, std::span<const std::uint32_t> repeats)
      : words_(words), program_(program), loops_(find_loops(words, program, repeats)) {}

  TileControl run() {
    out_.kernels.emplace_back();
    const std::uint32_t end = loops_.empty() ? UINT32_MAX : loops_.back().end;
    std::optional<Instr> before;
    for (std::uint32_t at = program_; at <= end; at += 4) {
      const auto instr = words_.instruction(at);
      if (!instr) break;
      if (!loop_)
        for (const Loop& loop : loops_)
          if (loop.begin == at && loop.end != end) begin_loop(loop);
      execute(*instr, before);
      if (loop_ && loop_->end == at) end_loop();
      before = instr;
    }
    return std::move(out_);
  }

 private:
  // Registers and the frame of the Repeat, as far as they hold arguments of calls.
  void execute(const Instr& i, const std::optional<Instr>& before) {
    switch (i.op) {
      case Op::Setzi:
        set(i.m, static_cast<std::uint32_t>(i.imm));
        return;
      case Op::AddImm:
        set(i.m, m_[i.base] + static_cast<std::uint32_t>(i.imm));
        return;
      case Op::Ld32:
        set(i.m, memory_[place(i)]);
        return;
      case Op::St32:
        memory_[place(i)] = m_[i.m];
        return;
      case Op::Call:
        if (i.m == isa::kM10Return) call(i.address, before && before->op == Op::Sync);
        return;
      default:
        return;
    }
  }
  void set(std::uint32_t m, std::uint32_t value) {
    if (m != isa::kM15Zero) m_[m] = value;
  }
  std::uint32_t place(const Instr& i) const {
    return m_[i.base] + m_[i.delta] + 4 * static_cast<std::uint32_t>(i.imm);
  }
  void call(std::uint32_t target, bool after_barrier) {
    if (words_.at(target) == kernel::kMagic) {
      const std::uint64_t cycles = cycles_of_call(words_, target, m_);
      out_.kernels.back().first += cycles;
      if (loop_) out_.kernels.back().later += cycles;
      tail_ += cycles;
    } else if (after_barrier) {
      auto [it, fresh] = rows_.try_emplace(target);
      if (fresh) it->second = read_row(words_, target);
      out_.rows.push_back(it->second);
      out_.kernels.emplace_back();
      tail_ = 0;
    }
  }
  void begin_loop(const Loop& loop) {
    loop_ = &loop;
    first_phase_ = out_.rows.size();
    tail_ = 0;
  }
  void end_loop() {
    KernelCycles& behind = out_.kernels.back();
    behind.later -= tail_;
    if (out_.rows.size() > first_phase_)
      out_.kernels[first_phase_].later += tail_;
    else
      behind.first += (loop_->iterations - 1) * tail_;
    loop_ = nullptr;
  }

  Words& words_;
  std::uint32_t program_;
  std::vector<Loop> loops_;
  std::array<std::uint32_t, 16> m_{};
  std::map<std::uint32_t, std::uint32_t> memory_;
  std::map<std::uint32_t, Row> rows_;  // several phases may share one
  const Loop* loop_ = nullptr;         // the Repeat that is read
  std::size_t first_phase_ = 0;        // of it
  std::uint64_t tail_ = 0;             // kernel cycles of one iteration behind the phase read last
  TileControl out_;
};

}  // namespace

TileControl read_control(const package::DeviceImage& image, std::uint32_t tile, std::uint32_t program,
                         std::span<const std::uint32_t> repeats) {
  Words words(image, tile);
  return Reader(words, program, repeats).run();
}

}  // namespace tw::report
