// The message of a model that does not fit (cli.md), made from its fields: one text for every stage that
// refuses.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace tw {

// An Error of a capacity kind with its text.
Error does_not_fit(ErrorKind kind, CapacityDetail detail);

// A number with thousands separators: 1234567 -> "1,234,567".
std::string grouped(std::uint64_t value);

}  // namespace tw
