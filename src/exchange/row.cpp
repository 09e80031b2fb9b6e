#include "exchange/row.h"

#include <algorithm>

#include "base/error.h"
#include "exchange/row_writer.h"
#include "target/isa.h"
#include "target/topology.h"

namespace tw::exchange {
namespace {

constexpr std::uint32_t kHorizonGuard = 5;  // decision 27
constexpr std::uint32_t kShortestRow = 6;   // hardware.md 3.3

std::uint32_t mux_to_store(PhysId tile) { return 52 + 2 * topology::row_of(tile); }

std::uint32_t horizon_of(const TileWork& work) {
  std::uint32_t horizon = 0;
  if (!work.sends.empty()) {
    horizon = std::max(work.sends.back().start + work.sends.back().words, kShortestRow);
  }
  if (!work.receives.empty()) {
    const ReceiveSpan& last = work.receives.back();
    horizon = std::max(horizon, last.select + mux_to_store(work.tile) + last.words + kHorizonGuard);
  }
  return horizon;
}

// Walks sends and controls in time and writes the row.
class RowBuilder {
 public:
  RowBuilder(const std::vector<SendSpan>& sends, const std::vector<RowControl>& controls,
             std::uint32_t horizon)
      : sends_(sends), controls_(controls), horizon_(horizon) {}

  bool run() {
    for (const SendSpan& s : sends_) {
      TW_CHECK(s.start >= t_, "sends overlap");
      gap(s.start);
      message(s);
    }
    gap(horizon_);
    TW_CHECK(next_ == controls_.size() && t_ == horizon_, "row does not end at its horizon");
    return aligned_;
  }
  RowWriter& writer() { return writer_; }

 private:
  bool pair_at(std::size_t i) const {
    return i + 1 < controls_.size() && controls_[i + 1].cycle == controls_[i].cycle;
  }
  // Start of the instruction that must carry control i, at most `limit`.
  std::uint32_t start_of(std::size_t i, std::uint32_t limit) const {
    return i < controls_.size() ? std::min(controls_[i].cycle - 1, limit) : limit;
  }

  void gap(std::uint32_t until) {
    while (next_ < controls_.size() && controls_[next_].cycle <= until) {
      const RowControl& c = controls_[next_];
      TW_CHECK(c.cycle > t_, "two controls cannot be issued in time");
      if (pair_at(next_)) {
        delay_to(c.cycle - 1);
        const std::uint32_t n = std::min(64u, start_of(next_ + 2, until) - t_);
        pair(n, nullptr);
      } else {
        const std::uint32_t longest = c.pic ? 128 : 4096;
        if (c.cycle - t_ > longest) delay_to(c.cycle - longest);
        writer_.control(c, c.cycle - t_);
        t_ = c.cycle;
        ++next_;
      }
    }
    delay_to(until);
  }

  void message(const SendSpan& s) {
    const std::uint32_t end = s.start + s.words;
    TW_CHECK(next_ == controls_.size() || controls_[next_].cycle > s.start + 1,
             "control behind a send start");
    plain(s, start_of(next_, end));
    while (next_ < controls_.size() && controls_[next_].cycle <= end) {
      const bool is_pair = pair_at(next_);
      const std::uint32_t after = start_of(next_ + (is_pair ? 2 : 1), end);
      TW_CHECK(controls_[next_].cycle == t_ + 1 && after > t_, "two controls cannot be issued in time");
      const std::uint32_t n = std::min(64u, after - t_);
      if (is_pair) {
        pair(n, &s);
      } else {
        writer_.send_control(controls_[next_], n);
        t_ += n;
        ++next_;
      }
      plain(s, start_of(next_, end));
    }
  }

  // Items without a control up to event `until`.
  void plain(const SendSpan& s, std::uint32_t until) {
    if (t_ == s.start && t_ < until) {
      const std::uint32_t n = std::min(64u, until - t_);
      writer_.send(n, s);
      t_ += n;
    }
    while (t_ < until) {
      const std::uint32_t n = std::min(4096u, until - t_);
      writer_.send_on(n, s.control);
      t_ += n;
    }
  }

  void pair(std::uint32_t n, const SendSpan* s) {
    TW_CHECK(!controls_[next_].pic && controls_[next_ + 1].pic, "two controls of one kind on a cycle");
    const std::uint32_t sent = s ? t_ - s->start : 0;
    aligned_ = writer_.pair(n, controls_[next_], controls_[next_ + 1], s, sent) && aligned_;
    t_ += n;
    next_ += 2;
  }

  void delay_to(std::uint32_t until) {
    while (t_ < until) {
      const std::uint32_t n = std::min(524288u, until - t_);
      writer_.delay(n);
      t_ += n;
    }
  }

