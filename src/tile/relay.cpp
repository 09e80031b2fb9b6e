#include "tile/relay.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/math.h"

namespace tw::tile {
namespace {

// A relay takes at least this many fragments; a destination is shared by at most kMostParts relays, so that
// gathering one part overlaps forwarding another.
constexpr std::size_t kFewestFragments = 4, kMostParts = 8;

std::uint64_t fragments_of(const Phase& phase) {
  std::uint64_t count = 0;
  for (const Transfer& t : phase.transfers) count += 1 + t.receiver_count;
  return count;
}

std::uint64_t largest(const PhasePrice& price, const std::vector<std::uint64_t>& scratch) {
  std::uint64_t most = 0;
  for (std::size_t t = 0; t < price.row_bytes.size(); ++t)
    most = std::max(most, price.row_bytes[t] + (t < scratch.size() ? scratch[t] : 0));
  return most;
}

// Transfers that go to the same buffers, each to the same offset of all of them.
struct Group {
  std::vector<BufferId> receivers;
  std::vector<std::uint32_t> transfers;
};

std::vector<Group> groups_of(const Phase& phase) {
  std::map<std::vector<BufferId>, std::vector<std::uint32_t>> by_receivers;
  for (std::uint32_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& t = phase.transfers[i];
    if (t.receiver_count < 2) continue;
    const Receiver* first = &phase.receivers[t.first_receiver];
    std::vector<BufferId> key;
    bool equal = true;
    for (std::uint32_t r = 0; r < t.receiver_count; ++r) {
      equal = equal && first[r].offset == first[0].offset;
      key.push_back(first[r].buffer);
    }
    if (equal) by_receivers[key].push_back(i);
  }
  std::vector<Group> groups;
  for (auto& [key, transfers] : by_receivers) {
    std::sort(transfers.begin(), transfers.end(), [&](std::uint32_t a, std::uint32_t b) {
      return phase.receivers[phase.transfers[a].first_receiver].offset <
             phase.receivers[phase.transfers[b].first_receiver].offset;
    });
    groups.push_back({key, std::move(transfers)});
  }
  return groups;
}

// A contiguous piece of the destination that several fragments make up.
struct Piece {
  const Group* group = nullptr;
  std::vector<std::uint32_t> transfers;  // ascending destination offset, no gaps
  std::uint32_t begin = 0, end = 0;      // bytes in the destination buffers
};

// Cuts a contiguous piece in parts of about equal fragment counts.
void cut(const Phase& phase, const Piece& whole, std::size_t parts, std::vector<Piece>& out) {
  parts =
      std::clamp<std::size_t>(parts, 1, std::max<std::size_t>(1, whole.transfers.size() / kFewestFragments));
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t begin = whole.transfers.size() * p / parts,
                      end = whole.transfers.size() * (p + 1) / parts;
    Piece piece{whole.group, {whole.transfers.begin() + begin, whole.transfers.begin() + end}, 0, 0};
    const Transfer &first = phase.transfers[piece.transfers.front()],
                   &last = phase.transfers[piece.transfers.back()];
    piece.begin = phase.receivers[first.first_receiver].offset;
    piece.end = phase.receivers[last.first_receiver].offset + 4 * last.words;
    out.push_back(std::move(piece));
  }
}

std::vector<Piece> contiguous_pieces(const Phase& phase, const std::vector<Group>& groups) {
  std::vector<Piece> pieces;
  for (const Group& g : groups) {
    Piece piece;
    auto close = [&] {
      if (piece.transfers.size() >= kFewestFragments) pieces.push_back(piece);
      piece = {};
    };
    for (const std::uint32_t i : g.transfers) {
      const Transfer& t = phase.transfers[i];
      const std::uint32_t offset = phase.receivers[t.first_receiver].offset;
      if (!piece.transfers.empty() && offset != piece.end) close();
      if (piece.transfers.empty()) piece = {&g, {}, offset, offset};
      piece.transfers.push_back(i);
      piece.end = offset + 4 * t.words;
    }
    close();
  }
  return pieces;
}

std::vector<Piece> pieces_of(const Phase& phase, const std::vector<Group>& groups, std::uint32_t tiles) {
  const std::vector<Piece> whole = contiguous_pieces(phase, groups);
  if (whole.empty()) return {};
  const std::size_t parts = std::clamp<std::size_t>(tiles / whole.size(), 1, kMostParts);
  std::vector<Piece> pieces;
  for (const Piece& piece : whole) cut(phase, piece, parts, pieces);
  return pieces;
}

// Highest tile that is no relay yet and neither source nor destination of the piece; kForever when there is
// none.
std::uint32_t relay_tile(const Program& program, const Phase& phase, const Piece& piece, std::uint32_t tiles,
                         const std::vector<bool>& taken) {
  std::set<std::uint32_t> ends;
  for (const BufferId b : piece.group->receivers) ends.insert(program.buffers[b.value].tile.value);
  for (const std::uint32_t i : piece.transfers)
    ends.insert(program.buffers[phase.transfers[i].source.value].tile.value);
  for (std::uint32_t t = tiles; t-- > 0;) {
    if (!taken[t] && !ends.contains(t)) return t;
  }
  return kForever;
}

bool reads_what_it_writes(const Phase& phase) {
  std::set<std::uint32_t> read;
  for (const Transfer& t : phase.transfers) read.insert(t.source.value);
  return std::any_of(phase.receivers.begin(), phase.receivers.end(),
                     [&](const Receiver& r) { return read.contains(r.buffer.value); });
}

struct Rewrite {
  Phase phase;
  std::vector<Buffer> staging;  // appended to the program's buffers when the rewrite is taken
  std::vector<std::uint64_t> scratch;
  bool any = false;
};

Rewrite with_relays(const Program& program, const Phase& phase, std::uint32_t tiles, std::uint32_t event) {
  Rewrite out;
  out.scratch.assign(tiles, 0);
  const std::vector<Group> groups = groups_of(phase);
  const std::vector<Piece> pieces = pieces_of(phase, groups, tiles);
  std::vector<bool> taken(tiles, false), moved(phase.transfers.size(), false);
  Phase relayed;
  std::vector<Transfer> forwards;
  for (const Piece& piece : pieces) {
    const std::uint32_t tile = relay_tile(program, phase, piece, tiles, taken);
    if (tile == kForever) return {};
    taken[tile] = true;
    const BufferId staging(static_cast<std::uint32_t>(program.buffers.size() + out.staging.size()));
    Buffer buffer;
    buffer.tile = TileId(tile);
    buffer.bytes = piece.end - piece.begin;
    buffer.first = buffer.last = event;
    buffer.tensor = program.buffers[piece.group->receivers.front().value].tensor;
    out.staging.push_back(buffer);
    out.scratch[tile] = up(buffer.bytes, 8U);
    for (const std::uint32_t i : piece.transfers) {
      Transfer gather = phase.transfers[i];
      const std::uint32_t offset = phase.receivers[gather.first_receiver].offset;
      gather.first_receiver = static_cast<std::uint32_t>(relayed.receivers.size());
      gather.receiver_count = 1;
      relayed.receivers.push_back({staging, offset - piece.begin});
      relayed.transfers.push_back(gather);
      moved[i] = true;
    }
    Transfer forward;
    forward.source = staging;
    forward.words = buffer.bytes / 4;
    forward.first_receiver = static_cast<std::uint32_t>(relayed.receivers.size());
    forward.receiver_count = static_cast<std::uint32_t>(piece.group->receivers.size());
    for (const BufferId b : piece.group->receivers) relayed.receivers.push_back({b, piece.begin});
    forwards.push_back(forward);
    out.any = true;
  }
  out.phase.iterations = phase.iterations;
  for (std::uint32_t i = 0; i < phase.transfers.size(); ++i) {
    if (moved[i]) continue;
    Transfer t = phase.transfers[i];
    const auto first = phase.receivers.begin() + t.first_receiver;
    t.first_receiver = static_cast<std::uint32_t>(out.phase.receivers.size());
    out.phase.receivers.insert(out.phase.receivers.end(), first, first + t.receiver_count);
    out.phase.transfers.push_back(t);
  }
  const auto shift = static_cast<std::uint32_t>(out.phase.receivers.size());
  relayed.transfers.insert(relayed.transfers.end(), forwards.begin(), forwards.end());
  for (Transfer& t : relayed.transfers) t.first_receiver += shift;
  out.phase.transfers.insert(out.phase.transfers.end(), relayed.transfers.begin(), relayed.transfers.end());
  out.phase.receivers.insert(out.phase.receivers.end(), relayed.receivers.begin(), relayed.receivers.end());
  return out;
}

}  // namespace

RelayReport insert_relays(Program& program, std::uint32_t tiles, const PhaseJudge& judge) {
  RelayReport report;
  for (std::uint32_t s = 0; s < program.steps.size(); ++s) {
    if (program.steps[s].kind != StepKind::Exchange) continue;
    Phase& phase = program.phases[program.steps[s].phase];
    if (reads_what_it_writes(phase)) continue;
    Rewrite rewrite = with_relays(program, phase, tiles, s + 1);
    if (!rewrite.any) continue;
    const PhasePrice before = judge(program, phase);
    const std::size_t buffers = program.buffers.size();
    program.buffers.insert(program.buffers.end(), rewrite.staging.begin(), rewrite.staging.end());
    const PhasePrice after = judge(program, rewrite.phase);
    if (after.cycles > before.cycles || largest(after, rewrite.scratch) >= largest(before, {})) {
      program.buffers.resize(buffers);
      continue;
    }
    ++report.phases;
    report.fragments_before += fragments_of(phase);
    report.fragments_after += fragments_of(rewrite.phase);
    phase = std::move(rewrite.phase);
  }
  return report;
}

}  // namespace tw::tile
