// Time to place a whole device: 1,472 synthetic tiles of about 400 requests each, shaped like a deep model.
// Prints seconds (all threads and one), how many tiles were placed, and the share of the preferred
// separations by weight that no placement kept. Usage: place_bench [layers]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/parallel.h"
#include "place/place.h"

namespace {

using namespace tw;

std::uint32_t draw(std::mt19937& rng, std::uint32_t lo, std::uint32_t hi) {
  return lo + rng() % (hi - lo + 1);
}

// Per layer: four resident parameters, a residual alive over the layer, and short-lived left, partial and
// output shards; products have their output apart from their left operand.
place::Problem tile_problem(std::uint32_t tile, std::uint32_t layers) {
  std::mt19937 rng(tile);
  place::Problem p;
  p.free = {{0x586E0, 0x5C000}, {0x6C000, 0x80000}, {0x80000, 0xE7BB0}};
  p.aperture = {{0x50000, 0x58000}};
  const std::uint32_t parameter_bytes = 330'000 / (layers * 4) / 4 * 4;
  std::uint32_t step = 1;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::uint32_t begin = step;
    for (int k = 0; k < 4; ++k) {
      p.requests.push_back(
          {.bytes = parameter_bytes - 4 * draw(rng, 0, parameter_bytes / 16), .alignment = 32});
      const auto left = static_cast<std::uint32_t>(p.requests.size());
      p.requests.push_back(
          {.bytes = 4 * draw(rng, 512, 3000), .alignment = 32, .first = step, .last = step + 2});
      p.requests.push_back({.bytes = 4 * draw(rng, 512, 4000),
                            .alignment = 32,
                            .cls = place::Class::Interleaved,
                            .first = step + 2,
                            .last = step + 4});
      p.requests.push_back(
          {.bytes = 4 * draw(rng, 64, 1500), .alignment = 8, .first = step + 4, .last = step + 6});
      p.separate.emplace_back(left, left + 1);
      p.apart.push_back({left - 1, left, 3000});      // parameters are gathered beside the operand
      p.apart.push_back({left + 1, left + 2, 1000});  // partials are reduced
      step += 6;
    }
    p.requests.push_back({.bytes = 4 * draw(rng, 256, 1500), .alignment = 8, .first = begin, .last = step});
  }
  return p;
}

double place_all(const Device& device, const std::vector<place::Problem>& problems, unsigned threads,
                 std::size_t& placed, double& shared) {
  std::vector<std::uint8_t> found(problems.size());
  std::vector<std::uint64_t> broken(problems.size());
  const auto start = std::chrono::steady_clock::now();
  parallel_for(problems.size(), 16, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const place::Result result = place::solve(device, problems[i]);
      const auto* placement = std::get_if<place::Placement>(&result);
      found[i] = placement != nullptr;
      if (placement != nullptr) broken[i] = placement->shared_weight;
    }
  });
  const auto end = std::chrono::steady_clock::now();
  placed = 0;
  double weight = 0, lost = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    placed += found[i];
    if (!found[i]) continue;
    lost += static_cast<double>(broken[i]);
    for (const place::Preference& p : problems[i].apart) weight += static_cast<double>(p.weight);
  }
  shared = weight > 0 ? lost / weight : 0;
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t layers = argc > 1 ? static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10)) : 24;
  if (layers == 0) return 2;
  const tw::Device device;
  std::vector<tw::place::Problem> problems;
  for (std::uint32_t t = 0; t < device.tiles; ++t) problems.push_back(tile_problem(t, layers));
  for (unsigned threads : {1u, tw::default_threads()}) {
    std::size_t placed = 0;
    double shared = 0;
    const double seconds = place_all(device, problems, threads, placed, shared);
    std::printf(
        "%zu tiles, %zu requests each, %u threads: %.3f s, %.3f ms per tile, %zu placed, %.1f %% shared\n",
        problems.size(), problems[0].requests.size(), threads, seconds,
        1e3 * seconds * threads / static_cast<double>(problems.size()), placed, 100 * shared);
  }
}
