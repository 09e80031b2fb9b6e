#include "exchange/timeline.h"

#include <algorithm>

namespace tw::exchange {

std::size_t Lane::first_ending_after(std::uint32_t t) const {
  // Nearly all look-ups are near the end.
  std::size_t hi = spans_.size();
  for (std::size_t step = 1; hi > 0 && step <= 8; ++step) {
    if (spans_[hi - 1].end <= t) return hi;
    --hi;
  }
  return static_cast<std::size_t>(std::partition_point(spans_.begin(),
                                                       spans_.begin() + static_cast<std::ptrdiff_t>(hi),
                                                       [t](const Span& s) { return s.end <= t; }) -
                                  spans_.begin());
}

std::uint32_t Lane::next_free(std::uint32_t from, std::uint32_t length) const {
  std::uint32_t t = from;
  for (std::size_t i = first_ending_after(t); i < spans_.size(); ++i) {
    if (t + length <= spans_[i].begin) return t;
    t = spans_[i].end;
  }
  return t;
}

void Lane::insert(std::uint32_t begin, std::uint32_t end, std::uint32_t fill) {
  // First span that `begin` reaches (with the fill), then all spans up to the end.
  std::size_t i = first_ending_after(begin);
  if (i > 0 && spans_[i - 1].end + fill > begin) --i;
  std::size_t j = i;
  for (; j < spans_.size() && spans_[j].begin < end + std::max(fill, 1u); ++j) {
    begin = std::min(begin, spans_[j].begin);
    end = std::max(end, spans_[j].end);
  }
  const auto at = spans_.begin() + static_cast<std::ptrdiff_t>(i);
  if (i == j) {
    spans_.insert(at, {begin, end});
  } else {
    *at = {begin, end};
    spans_.erase(at + 1, spans_.begin() + static_cast<std::ptrdiff_t>(j));
  }
}

void EventSet::set(std::uint32_t event) {
  const std::size_t word = event / 64;
  if (word >= bits_.size()) bits_.resize(std::max(word + 1, bits_.size() * 3 / 2), 0);
  bits_[word] |= 1ull << (event % 64);
}

bool EventSet::intersects(const EventSet& other) const {
  const std::size_t n = std::min(bits_.size(), other.bits_.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (bits_[i] & other.bits_[i]) return true;
  }
  return false;
}

}  // namespace tw::exchange
