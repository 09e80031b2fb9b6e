#include "tools/memory_profile.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/json.h"

namespace tw::tools {
namespace {
using json = nlohmann::ordered_json;
using Places = std::vector<const package::TensorPlace*>;

// Bytes alive at each step, 0 = upload.
std::vector<std::uint64_t> live_bytes(const Places& places, std::size_t steps) {
  std::vector<std::uint64_t> live(steps + 1, 0);
  for (const package::TensorPlace* p : places) {
    const std::size_t last = std::min<std::size_t>(p->last_step, steps);
    for (std::size_t s = p->first_step; s <= last; ++s) live[s] += p->bytes;
  }
  return live;
}

json tile_json(std::uint32_t tile, const Places& places, const package::Side& side,
               const std::map<std::string, std::size_t>& index) {
  const std::vector<std::uint64_t> live = live_bytes(places, side.steps.size());
  const auto peak = std::max_element(live.begin(), live.end());
  const auto step = static_cast<std::uint32_t>(peak - live.begin());
  json j = {{"physical_tile", tile}, {"step", step}, {"bytes", *peak}, {"live", json::array()}};
  for (const package::TensorPlace* p : places) {
    if (p->first_step > step || p->last_step < step) continue;
    j["live"].push_back({index.at(p->tensor), p->address, p->bytes});
  }
  return j;
}

}  // namespace

std::string memory_json(const package::Package& package) {
  const package::Side& side = package.side;
  std::map<std::string, std::size_t> index;
  std::map<std::uint32_t, Places> tiles;
  json names = json::array();
  for (const package::TensorPlace& p : side.tensors) {
    if (index.try_emplace(p.tensor, names.size()).second) names.push_back(p.tensor);
    tiles[p.tile].push_back(&p);
  }
  json steps = json::array();
  for (const package::Step& step : side.steps) steps.push_back(step.name);
  json j = json::parse(result_json(side.summary_json, ""));
  j["memory"] = {{"steps", steps},
                 {"tensors", names},
                 {"live_fields", {"tensor", "address", "bytes"}},
                 {"tiles", json::array()}};
  for (auto& [tile, places] : tiles) {
    std::sort(places.begin(), places.end(), [](const auto* a, const auto* b) {
      return std::pair(a->address, a->first_step) < std::pair(b->address, b->first_step);
    });
    j["memory"]["tiles"].push_back(tile_json(tile, places, side, index));
  }
  return j.dump() + "\n";
}

}  // namespace tw::tools
