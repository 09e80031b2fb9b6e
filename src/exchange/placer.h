// Places one piece at the earliest start that all rules of hardware.md 1.4 and 3.5 allow. Internal to
// exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/pieces.h"
#include "exchange/timeline.h"

namespace tw::exchange {

class Placer {
 public:
  // `no_pairs[tile]` (empty: none): tiles where no pointer control may share a cycle with a mux control.
  Placer(const Device& device, const Pieces& pieces, const std::vector<char>& no_pairs);

  // Earliest legal start >= lower; the piece then occupies its endpoints.
  std::uint32_t place(std::uint32_t piece, std::uint32_t lower);

  // For ordering: ends of what is placed, and the constants of a piece.
  std::uint32_t send_end(PhysId tile) const { return send_end_[tile.value]; }
  std::uint32_t mux_end(PhysId tile) const { return mux_end_[tile.value]; }
  std::uint32_t first_start(std::uint32_t piece) const { return first_start_[piece]; }
  int tau(std::uint32_t receiver_entry) const { return tau_[receiver_entry]; }
  std::uint32_t tiles() const { return static_cast<std::uint32_t>(tiles_.size()); }
  // Contended elements are those that sends of a tile read and receives of it write (1.4).
  bool contended_tile(PhysId tile) const { return tiles_[tile.value].contended != 0; }
  bool reads_contended(std::uint32_t piece) const { return source_elements_[piece] != 0; }
  bool contended(std::uint32_t piece) const { return contended_[piece] != 0; }
  bool any_contended() const { return any_contended_; }
  // Start >= s behind everything placed so far on the contended elements of the piece.
  std::uint32_t behind_contention(std::uint32_t piece, std::uint32_t s) const;

 private:
  std::uint32_t try_source(const Transfer& t, std::uint64_t elements, std::uint32_t s) const;
  std::uint32_t try_receivers(const Transfer& t, std::uint32_t s) const;
  bool receiver_blocked(const Transfer& t, const Receiver& r, std::uint32_t start, std::uint32_t x,
                        std::uint32_t pointer) const;
  void occupy(const Transfer& t, std::uint64_t elements, std::uint32_t s);
  void find_contention();
  void find_piece_elements();

  const Device& device_;
  const Pieces& pieces_;
  const std::vector<char>& no_pairs_;
  std::vector<std::int16_t> tau_;                 // per receiver entry
  std::vector<std::uint64_t> source_elements_;    // per piece: contended ones it reads
  std::vector<std::uint64_t> receiver_elements_;  // per receiver entry: contended ones it writes
  std::vector<char> contended_;                   // per piece: any of either
  bool any_contended_ = false;
  std::vector<std::uint32_t> first_start_;  // per piece: every mux control cycle >= 1 (R4)
  std::vector<TileTimeline> tiles_;
  std::vector<std::uint32_t> send_end_, mux_end_;
  std::uint32_t fill_ = 1;  // words of the shortest piece
};

}  // namespace tw::exchange
