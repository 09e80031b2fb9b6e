// A small package that obeys every rule: four tiles of an invented target, one binding of each kind.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "package/package.h"

namespace tw::package {

inline std::vector<std::uint8_t> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::uint8_t> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::uint8_t>(i * 31 + seed);
  return out;
}

inline constexpr std::uint32_t kSampleTiles = 4, kSampleLoad = 0x4C010, kSampleData = 0x60000;

inline Package sample() {
  Package p;
  DeviceImage& image = p.image;
  image.target = "tiny";
  image.memory_base = 0x4C000;
  image.memory_end = 0xE8000;
  image.step_limit = 123456;
  image.blobs = {pattern(8, 1), pattern(100, 2), pattern(256, 3)};
  for (std::uint32_t t = 0; t < kSampleTiles; ++t)
    image.tiles.push_back({.entry = 0x5C020,
                           .segments = {{kSampleLoad, 8, 0, kRead | kWrite},
                                        {0x5C000, 128, 1, kRead | kExecute},
                                        {kSampleData, 0x2000, 2, kRead | kWrite}}});
  // The weight is cut in two halves and kept twice; input on tile 0, output on tile 3.
  Binding weight{.name = "w",
                 .kind = BindingKind::Weight,
                 .dtype = "f8f143",
                 .scale = -3,
                 .shape = {30, 20},
                 .bytes = 640,
                 .slices = {}};
  for (std::uint32_t t = 0; t < kSampleTiles; ++t)
    weight.slices.push_back({t, kSampleData + 0x100, t % 2 * 320, 320});
  image.bindings = {weight,
                    {.name = "in",
                     .kind = BindingKind::Input,
                     .dtype = "f16",
                     .scale = 0,
                     .shape = {5, 1001},
                     .bytes = 10012,
                     .slices = {{0, 0x80000, 0, 10012}}},
                    {.name = "out",
                     .kind = BindingKind::Output,
                     .dtype = "f32",
                     .scale = 0,
                     .shape = {8},
                     .bytes = 32,
                     .slices = {{3, 0x80100, 0, 16}, {3, 0x80200, 16, 16}}}};
  p.weights = {pattern(640, 4)};
  HostBatch load{.to_device = true, .pieces = {}};
  for (std::uint32_t t = 0; t < kSampleTiles; ++t)
    load.pieces.push_back({t, kSampleData + 0x100, 320, 0, t % 2 * 320});
  image.initialize = {load};
  for (std::uint32_t done = 0; done < 10012; done += 4096)
    image.inputs.push_back(
        {.to_device = true, .pieces = {{0, 0x80000 + done, std::min(4096u, 10012 - done), 1, done}}});
  image.outputs = {{.to_device = false, .pieces = {{3, 0x80100, 16, 2, 0}}},
                   {.to_device = false, .pieces = {{3, 0x80200, 16, 2, 16}}}};
  p.side.summary_json = R"({"fits":true})";
  p.side.recipe_json = R"({"model":"tiny"})";
  p.side.plan_text = "plan\n";
  p.side.symbols = {{UINT32_MAX, 0x5C000, 32, "barrier"}, {2, kSampleData, 16, "x"}};
  p.side.tensors = {{"x", 2, kSampleData, 16, 1, 7, 24, true}, {"x", 3, kSampleData, 16, 1, 7, 16, false}};
  p.side.steps = {{"load"}, {"layer.0/add", StepKind::RepeatBegin, 3}, {"", StepKind::RepeatEnd}};
  return p;
}

}  // namespace tw::package
