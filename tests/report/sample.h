// A hand-made package of two tiles: one phase before a Repeat of three, one in it, one behind it that only
// tile 1 takes part in; fills before the first phase, before and behind the phase of the Repeat, and at the
// end.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/kernel.h"
#include "package/package.h"
#include "target/device.h"
#include "target/isa.h"

namespace tw::report {

inline constexpr std::uint32_t kCode = 0x5C000, kFill = 0x5C100, kProgram = 0x5C200, kRows = 0x60000,
                               kRowBytes = 0x4000;

inline std::vector<std::uint8_t> bytes_of(const std::vector<std::uint32_t>& words) {
  std::vector<std::uint8_t> out;
  for (const std::uint32_t w : words)
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::uint8_t>(w >> (8 * i)));
  return out;
}

class SampleProgram {
 public:
  std::uint32_t here() const { return kProgram + 4 * static_cast<std::uint32_t>(words.size()); }
  void add(std::initializer_list<std::uint32_t> more) { words.insert(words.end(), more); }
  void fill(std::uint32_t bytes) {
    add({isa::setzi(2, 0x80000), isa::setzi(3, bytes), isa::call(isa::kM10Return, kFill)});
  }
  void phase(std::uint32_t row) { add({isa::sync(3), isa::call(isa::kM10Return, row)}); }
  void idle_phase(std::uint32_t row) { add({isa::sans(0), isa::sync(1), isa::call(isa::kM10Return, row)}); }
  void count_down() {
    add({isa::ld32(0, isa::kM11Stack, isa::kM15Zero, 0), isa::add(0, 0, -1),
         isa::st32(0, isa::kM11Stack, isa::kM15Zero, 0)});
  }
  void loop_to(std::uint32_t begin) { add({isa::brz(0, here() + 12), isa::setzi(0, begin), isa::br(0)}); }
  std::vector<std::uint32_t> words;
};

// Rows: 0x00 idle; 0x08 sends 4 words in 14 cycles and hears one sender; 0x20 sends two messages, 30 words,
// 40 cycles.
inline std::vector<std::uint32_t> row_words() {
  return {isa::kReturnWord,
          0,
          isa::delay(5),
          isa::send(4, 0x20000, 1),
          isa::delayxpic(2, 0, 1),
          isa::delayxpic(3, 0, isa::kMuxNeutral),
          isa::kReturnWord,
          0,
          isa::send(10, 0x20000, 1),
          isa::delay(10),
          isa::send(20, 0x20010, 2),
          isa::kReturnWord};
}

inline std::vector<std::uint8_t> program(bool second_tile) {
  const std::uint32_t idle = kRows, short_row = kRows + 8, long_row = kRows + 0x20;
  SampleProgram w;
  const std::uint32_t calls = w.here();
  w.fill(480);
  if (second_tile) w.fill(96);
  w.phase(short_row);
  w.add({isa::setzi(0, 3), isa::st32(0, isa::kM11Stack, isa::kM15Zero, 0)});
  const std::uint32_t repeat = w.here();
  w.fill(48);
  w.phase(second_tile ? short_row : long_row);
  w.fill(144);
  w.count_down();
  w.loop_to(repeat);
  second_tile ? w.phase(short_row) : w.idle_phase(idle);
  w.fill(4800);
  w.loop_to(calls);  // not taken: the count of the Repeat is zero
  w.add({isa::setzi(0, kCode), isa::br(0)});
  return bytes_of(w.words);
}

inline package::Package sample() {
  package::Package p;
  const Device d = c600();
  p.image.target = "two";
  p.image.memory_base = d.memory_base;
  p.image.memory_end = d.memory_end;
  std::vector<std::uint32_t> code(0x80, 0);
  const auto header =
      kernel::header_words(kernel::HeaderKind::Kernel, static_cast<std::uint16_t>(kernel::Code::Fill),
                           kernel::find(kernel::Code::Fill)->image_bytes, {});
  std::copy(header.begin(), header.end(), code.begin() + (kFill - kCode) / 4);
  p.image.blobs = {bytes_of(code), program(false), program(true), bytes_of(row_words()),
                   bytes_of({0, kCode})};
  for (std::uint32_t t = 0; t < 2; ++t) {
    const auto size = [&](std::uint32_t blob) {
      return static_cast<std::uint32_t>(p.image.blobs[blob].size());
    };
    p.image.tiles.push_back({kCode,
                             {{d.load_base, size(4), 4, package::kRead},
                              {kCode, size(0), 0, package::kRead | package::kExecute},
                              {kProgram, size(1 + t), 1 + t, package::kRead | package::kExecute},
                              {kRows, size(3), 3, package::kRead | package::kExecute}}});
  }
  p.side.summary_json = R"({"fits":true})";
  p.side.symbols = {{UINT32_MAX, kProgram, kRows - kProgram, "program"},
                    {UINT32_MAX, kRows, kRowBytes, "rows"}};
  using package::StepKind;
  p.side.steps = {{"in"},                      // 1
                  {"in", StepKind::Exchange},  // 2
                  {"layer", StepKind::RepeatBegin, 3},
                  {"layer/a"},                      // 4
                  {"layer/a", StepKind::Exchange},  // 5
                  {"layer", StepKind::RepeatEnd},
                  {"out", StepKind::Exchange},  // 7
                  {"out"}};                     // 8
  // tensor, tile, address, bytes, first, last, taken, interleaved
  p.side.tensors = {{"weights", 0, 0x80000, 4096, 0, UINT32_MAX, 4096, true},
                    {"x", 0, 0x64000, 1000, 1, 5, 1024, false},
                    {"y", 0, 0x64400, 500, 5, 8, 504, false},
                    {"weights", 1, 0x80000, 4096, 0, UINT32_MAX, 4096, true},
                    {"z", 1, 0x50000, 8192, 4, 4, 8192, false}};
  return p;
}

}  // namespace tw::report
