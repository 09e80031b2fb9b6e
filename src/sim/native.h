// What runs natively behind a call: kernels and runtime helpers, recognised by the header that stands in
// executable memory (kernel.h, decisions.md 11, 15, 17).
#pragma once
#include <cstdint>
#include <optional>

#include "sim/tile.h"

namespace tw::sim {

struct Header {
  bool helper = false;
  std::uint16_t code = 0;
  std::uint32_t spec_words = 0, spec_address = 0;
};

// Header at an address of the tile's executable segments; nullopt: none there.
std::optional<Header> header_at(const Context& context, const Tile& tile, std::uint32_t address);

// Runs the kernel or helper and charges its cycles. `return_register` is the call's. False: the tile faulted.
// host_run only records its descriptor and stops the tile for the batch.
bool call_native(Context& context, Tile& tile, const Header& header, std::uint32_t target,
                 std::uint32_t return_register);

// Word access of supervisor and helpers with alignment, range and never-written checks. False: the tile
// faulted.
bool read_word(Context& context, Tile& tile, std::uint64_t address, std::uint32_t& value);
bool write_word(Context& context, Tile& tile, std::uint64_t address, std::uint32_t value);

}  // namespace tw::sim
