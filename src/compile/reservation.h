// How much memory to keep for exchange rows, which are known only when everything is placed and scheduled: a
// ladder of elements (decisions.md 36).
#pragma once
#include <algorithm>
#include <cstdint>
#include <expected>
#include <map>
#include <utility>

#include "base/error.h"

namespace tw::compile {

// Begins at the estimate. Where that leaves no room for the tensors, smaller reservations are tried: should
// the rows fit after all, the model does. Bytes are whole elements.
template <class Refusal>
class RowReservation {
 public:
  RowReservation(std::uint32_t element, std::uint32_t estimate, std::uint32_t ceiling)
      : element_(element), ceiling_(ceiling), bytes_(std::min(estimate, ceiling)) {}
  std::uint32_t bytes() const { return bytes_; }

  // `place(bytes)` gives std::expected<Placed, Refusal>, and so does this: the first refusal when no
  // reservation leaves room that is larger than what was too small for the rows.
  template <class Place>
  auto largest_that_leaves_room(Place place) -> decltype(place(0U)) {
    for (;;) {
      auto placed = place(bytes_);
      if (placed) return placed;
      refused_.emplace(bytes_, std::move(placed.error()));
      if (bytes_ - element_ <= too_small_) return std::unexpected(std::move(refused_.rbegin()->second));
      bytes_ -= element_;
    }
  }

  // The refusal that a reservation of at least `needed` bytes met before, or nothing. What was refused once
  // is refused for every larger reservation.
  const Refusal* refusal(std::uint32_t needed) const {
    if (refused_.empty() || needed <= bytes_) return nullptr;
    const auto known = refused_.lower_bound(needed);
    return known != refused_.end() ? &known->second : &refused_.rbegin()->second;
  }

  // One step up; none was refused.
  void climb() {
    TW_CHECK(refused_.empty(), "a larger reservation was refused");
    too_small_ = bytes_;
    bytes_ += element_;
    TW_CHECK(bytes_ <= ceiling_, "row reservation ladder exhausted below the table budget");
  }

 private:
  std::uint32_t element_, ceiling_, bytes_;
  std::uint32_t too_small_ = 0;               // the rows need more than this
  std::map<std::uint32_t, Refusal> refused_;  // by reservation
};

}  // namespace tw::compile
