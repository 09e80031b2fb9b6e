#include "emit/rows.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "target/isa.h"

namespace tw::emit {
namespace {

class Table {
 public:
  explicit Table(TileRows& out) : out_(out) {}
  std::uint32_t here() const { return static_cast<std::uint32_t>(out_.bytes.size()); }
  void align8() {
    while (out_.bytes.size() % 8 != 0) out_.bytes.push_back(0);
  }
  void word(std::uint32_t w) {
    for (int i = 0; i < 4; ++i) out_.bytes.push_back(static_cast<std::uint8_t>(w >> (8 * i)));
  }
  void address(std::uint32_t offset) {  // becomes base + offset
    out_.fixups.push_back(here());
    word(offset);
  }

 private:
  TileRows& out_;
};

struct Use {
  std::uint32_t phase;
  const exchange::Row* row;
};

std::vector<std::uint32_t> normalised(const exchange::Row& row) {
  std::vector<std::uint32_t> words = row.words;
  for (const exchange::Site& s : row.sites) words[s.word] &= ~s.mask;
  return words;
}

constexpr std::uint32_t kSendAddress = 0x3FFFF << 3;  // address bits of send and sendpicp (hardware.md 3.2)

bool moves(const exchange::Row& row) {
  return std::any_of(row.sites.begin(), row.sites.end(), [](const exchange::Site& s) { return s.step != 0; });
}

// The byte stride that all sends of a moving row have in common; 0 when fixed and moving sends are mixed.
std::uint32_t common_stride(const exchange::Row& row) {
  std::uint32_t step = 0;
  for (const exchange::Site& s : row.sites) {
    if (s.mask != kSendAddress) continue;
    if (s.step == 0 || (step != 0 && step != s.step)) return 0;
    step = s.step;
  }
  return step / 2;  // the address field counts words from bit 3
}

// Words to restore at every use: the union over all uses of address words that are not zero in the normalised
// sense. A use that has a zero there writes the zero, or a stale address would survive (hardware.md 3.9).
std::vector<std::uint32_t> patched_words(const std::vector<Use>& uses,
                                         const std::vector<std::uint32_t>& normal) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t w = 0; w < normal.size(); ++w) {
    const bool differs =
        std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return u.row->words[w] != normal[w]; });
    if (differs) result.push_back(w);
  }
  return result;
}

// Per-iteration replacement of whole instruction words: arithmetic from three iterations on, else a table.
void repeat_patches(Table& table, RowUse& use, const exchange::Row& row, std::uint32_t iterations) {
  std::vector<exchange::Site> moving;
  for (const exchange::Site& s : row.sites) {
    if (s.step != 0) moving.push_back(s);
  }
  if (moving.empty()) return;
  const auto count = static_cast<std::uint32_t>(moving.size());
  if (iterations >= 3) {
    use.step_list = table.here();
    use.step_count = count;
    for (const exchange::Site& s : moving) {
      table.address(use.row + 4 * s.word);
      table.word(row.words[s.word]);
      table.word(s.step);
    }
    return;
  }
  const std::uint32_t values = table.here();
  for (const exchange::Site& s : moving) {
    for (std::uint32_t i = 0; i < iterations; ++i) table.word(row.words[s.word] + i * s.step);
  }
  use.table_list = table.here();
  use.table_count = count;
  for (std::uint32_t k = 0; k < count; ++k) {
    table.address(use.row + 4 * moving[k].word);
    table.address(values + 4 * iterations * k);
  }
}

std::uint32_t store(Table& table, const std::vector<std::uint32_t>& words) {
  table.align8();
  const std::uint32_t at = table.here();
  for (const std::uint32_t w : words) table.word(w);
  return at;
}

void store_alone(Table& table, TileRows& out, const Use& use, std::uint32_t iterations) {
  RowUse& record = out.uses[use.phase];
  record.active = true;
  record.row = store(table, use.row->words);
  repeat_patches(table, record, *use.row, iterations);
}

void store_identical(Table& table, TileRows& out, const std::vector<Use>& uses) {
  std::map<std::vector<std::uint32_t>, std::uint32_t> stored;
  for (const Use& u : uses) {
    auto [it, fresh] = stored.try_emplace(u.row->words, 0);
    if (fresh) it->second = store(table, u.row->words);
    out.uses[u.phase].active = true;
    out.uses[u.phase].row = it->second;
  }
}

void store_shared(Table& table, TileRows& out, const std::vector<Use>& uses,
                  const std::vector<std::uint32_t>& normal, const std::vector<std::uint32_t>& patched) {
  const std::uint32_t row = store(table, normal);
  const std::uint32_t offsets = table.here();
  for (const std::uint32_t w : patched) table.word(4 * w);
  for (const Use& u : uses) {
    RowUse& record = out.uses[u.phase];
    record = {true, row, offsets, table.here(), static_cast<std::uint32_t>(patched.size()), 0, 0, 0, 0, 0};
    for (const std::uint32_t w : patched) table.word(u.row->words[w]);
  }
}

// A moving row needs patches unless the base register moves all its sends.
bool needs_patches(const exchange::Row& row) { return moves(row) && common_stride(row) == 0; }

void build_tile(TileRows& out, const std::vector<Use>& uses, const std::vector<std::uint32_t>& iterations) {
  Table table(out);
  store(table, {isa::kReturnWord});  // the row of inactive phases, at offset 0
  std::map<std::vector<std::uint32_t>, std::vector<Use>> shapes;
  std::vector<std::vector<Use>*> order;  // by first use, so that the table is deterministic and readable
  for (const Use& u : uses) {
    if (needs_patches(*u.row)) continue;
    auto [it, fresh] = shapes.try_emplace(normalised(*u.row));
    if (fresh) order.push_back(&it->second);
    it->second.push_back(u);
  }
  for (const std::vector<Use>* group : order) {
    const auto normal = normalised(*group->front().row);
    const auto patched = patched_words(*group, normal);
    std::map<std::vector<std::uint32_t>, int> distinct;
    for (const Use& u : *group) distinct[u.row->words] = 1;
    const std::size_t alone = distinct.size() * up(4 * normal.size(), 8UL);
    const std::size_t shared = up(4 * normal.size(), 8UL) + 4 * patched.size() * (1 + group->size());
    if (distinct.size() > 1 && shared < alone) {
      store_shared(table, out, *group, normal, patched);
    } else {
      store_identical(table, out, *group);
    }
  }
  for (const Use& u : uses) {
    if (needs_patches(*u.row)) {
      store_alone(table, out, u, iterations[u.phase]);
    } else {
      out.uses[u.phase].base_stride = common_stride(*u.row);
    }
  }
  table.align8();
}

}  // namespace

std::vector<TileRows> build_rows(const Device& device, const std::vector<exchange::Rows>& rows,
                                 const std::vector<std::uint32_t>& iterations) {
  TW_CHECK(rows.size() == iterations.size(), "one iteration count per phase");
  std::vector<std::vector<Use>> uses(device.tiles);
  for (std::uint32_t p = 0; p < rows.size(); ++p) {
    for (const exchange::Row& row : rows[p].rows) uses[row.tile.value].push_back({p, &row});
  }
  std::vector<TileRows> tiles(device.tiles);
  parallel_for(device.tiles, 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      tiles[t].uses.resize(rows.size());
      build_tile(tiles[t], uses[t], iterations);
    }
  });
  return tiles;
}

}  // namespace tw::emit
