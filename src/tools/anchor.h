// Published figures of the project that this one starts from (the seed), shown beside ours where the same job
// was run: same model, full depth, batch and policy. Theirs come from a C600 card or from their planner, ours
// from the simulator.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/pipeline.h"

namespace tw::tools {

struct Anchor {
  std::string_view model;
  std::uint32_t layers = 0, batch = 0;        // under the capacity policy, FP8 products
  std::uint32_t table_bytes = 0;              // exchange table of the busiest tile
  double cycles_estimated = 0;                // by the seed's planner
  double milliseconds = 0;                    // one resident call, measured on a C600
  double cosine = 0;                          // smallest against FP32, measured on a C600
  std::optional<std::uint32_t> tensor_bytes;  // peak of a tile, by the seed's planner
  double planning_seconds = 0;                // plan and package, on 12 threads
};

// The anchor of this job; none when any choice that the figures depend on is another.
const Anchor* anchor_of(const Recipe& recipe, const model::Model& model);

// Their figures and ours, in two columns that say what each is; empty without an anchor or without a checked
// call.
std::string anchor_table(const Host& host, const Recipe& recipe, const model::Model& model,
                         const compile::Report& compiled, const RunReport& run);

}  // namespace tw::tools
