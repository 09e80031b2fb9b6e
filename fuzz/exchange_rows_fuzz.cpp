// Exchange rows from bytes. Arbitrary words must be decoded and checked without harm, and whatever decodes
// must encode to the same words again; small legal problems must be scheduled and encoded into rows without a
// finding.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "exchange/exchange.h"
#include "target/isa.h"

namespace {

using namespace tw;

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  std::uint32_t take(int bytes) {  // zeros behind the end
    std::uint32_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= static_cast<std::uint32_t>(empty() ? 0 : data_[at_++]) << (8 * i);
    return v;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

[[noreturn]] void fail(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

exchange::Problem one_transfer(const std::vector<exchange::Row>& rows) {
  exchange::Problem p;
  p.transfers.push_back({rows.front().tile, 0x60000, 0, 3, 0, 1});
  p.receivers.push_back({rows.back().tile, 0x70000});
  return p;
}

// Two to four rows of arbitrary words; row words near legal ones by choice of the opcode bits.
void arbitrary_rows(Bytes& in) {
  static constexpr std::uint32_t kBases[] = {0x40A00000, 0x60000000, 0x64000000, 0x70000000, 0x70100000,
                                             0x78000000, 0xF0000000, 0x43A00000, 0};
  const Device device = c600();
  std::map<std::uint32_t, exchange::Row> by_tile;
  const std::uint32_t count = 2 + in.take(1) % 3;
  for (std::uint32_t r = 0; r < count; ++r) {
    exchange::Row row;
    row.tile = PhysId(in.take(2) % device.tiles);
    for (std::uint32_t n = 1 + in.take(1) % 12; n > 0; --n) {
      const std::uint32_t base = kBases[in.take(1) % 9], word = in.take(4);
      row.words.push_back(base == 0 ? word : base | (word & 0x07FFFFFF));
    }
    if (in.take(1) % 4 != 0) row.words.push_back(isa::kReturnWord);
    for (std::size_t w = 0; w < row.words.size(); ++w) {
      const std::uint32_t next = w + 1 < row.words.size() ? row.words[w + 1] : 0;
      const auto instr = isa::decode(row.words[w], next);
      if (!instr) continue;
      isa::disassemble(*instr);
      const isa::TwoWords again = isa::encode(*instr);
      const auto same = isa::decode(again.word0, instr->op == isa::Op::SendPicP ? again.word1 : next);
      if (!same || !(*same == *instr)) fail("decoded otherwise after encoding", isa::disassemble(*instr));
    }
    row.horizon = in.take(2);
    by_tile[row.tile.value] = row;
  }
  exchange::Rows rows;
  for (const auto& [tile, row] : by_tile) rows.rows.push_back(row);
  rows.horizon = in.take(2);
  exchange::check(device, one_transfer(rows.rows), rows);
}

// A legal problem: few tiles, own address ranges per transfer and receiver, so that nothing depends.
void legal_problem(Bytes& in) {
  const Device device = c600();
  exchange::Problem p;
  p.iterations = 1 + in.take(1) % 4;
  const std::uint32_t tiles = 2 + in.take(1) % 6;
  std::vector<std::uint32_t> tile(tiles), receive(tiles, 0x80000), send(tiles, 0x60000);
  for (std::uint32_t& t : tile) t = in.take(2) % device.tiles;
  while (!in.empty() && p.transfers.size() < 24) {
    exchange::Transfer t;
    const std::uint32_t source = in.take(1) % tiles, kind = in.take(1);
    t.source = PhysId(tile[source]);
    t.words = 1 + (kind % 64 == 0 ? in.take(2) % 5000 : in.take(1) % 140);
    t.source_stride = kind % 3 == 0 && p.iterations > 1 ? 4 * (1 + in.take(1) % 64) : 0;
    t.source_address = send[source];
    const std::uint32_t span = 4 * t.words + t.source_stride * (p.iterations - 1);
    if (send[source] + span > 0x80000) break;
    if (kind % 5 != 0) send[source] += span + in.take(1) % 4 * 4;
    t.first_receiver = static_cast<std::uint32_t>(p.receivers.size());
    const std::uint32_t mask = 1 + in.take(1) % ((1U << tiles) - 1);
    std::vector<std::uint32_t> seen;
    for (std::uint32_t r = 0; r < tiles; ++r) {
      if ((mask >> r & 1) == 0 || std::count(seen.begin(), seen.end(), tile[r]) != 0) continue;
      // Equal tiles of two indexes share one range.
      const std::size_t first =
          static_cast<std::size_t>(std::find(tile.begin(), tile.end(), tile[r]) - tile.begin());
      if (receive[first] + 4 * t.words > 0xE0000) continue;
      p.receivers.push_back({PhysId(tile[r]), receive[first]});
      receive[first] += 4 * t.words + (kind % 2) * 4;
      seen.push_back(tile[r]);
    }
    t.receiver_count = static_cast<std::uint32_t>(p.receivers.size()) - t.first_receiver;
    if (t.receiver_count > 0) p.transfers.push_back(t);
  }
  if (p.transfers.empty() || !exchange::verify(device, p).empty()) return;
  const exchange::Schedule schedule = exchange::schedule(device, p, {in.take(1) * 8});
  const auto findings = exchange::check(device, p, exchange::encode(device, schedule));
  if (!findings.empty()) fail(findings.front().c_str(), exchange::print(p) + exchange::print(schedule));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  if (in.take(1) % 2 == 0) {
    arbitrary_rows(in);
  } else {
    legal_problem(in);
  }
  return 0;
}
