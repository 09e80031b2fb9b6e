// Shared exchange rows (compiler.md 9, "zero-address bug"): every use of a shared row must write the union of
// all uses' address words, zeros included. Replayed here on words and on the simulated device, together with
// the defect itself, so that it can be seen that the sequences tell the two apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "../sim/builder.h"
#include "compile/compile.h"
#include "emit/rows.h"
#include "model/model.h"
#include "model/tensors.h"
#include "numeric/formats.h"
#include "plan/exact.h"
#include "ref/ref.h"

namespace tw {
namespace {

using sim::testing::Builder;
using sim::testing::Words;
using Sequence = std::vector<std::uint32_t>;  // send address of each use, in items

constexpr std::uint32_t kOutgoing = 0x60000;  // item 0 stands here

// Logical 0 sends three words to logical 1286 at event 23 (hardware.md 3.10, E1); the delay is cut in pieces
// so that sharing pays.
constexpr std::uint32_t kSender = 0, kSendWord = 5;
Words sender_words(std::uint32_t item) {
  return {isa::delay(5), isa::delay(5),         isa::delay(5),   isa::delay(5),
          isa::delay(3), isa::send(3, item, 1), isa::kReturnWord};
}
Words receiver_words(std::uint32_t address) {
  return {0x64000000, 0x64008640, 0x61800000 | address / 4, 0x40A00007, isa::kReturnWord};
}

std::vector<exchange::Rows> phases(const Sequence& items) {
  std::vector<exchange::Rows> rows;
  for (const std::uint32_t item : items) {
    exchange::Row row;
    row.tile = PhysId(kSender);
    row.words = sender_words(item);
    row.sites = {{kSendWord, isa::send(3, 0x3FFFF, 1) ^ isa::send(3, 0, 1), 0}};
    row.horizon = 61;
    row.sends = 1;
    rows.push_back({{row}, 61});
  }
  return rows;
}

Words words_of(const std::vector<std::uint8_t>& bytes) {
  Words w(bytes.size() / 4);
  std::memcpy(w.data(), bytes.data(), bytes.size());
  return w;
}

emit::TileRows table_of(const Sequence& items) {
  const std::vector<std::uint32_t> iterations(items.size(), 1);
  return emit::build_rows(c600(), phases(items), iterations)[kSender];
}

// The defect: a use patches only the words that are not zero in it.
bool defect_skips(std::uint32_t item) { return item == 0; }

// The row of each use as the patch helper leaves it.
std::vector<Words> replay(const emit::TileRows& table, const Sequence& items, bool defect) {
  Words memory = words_of(table.bytes);
  std::vector<Words> rows;
  for (std::size_t p = 0; p < items.size(); ++p) {
    const emit::RowUse& use = table.uses[p];
    for (std::uint32_t k = 0; k < use.patch_count && !(defect && defect_skips(items[p])); ++k)
      memory[(use.row + memory[use.patch_offsets / 4 + k]) / 4] = memory[use.patch_values / 4 + k];
    const std::size_t n = sender_words(0).size();
    rows.push_back(sim::testing::slice(memory, use.row / 4, n));
  }
  return rows;
}

// What three phases deliver on the device, each to a place of its own.
std::vector<Words> deliver(const Sequence& items, bool defect) {
  const emit::TileRows table = table_of(items);
  Builder b;
  const std::uint32_t sender = sim::testing::phys(0), receiver = sim::testing::phys(1286);
  EXPECT_EQ(sender, kSender);
  const std::uint32_t base = b.row(sender, words_of(table.bytes));
  for (const std::uint32_t item : {0U, 0x100U})
    b.data(sender, kOutgoing + 4 * item, sim::testing::pattern(item, 3));
  for (std::size_t p = 0; p < items.size(); ++p) {
    const emit::RowUse& use = table.uses[p];
    for (std::uint32_t t = 0; t < b.device.tiles; ++t) {
      if (t == sender) {
        if (use.patch_count > 0 && !(defect && defect_skips(items[p])))
          b.emit(t, {isa::setzi(2, base + use.row), isa::setzi(3, base + use.patch_offsets),
                     isa::setzi(4, base + use.patch_values), isa::setzi(5, use.patch_count),
                     isa::call(9, sim::testing::helper(kernel::Helper::PatchRow))});
        Words call = Builder::active_call(base + use.row);
        call.insert(call.begin() + 3, {isa::setzi(8, kOutgoing), isa::put(isa::kOutgoingBase, 8)});
        b.emit(t, call);
      } else if (t == receiver) {
        const auto to = 0x70000 + 0x1000 * static_cast<std::uint32_t>(p);
        b.emit(t, Builder::active_call(b.row(t, receiver_words(to))));
      } else {
        b.emit(t, Builder::inactive_call());
      }
    }
  }
  sim::testing::Started started(b);
  EXPECT_EQ(started.fault(), "none") << started.text();
  std::vector<Words> got;
  for (std::size_t p = 0; p < items.size(); ++p)
    got.push_back(sim::testing::words_at(started.machine, receiver,
                                         0x70000 + 0x1000 * static_cast<std::uint32_t>(p), 3));
  return got;
}

class SharedRow : public ::testing::TestWithParam<Sequence> {};

TEST_P(SharedRow, EveryUseWritesTheUnion) {
  const Sequence items = GetParam();
  const emit::TileRows table = table_of(items);
  for (const emit::RowUse& use : table.uses) {
    EXPECT_EQ(use.row, table.uses[0].row) << "the uses do not share";
    EXPECT_EQ(use.patch_count, 1U);
  }
  std::vector<Words> rows, data;
  for (const std::uint32_t item : items) {
    rows.push_back(sender_words(item));
    data.push_back(sim::testing::pattern(item, 3));
  }
  EXPECT_EQ(replay(table, items, false), rows);
  EXPECT_EQ(deliver(items, false), data);
}

TEST_P(SharedRow, PatchingOnlyNonZeroWordsWouldBeSeen) {
  const Sequence items = GetParam();
  // The zero use behind another one keeps the stale address 0x100.
  const std::size_t stale = items[0] == 0 ? 2 : 1;
  const std::vector<Words> rows = replay(table_of(items), items, true), data = deliver(items, true);
  for (std::size_t p = 0; p < items.size(); ++p) {
    const std::uint32_t used = p == stale ? 0x100 : items[p];
    EXPECT_EQ(rows[p], sender_words(used)) << "use " << p;
    EXPECT_EQ(data[p], sim::testing::pattern(used, 3)) << "use " << p;
  }
}

INSTANTIATE_TEST_SUITE_P(Sequences, SharedRow,
                         ::testing::Values(Sequence{0, 0x100, 0}, Sequence{0x100, 0, 0x100}));

std::size_t patch_calls(const compile::Result& result) {
  std::uint32_t patch_row = 0;
  for (const package::Symbol& s : result.side.symbols)
    if (s.name == "patch_row") patch_row = s.address;
  std::size_t count = 0;
  for (const auto& blob : result.image.blobs) {
    const Words w = words_of(blob);
    count += static_cast<std::size_t>(std::count(w.begin(), w.end(), isa::call(9, patch_row)));
  }
  return count;
}

// A whole model in which rows are shared: exact, and the second call finds the rows of the first one.
TEST(SharedRows, WholeModelIsExactInEveryCall) {
  const Device device = c600();
  const model::Model model = model::build({.name = "siglip-so400m", .layers = 2, .batch = 1, .small = true});
  Progress quiet;
  compile::Options options;
  options.plan.tiles = 64;
  options.check_rows = true;
  const compile::Result result = compile::compile(device, model.graph, options, quiet);
  EXPECT_GT(patch_calls(result), 0U);

  model::Tensors random(model::random_source(model, 1));
  const auto host = [&](const std::string& n) -> const std::vector<float>& { return random(n); };
  const std::vector<float>& patches = random(model.vision.input);
  std::vector<std::uint16_t> half(patches.size());
  numeric::f32_to_f16(patches, half);
  std::vector<std::uint8_t> input(2 * half.size());
  std::memcpy(input.data(), half.data(), input.size());

  sim::Machine machine(device, result.image, {});
  ASSERT_FALSE(machine.initialize(compile::pack_weights(result, host, 0), 2).fault.has_value());
  const std::vector<float> exact = plan::run_exact(result.plan, host).front();
  for (int call = 0; call < 2; ++call) {
    const sim::CallResult r = machine.run({input});
    ASSERT_FALSE(r.fault.has_value()) << r.fault->what;
    std::vector<std::uint16_t> codes(r.outputs.front().size() / 2);
    std::memcpy(codes.data(), r.outputs.front().data(), 2 * codes.size());
    std::vector<float> values(codes.size());
    numeric::f16_to_f32(codes, values);
    EXPECT_EQ(values, exact) << "call " << call;
  }
  EXPECT_TRUE(machine.halted());
}

}  // namespace
}  // namespace tw
