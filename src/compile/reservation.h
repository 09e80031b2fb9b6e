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

  // `place(bytes)` gives std::expected<Placed, Refusal>, and so does this: the first refusal when not even
  // one element of rows leaves room.
  template <class Place>
  auto largest_that_leaves_room(Place place) -> decltype(place(0U)) {
    for (;;) {
      auto placed = place(bytes_);
      if (placed) return placed;
      refused_.emplace(bytes_, std::move(placed.error()));
      if (bytes_ <= element_) return std::unexpected(std::move(refused_.rbegin()->second));
      bytes_ -= element_;
    }
  }

  // The rows turned out to need `needed` bytes, more than bytes(): one step up, or the refusal that a
  // reservation for them met before.
  const Refusal* climb(std::uint32_t needed) {
    TW_CHECK(needed > bytes_, "rows fit into their reservation");
    const auto known = refused_.lower_bound(needed);
    if (known != refused_.end()) return &known->second;
    if (!refused_.empty()) return &refused_.rbegin()->second;
    bytes_ += element_;
    TW_CHECK(bytes_ <= ceiling_, "row reservation ladder exhausted below the table budget");
    return nullptr;
  }

 private:
  std::uint32_t element_, ceiling_, bytes_;
  std::map<std::uint32_t, Refusal> refused_;  // by reservation
};

}  // namespace tw::compile