  const std::vector<SendSpan>& sends_;
  const std::vector<RowControl>& controls_;
  std::uint32_t horizon_ = 0;
  RowWriter writer_;
  std::size_t next_ = 0;  // control
  std::uint32_t t_ = 0;
  bool aligned_ = true;
};

bool has_pair(const std::vector<RowControl>& controls) {
  return std::ranges::adjacent_find(controls, {}, &RowControl::cycle) != controls.end();
}

// Messages that follow each other in time and in memory go out as one.
void join_sends(std::vector<SendSpan>& sends, std::uint32_t limit) {
  std::size_t last = 0;
  for (std::size_t i = 1; i < sends.size(); ++i) {
    SendSpan& to = sends[last];
    const SendSpan& s = sends[i];
    if (to.start + to.words == s.start && to.address + 4 * to.words == s.address && to.stride == s.stride &&
        to.control == s.control && to.words + s.words <= limit) {
      to.words += s.words;
    } else {
      sends[++last] = s;
    }
  }
  if (!sends.empty()) sends.resize(last + 1);
}

}  // namespace

std::vector<RowControl> controls_of(const TileWork& work) {
  std::vector<RowControl> selects, pointers;
  const std::uint32_t shift = mux_to_store(work.tile);
  for (std::size_t i = 0; i < work.receives.size(); ++i) {
    const ReceiveSpan& r = work.receives[i];
    const ReceiveSpan* previous = i > 0 ? &work.receives[i - 1] : nullptr;
    const bool cut_over = previous && previous->select + previous->words == r.select;
    TW_CHECK(!previous || previous->select + previous->words <= r.select, "mux windows overlap");
    if (previous && !cut_over)
      selects.push_back({previous->select + previous->words, isa::kMuxNeutral, false});
    if (!cut_over || previous->source != r.source) selects.push_back({r.select, r.source.value, false});
    const bool carried = previous && previous->address + 4 * previous->words == r.address;
    if (!carried) pointers.push_back({r.select + shift, r.address / 4, true});
  }
  if (!work.receives.empty()) {
    const ReceiveSpan& last = work.receives.back();
    selects.push_back({last.select + last.words, isa::kMuxNeutral, false});
  }
  std::vector<RowControl> all(selects.size() + pointers.size());
  std::ranges::merge(selects, pointers, all.begin(), {}, &RowControl::cycle, &RowControl::cycle);
  return all;
}

std::vector<TileWork> work_by_tile(const Device& device, const Schedule& schedule) {
  std::uint32_t tiles = 0;
  for (const Message& m : schedule.messages) tiles = std::max(tiles, m.transfer.source.value + 1);
  for (const Receiver& r : schedule.receivers) tiles = std::max(tiles, r.tile.value + 1);
  std::vector<TileWork> all(tiles);
  for (const Message& m : schedule.messages) {
    const Transfer& t = m.transfer;
    for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
      const Receiver& r = schedule.receivers[t.first_receiver + k];
      const int x = static_cast<int>(m.start) + topology::tau(t.source, r.tile) + 1;
      TW_CHECK(x >= 1, "mux control before the row");
      all[r.tile.value].receives.push_back({static_cast<std::uint32_t>(x), t.words, r.address, t.source});
    }
    const std::uint32_t control =
        t.receiver_count > 1 ? 3 : topology::direction(t.source, schedule.receivers[t.first_receiver].tile);
    all[t.source.value].sends.push_back({m.start, t.words, t.source_address, t.source_stride, control});
  }
  std::vector<TileWork> active;
  for (std::uint32_t i = 0; i < tiles; ++i) {
    TileWork& w = all[i];
    if (w.sends.empty() && w.receives.empty()) continue;
    w.tile = PhysId(i);
    std::ranges::sort(w.sends, {}, &SendSpan::start);
    join_sends(w.sends, device.max_message_words);
    std::ranges::sort(w.receives, {}, &ReceiveSpan::select);
    active.push_back(std::move(w));
  }
  return active;
}

bool write_row(const std::vector<SendSpan>& sends, const std::vector<RowControl>& controls,
               std::uint32_t horizon, Row& row) {
  RowBuilder builder(sends, controls, horizon);
  if (!builder.run()) return false;
  row.horizon = horizon;
  builder.writer().finish(row.words, row.sites);
  return true;
}

bool build_row(const TileWork& work, Row& row) {
  row.tile = work.tile;
  row.sends = static_cast<std::uint32_t>(work.sends.size());
  row.receives = static_cast<std::uint32_t>(work.receives.size());
  return write_row(work.sends, controls_of(work), horizon_of(work), row);
}

bool alignable(const TileWork& work) {
  const std::vector<RowControl> controls = controls_of(work);
  return !has_pair(controls) || RowBuilder(work.sends, controls, horizon_of(work)).run();
}

}  // namespace tw::exchange
