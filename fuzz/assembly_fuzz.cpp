// Arbitrary text through the assembler: a refusal is an Error{File}. Arbitrary words as the program and the
// row table of a tile: shown without harm, and their assembly text assembles to the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "inspect/assembly.h"
#include "inspect/inspect.h"
#include "target/isa.h"

namespace {

using namespace tw;

constexpr std::uint32_t kPatchRow = 0x5C000, kRepeatTable = 0x5C100, kRepeatStep = 0x5C200,
                        kHostRun = 0x5C300, kProgram = 0x5D000, kRows = 0x60000;

package::Package tile_of(std::vector<std::uint8_t> program, std::vector<std::uint8_t> rows) {
  package::Package p;
  p.image.blobs = {std::move(program), std::move(rows)};
  p.image.tiles = {{kProgram, {{kProgram, 0x2000, 0, package::kRead}, {kRows, 0x4000, 1, package::kRead}}}};
  p.side.symbols = {
      {UINT32_MAX, kPatchRow, 256, "patch_row"},     {UINT32_MAX, kRepeatTable, 256, "repeat_table"},
      {UINT32_MAX, kRepeatStep, 256, "repeat_step"}, {UINT32_MAX, kHostRun, 256, "host_run"},
      {UINT32_MAX, kProgram, 0x2000, "program"},     {UINT32_MAX, kRows, 0x4000, "rows"}};
  p.side.steps = {{"r", package::StepKind::RepeatBegin, 3}, {"r", package::StepKind::Exchange}};
  p.side.tensors = {{"x", 0, 0x80000, 0x1000, 0, UINT32_MAX, 0x1000, true}};
  return p;
}

void show(const package::Package& p) {
  const inspect::Tile tile = inspect::read_tile(p, 0);
  const std::vector<inspect::Block> wanted = {{kProgram, p.image.blobs[0]}, {kRows, p.image.blobs[1]}};
  std::vector<inspect::Block> blocks = inspect::assemble(inspect::assembly_text(tile), "again");
  std::size_t at = 0;
  for (const inspect::Block& b : wanted) {
    if (b.bytes.empty()) continue;
    if (at == blocks.size() || blocks[at++] != b) std::abort();
  }
  if (at != blocks.size()) std::abort();
  inspect::text(p, {0, {}});
  inspect::json(p, {0, {}});
  for (std::uint32_t phase = 0; phase < tile.phases.size() && phase < 4; ++phase) {
    inspect::text(p, {0, phase});
    inspect::json(p, {0, phase});
  }
}

// Two bytes choose an instruction of a row call and its operand, so that programs with patches are frequent.
std::vector<std::uint8_t> likely_program(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i + 2 <= size; i += 2) {
    const std::uint32_t value = data[i + 1];
    const std::uint32_t words[] = {isa::setzi(2 + value % 4, kRows + 4 * value),
                                   isa::setzi(3 + value % 3, value),
                                   isa::call(9, value % 3 == 0   ? kPatchRow
                                                : value % 3 == 1 ? kRepeatTable
                                                                 : kRepeatStep),
                                   isa::sync(3),
                                   isa::call(10, kRows + 8 * value),
                                   isa::call(10, kHostRun),
                                   isa::ld32(6, 11, 15, value % 8),
                                   isa::setzi(0, value % 2 == 0 ? kProgram : 0x5C000),
                                   isa::br(0)};
    const std::uint32_t word = words[data[i] % std::size(words)];
    for (int b = 0; b < 4; ++b) out.push_back(static_cast<std::uint8_t>(word >> (8 * b)));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0x1000) return 0;
  try {
    inspect::assemble(std::string(data, data + size), "fuzz");
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  const std::size_t half = size / 2;
  const std::vector<std::uint8_t> first(data, data + half), second(data + half, data + size);
  show(tile_of(first, second));
  show(tile_of(likely_program(data, half), second));
  return 0;
}
