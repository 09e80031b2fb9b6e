#include "exchange/pieces.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/math.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

std::span<const Receiver> receivers_of(const Pieces& p, const Transfer& t) {
  return {p.receivers.data() + t.first_receiver, t.receiver_count};
}

bool same_tiles(std::span<const Receiver> a, std::span<const Receiver> b) {
  return std::ranges::equal(a, b, {}, &Receiver::tile, &Receiver::tile);
}

// A piece that reads bytes it writes on its own tile would not mean what its parts meant.
bool reads_own_writes(const Pieces& p, const Transfer& t) {
  for (const Receiver& r : receivers_of(p, t)) {
    if (r.tile == t.source && overlaps(t.source_address, 4ull * t.words, t.source_stride, p.iterations,
                                       r.address, 4ull * t.words)) {
      return true;
    }
  }
  return false;
}

// `next` continues `last` in its source and in all destinations.
bool continues(const Pieces& p, const Transfer& last, const Transfer& next) {
  if (last.source != next.source || last.source_stride != next.source_stride ||
      last.receiver_count != next.receiver_count ||
      last.source_address + 4 * last.words != next.source_address) {
    return false;
  }
  const auto a = receivers_of(p, last), b = receivers_of(p, next);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].tile != b[i].tile || a[i].address + 4 * last.words != b[i].address) return false;
  }
  Transfer joined = last;
  joined.words += next.words;
  return !reads_own_writes(p, joined);
}

// Appends `next`, whose receivers already stand in p.receivers, or joins it to the last piece.
void append(Pieces& p, const Transfer& next, std::size_t first_joinable) {
  if (p.list.size() > first_joinable && continues(p, p.list.back(), next)) {
    p.list.back().words += next.words;
  } else {
    p.list.push_back(next);
  }
}

// Order of streams: source, destination tiles, stride, then destination address.
std::vector<std::uint32_t> stream_order(const Pieces& p, const std::vector<char>& dependent) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < p.list.size(); ++i) {
    if (!dependent[i]) order.push_back(i);
  }
  auto less = [&p](std::uint32_t i, std::uint32_t j) {
    const Transfer &a = p.list[i], &b = p.list[j];
    if (a.source != b.source) return a.source < b.source;
    if (a.receiver_count != b.receiver_count) return a.receiver_count < b.receiver_count;
    const auto x = receivers_of(p, a), y = receivers_of(p, b);
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (x[k].tile != y[k].tile) return x[k].tile < y[k].tile;
    }
    if (a.source_stride != b.source_stride) return a.source_stride < b.source_stride;
    if (x.front().address != y.front().address) return x.front().address < y.front().address;
    return i < j;
  };
  std::ranges::sort(order, less);
  return order;
}

// Longest legal piece of a transfer: the device's limit, and where a tile sends to itself inside one element
// the send must end before its first word comes back (1.4).
std::uint32_t longest_piece(const Device& d, const Pieces& p, const Transfer& t) {
  for (const Receiver& r : receivers_of(p, t)) {
    if (r.tile != t.source) continue;
    const auto reads = element_mask(d, t.source_address, 4 * t.words, t.source_stride, p.iterations);
    const auto writes = element_mask(d, r.address, 4 * t.words, 0, 1);
    if (reads & writes) return static_cast<std::uint32_t>(topology::lambda(t.source, t.source));
  }
  return d.max_message_words;
}

// A piece of n words cannot be sent: its own control falls behind its start (decision 29), or its own
// controls coincide on a tile that must not have pairs.
bool must_halve(const Pieces& p, const Transfer& t, std::uint32_t n, const std::vector<char>& no_pairs) {
  if (n < 2) return false;
  for (const Receiver& r : receivers_of(p, t)) {
    if (r.tile == t.source && static_cast<int>(n) == -topology::tau(t.source, t.source)) return true;
    if (!no_pairs.empty() && no_pairs[r.tile.value] && n == 52 + 2 * topology::row_of(r.tile)) return true;
  }
  return false;
}

void append_part(Pieces& out, const Pieces& p, const Transfer& t, std::uint32_t begin, std::uint32_t n) {
  Transfer part = t;
  part.source_address += 4 * begin;
  part.words = n;
  part.first_receiver = static_cast<std::uint32_t>(out.receivers.size());
  for (const Receiver& r : receivers_of(p, t)) out.receivers.push_back({r.tile, r.address + 4 * begin});
  out.list.push_back(part);
}

void append_split(const Device& d, Pieces& out, const Pieces& p, const Transfer& t,
                  const std::vector<char>& no_pairs) {
  const std::uint32_t parts = cd(t.words, longest_piece(d, p, t));
  for (std::uint32_t i = 0, done = 0; i < parts; ++i) {
    const std::uint32_t n = cd(t.words - done, parts - i);
    if (must_halve(p, t, n, no_pairs)) {
      append_part(out, p, t, done, n / 2);
      append_part(out, p, t, done + n / 2, n - n / 2);
    } else {
      append_part(out, p, t, done, n);
    }
    done += n;
  }
}

