#include "compile/reservation.h"

#include <gtest/gtest.h>

#include <expected>
#include <string>
#include <vector>

namespace tw::compile {
namespace {

constexpr std::uint32_t kElement = 16384;

// A tile on which rows of at most `room` bytes leave room for the tensors.
auto tile_with(std::uint32_t room, std::vector<std::uint32_t>& asked) {
  return [room, &asked](std::uint32_t bytes) -> std::expected<std::uint32_t, std::string> {
    asked.push_back(bytes / kElement);
    if (bytes > room) return std::unexpected("no room beside " + std::to_string(bytes / kElement));
    return bytes;
  };
}

using Reservation = RowReservation<std::string>;

TEST(Reservation, BeginsAtTheEstimateButNeverAboveTheCeiling) {
  EXPECT_EQ(Reservation(kElement, 3 * kElement, 6 * kElement).bytes(), 3 * kElement);
  EXPECT_EQ(Reservation(kElement, 9 * kElement, 6 * kElement).bytes(), 6 * kElement);
}

TEST(Reservation, ClimbsWhenTheRowsAreLargerThanEstimated) {
  std::vector<std::uint32_t> asked;
  Reservation r(kElement, 2 * kElement, 6 * kElement);
  EXPECT_EQ(r.largest_that_leaves_room(tile_with(6 * kElement, asked)), 2 * kElement);
  EXPECT_EQ(r.refusal(2 * kElement + 4), nullptr);
  r.climb();
  EXPECT_EQ(r.largest_that_leaves_room(tile_with(6 * kElement, asked)), 3 * kElement);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{2, 3}));
}

TEST(Reservation, DoesNotGoBackToWhatWasTooSmallForTheRows) {
  std::vector<std::uint32_t> asked;
  Reservation r(kElement, 2 * kElement, 6 * kElement);
  r.largest_that_leaves_room(tile_with(2 * kElement, asked));
  r.climb();
  EXPECT_EQ(r.largest_that_leaves_room(tile_with(2 * kElement, asked)).error(), "no room beside 3");
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{2, 3}));
}

TEST(Reservation, GivesWayToTensors) {
  std::vector<std::uint32_t> asked;
  Reservation r(kElement, 5 * kElement, 6 * kElement);
  EXPECT_EQ(r.largest_that_leaves_room(tile_with(3 * kElement, asked)), 3 * kElement);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{5, 4, 3}));
}

TEST(Reservation, RefusesWithTheRoomThatTheRowsWouldNeed) {
  std::vector<std::uint32_t> asked;
  Reservation r(kElement, 5 * kElement, 6 * kElement);
  r.largest_that_leaves_room(tile_with(2 * kElement, asked));
  EXPECT_EQ(r.refusal(2 * kElement), nullptr);  // these rows fit
  EXPECT_EQ(*r.refusal(2 * kElement + 4), "no room beside 3");
  EXPECT_EQ(*r.refusal(4 * kElement), "no room beside 4");
  EXPECT_EQ(*r.refusal(5 * kElement + 4), "no room beside 5");  // the largest that was tried
}

TEST(Reservation, RefusesWithTheEstimateWhenNothingHelps) {
  std::vector<std::uint32_t> asked;
  Reservation r(kElement, 3 * kElement, 6 * kElement);
  EXPECT_EQ(r.largest_that_leaves_room(tile_with(0, asked)).error(), "no room beside 3");
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{3, 2, 1}));
}

TEST(Reservation, ChecksItsCeiling) {
  Reservation r(kElement, 6 * kElement, 6 * kElement);
  EXPECT_THROW(r.climb(), InternalError);
}

}  // namespace
}  // namespace tw::compile
