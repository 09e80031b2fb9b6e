// What a look at every value of a model's tensors finds.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tw::import {

struct ValueScan {                                 // of one tensor
  std::uint64_t seen = 0, bad = 0, first_bad = 0;  // bad: NaN or infinite; the index of the first
  std::uint64_t overflowing = 0, vanishing = 0;    // as below

  void add(std::span<const float> values);  // the next ones
  std::string problem() const;              // empty: every value is finite
};

struct Scan {
  std::uint64_t overflowing =
      0;  // finite values that F16 cannot hold: they become infinite where they are stored as F16
  std::uint64_t vanishing = 0;    // values other than zero that become zero in F16
  std::string first_overflowing;  // the tensor

  void add(const ValueScan& values, const std::string& tensor);
};

}  // namespace tw::import