// Sorted streams joined where they continue, then cut into pieces and units of at most `stream_words`.
void append_streams(const Device& d, Pieces& out, const Pieces& p, const std::vector<char>& dependent,
                    const Options& options, const std::vector<char>& no_pairs) {
  Pieces joined;
  joined.iterations = p.iterations;
  joined.receivers = p.receivers;
  for (std::uint32_t i : stream_order(p, dependent)) append(joined, p.list[i], 0);
  const Transfer* last = nullptr;
  for (const Transfer& t : joined.list) {
    const auto first = static_cast<std::uint32_t>(out.list.size());
    append_split(d, out, joined, t, no_pairs);
    const bool same_stream = last && last->source == t.source && last->source_stride == t.source_stride &&
                             same_tiles(receivers_of(joined, *last), receivers_of(joined, t));
    last = &t;
    for (auto i = first; i < out.list.size(); ++i) {
      const std::uint32_t n = out.list[i].words;
      const bool extend = (same_stream || i > first) && !out.units.empty() &&
                          out.units.back().words + n <= options.stream_words;
      if (extend) {
        ++out.units.back().count;
        out.units.back().words += n;
      } else {
        out.units.push_back({i, 1, n, 0});
      }
    }
  }
}

}  // namespace

bool overlaps(std::uint64_t a, std::uint64_t bytes, std::uint64_t stride, std::uint32_t iterations,
              std::uint64_t b, std::uint64_t other) {
  for (std::uint32_t i = 0; i < (stride ? iterations : 1); ++i) {
    if (a + i * stride < b + other && b < a + i * stride + bytes) return true;
  }
  return false;
}

std::uint64_t element_mask(const Device& d, std::uint32_t address, std::uint32_t bytes, std::uint32_t stride,
                           std::uint32_t iterations) {
  const std::uint32_t first_pair = cd(d.interleaved_base, d.element_bytes);
  auto index = [&](std::uint32_t a) {
    const std::uint32_t e = element_of(d, a);
    return e < kFirstPair ? e : e - kFirstPair + first_pair;
  };
  std::uint64_t mask = 0;
  for (std::uint32_t i = 0; i < (stride ? iterations : 1); ++i) {
    const std::uint32_t a = address + i * stride;
    for (std::uint32_t e = index(a), last = index(a + bytes - 1); e <= last; ++e) mask |= 1ull << (e % 64);
  }
  return mask;
}

Pieces coalesce(const Problem& problem) {
  Pieces p;
  p.iterations = problem.iterations;
  p.receivers = problem.receivers;
  p.list.reserve(problem.transfers.size());
  for (const Transfer& t : problem.transfers) {
    const auto begin = p.receivers.begin() + t.first_receiver;
    std::sort(begin, begin + t.receiver_count, [](auto& a, auto& b) { return a.tile < b.tile; });
  }
  for (const Transfer& t : problem.transfers) append(p, t, 0);
  return p;
}

Pieces make_pieces(const Device& device, const Problem& problem, const Options& options,
                   const std::vector<char>& no_pairs) {
  const Pieces p = coalesce(problem);
  std::vector<Dependence> edges = find_dependences(p);
  std::vector<char> dependent(p.list.size(), 0);
  for (const Dependence& e : edges) dependent[e.from] = dependent[e.to] = 1;

  Pieces out;
  out.iterations = p.iterations;
  out.list.reserve(p.list.size());
  out.receivers.reserve(p.receivers.size());
  std::vector<std::uint32_t> unit_of(p.list.size(), 0);
  for (std::uint32_t i = 0; i < p.list.size(); ++i) {
    if (!dependent[i]) continue;
    unit_of[i] = static_cast<std::uint32_t>(out.units.size());
    const auto first = static_cast<std::uint32_t>(out.list.size());
    append_split(device, out, p, p.list[i], no_pairs);
    out.units.push_back({first, static_cast<std::uint32_t>(out.list.size()) - first, p.list[i].words, 0});
  }
  append_streams(device, out, p, dependent, options, no_pairs);
  for (Dependence& e : edges) {
    e.from = unit_of[e.from];
    e.to = unit_of[e.to];
    ++out.units[e.to].predecessors;
  }
  out.dependences = std::move(edges);
  return out;
}

std::uint64_t bound_words(const Problem& problem) {
  std::uint32_t tiles = 0;
  for (const Transfer& t : problem.transfers) tiles = std::max(tiles, t.source.value + 1);
  for (const Receiver& r : problem.receivers) tiles = std::max(tiles, r.tile.value + 1);
  std::vector<std::uint64_t> sent(tiles, 0), received(tiles, 0);
  for (const Transfer& t : problem.transfers) {
    sent[t.source.value] += t.words;
    for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
      received[problem.receivers[t.first_receiver + k].tile.value] += t.words;
    }
  }
  std::uint64_t bound = 0;
  for (std::uint32_t i = 0; i < tiles; ++i) bound = std::max({bound, sent[i], received[i]});
  return bound;
}

}  // namespace tw::exchange
