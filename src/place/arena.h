// The bytes of a tile while requests are placed one after the other. Internal to place/.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "place/legal.h"

namespace tw::place {

// Preferences of every request, seen from both sides; empty: none are heeded.
struct Wish {
  std::uint32_t partner = 0;
  std::uint64_t weight = 0;
};
using Wishes = std::vector<std::vector<Wish>>;

struct Holes {
  std::uint64_t largest = 0, bytes = 0;
  std::uint32_t count = 0;
};

class Arena {
 public:
  Arena(const Device& device, const Problem& problem, const Legal& legal, const Partners& partners,
        const Wishes& wishes);

  // Forgets requests that ended before `step`; their partners still see their address.
  void release_before(std::uint32_t step);

  // Lowest of the legal starts that break the least weight of wishes; false: there is no legal start.
  bool place(std::uint32_t index);
  void place_at(std::uint32_t index, std::uint32_t start);
  void remove(std::uint32_t index);

  // Weight of the wishes that `index` breaks with what is placed.
  std::uint64_t broken(std::uint32_t index) const { return clash(index, address_[index]).weight; }
  std::uint32_t address(std::uint32_t index) const { return address_[index]; }
  Holes holes(const Request& r) const;  // over its lifetime
  const std::vector<std::uint32_t>& addresses() const { return address_; }

 private:
  // By ascending address; entries may overlap in address when they never live together.
  struct Placed {
    std::uint32_t begin, end, first, last, index;
  };
  struct Clash {
    bool forbidden = false;  // with a separation partner
    std::uint64_t weight = 0;
    std::uint32_t past = UINT32_MAX;  // lowest end of the elements of a partner in the way
  };

  static bool meets(const Placed& p, const Request& r) { return p.first <= r.last && r.first <= p.last; }
  std::optional<std::uint32_t> lowest_start(const Request& r, std::uint32_t from) const;
  Clash clash(std::uint32_t index, std::uint32_t start) const;

  const Device& device_;
  const Problem& problem_;
  const Legal& legal_;
  const Partners& partners_;
  const Wishes& wishes_;
  std::vector<std::uint32_t> address_;
  std::vector<Range> span_;  // elements of what has an address
  std::vector<Placed> placed_;
  std::uint32_t released_ = 0;
};

}  // namespace tw::place
