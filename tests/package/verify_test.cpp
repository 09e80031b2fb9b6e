// Each structural rule of the package broken alone; the message must name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "sample.h"

namespace tw::package {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

struct Broken {
  const char* message;
  std::function<void(Package&)> change;
};

void PrintTo(const Broken& b, std::ostream* out) { *out << b.message; }

TEST(Verify, SampleIsGood) { EXPECT_THAT(verify(sample()), ElementsAre()); }

class BrokenRule : public testing::TestWithParam<Broken> {};

TEST_P(BrokenRule, IsNamedAndRefusedOnReading) {
  Package p = sample();
  GetParam().change(p);
  EXPECT_THAT(verify(p), Contains(HasSubstr(GetParam().message)));
  try {
    from_bytes(to_bytes(p), "x.twpkg");
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::File);
    EXPECT_THAT(e.what(), HasSubstr("x.twpkg: "));
  }
}

Segment& segment(Package& p, std::size_t i) { return p.image.tiles[1].segments[i]; }

INSTANTIATE_TEST_SUITE_P(
    Tiles, BrokenRule,
    testing::Values(Broken{"no target name", [](Package& p) { p.image.target.clear(); }},
                    Broken{"4 tiles, target c600 has 1472", [](Package& p) { p.image.target = "c600"; }},
                    Broken{"no tiles", [](Package& p) { p.image.tiles.clear(); }},
                    Broken{"tile 1: no segments", [](Package& p) { p.image.tiles[1].segments.clear(); }},
                    Broken{"lowest segment at 0x4c014, must be at 0x4c010",
                           [](Package& p) { segment(p, 0).address += 4; }},
                    Broken{"segment 1 at 0x5c000 begins before 0x5c004",
                           [](Package& p) { segment(p, 0).memory_size = 0x5C004 - kSampleLoad; }},
                    Broken{"begins before", [](Package& p) { std::swap(segment(p, 1), segment(p, 2)); }},
                    Broken{"segment 0 is empty", [](Package& p) { segment(p, 0).memory_size = 0; }},
                    // 0xE7BB0 is the loader's exclusive end (hardware.md 1.2).
                    Broken{"ends at 0xe7bb4, the loader's 643 frames at 0xe7bb0",
                           [](Package& p) { segment(p, 2).memory_size = 0xE7BB4 - kSampleData; }},
                    Broken{"memory at 0x60fff", [](Package& p) { p.image.memory_end = 0x60FFF; }},
                    Broken{"segment 2 names blob 3 of 3", [](Package& p) { segment(p, 2).blob = 3; }},
                    Broken{"segment 1 of 96 bytes is filled with 100",
                           [](Package& p) { segment(p, 1).memory_size = 96; }},
                    Broken{"segment 1 has flags 8", [](Package& p) { segment(p, 1).flags = 8; }},
                    Broken{"entry 0x60000 is no word of an executable segment",
                           [](Package& p) { p.image.tiles[1].entry = kSampleData; }},
                    Broken{"entry 0x5c080 is no word", [](Package& p) { p.image.tiles[1].entry = 0x5C080; }},
                    Broken{"entry 0x5c022 is no word",
                           [](Package& p) { p.image.tiles[1].entry = 0x5C022; }}));

INSTANTIATE_TEST_SUITE_P(
    Bindings, BrokenRule,
    testing::Values(
        Broken{"binding 1 has no name", [](Package& p) { p.image.bindings[1].name.clear(); }},
        Broken{"two bindings are named 'w'", [](Package& p) { p.image.bindings[1].name = "w"; }},
        Broken{"unknown type 'f64'", [](Package& p) { p.image.bindings[1].dtype = "f64"; }},
        Broken{"type f16 has no scale", [](Package& p) { p.image.bindings[1].scale = 1; }},
        Broken{"32 bytes, its shape needs 36", [](Package& p) { p.image.bindings[2].shape = {9}; }},
        Broken{"slice on tile 4", [](Package& p) { p.image.bindings[2].slices[1].tile = 4; }},
        Broken{"is not in whole words", [](Package& p) { p.image.bindings[0].slices[0].address += 2; }},
        Broken{"is outside memory", [](Package& p) { p.image.bindings[2].slices[1].address = 0xE7FF4; }},
        Broken{"slice of 16 bytes at offset 20 ends behind 32",
               [](Package& p) { p.image.bindings[2].slices[1].offset = 20; }},
        Broken{"slices overlap at 0x8010c of tile 3",
               [](Package& p) { p.image.bindings[2].slices[1].address = 0x8010C; }},
        Broken{"no slice holds byte 16 of 32", [](Package& p) { p.image.bindings[2].slices.pop_back(); }},
        Broken{"no slice holds byte 0 of 32", [](Package& p) { p.image.bindings[2].slices.clear(); }},
        Broken{"644 bytes of weights, expected 640", [](Package& p) { p.weights[0].resize(644); }},
        Broken{"0 sections of weights for 1 weight bindings", [](Package& p) { p.weights.clear(); }}));

INSTANTIATE_TEST_SUITE_P(
    Batches, BrokenRule,
    testing::Values(
        Broken{"inputs batch 0: wrong direction", [](Package& p) { p.image.inputs[0].to_device = false; }},
        Broken{"inputs batch 3: no pieces", [](Package& p) { p.image.inputs.push_back({}); }},
        Broken{"initialize batch 0: tile 1 after tile 1",
               [](Package& p) { p.image.initialize[0].pieces[0].tile = 1; }},
        Broken{
            "tile 0 after tile 1",
            [](Package& p) { std::swap(p.image.initialize[0].pieces[0], p.image.initialize[0].pieces[1]); }},
        Broken{"piece of 4100 bytes on tile 0, allowed are words up to 4096",
               [](Package& p) { p.image.inputs[0].pieces[0].bytes = 4100; }},
        Broken{"outputs batch 0: binding 1 does not belong here",
               [](Package& p) { p.image.outputs[0].pieces[0].binding = 1; }},
        Broken{"outputs batch 0: binding 3 does not belong here",
               [](Package& p) { p.image.outputs[0].pieces[0].binding = 3; }},
        Broken{"outputs: pieces of binding 'out' do not match its slice at 0x80200 of tile 3, byte 0",
               [](Package& p) { p.image.outputs.pop_back(); }},
        Broken{"outputs: pieces of binding 'out' do not match its slice at 0x80200 of tile 3, byte 12",
               [](Package& p) { p.image.outputs[1].pieces[0].bytes = 12; }},
        Broken{"do not match its slice", [](Package& p) { p.image.outputs[1].pieces[0].offset = 12; }},
        Broken{"outputs: binding 'out' has 1 pieces outside its slices",
               [](Package& p) { p.image.outputs.push_back(p.image.outputs[1]); }},
        Broken{"symbol 'x' on tile 9", [](Package& p) { p.side.symbols[1].tile = 9; }},
        Broken{"tensor 'x' on tile 4", [](Package& p) { p.side.tensors[1].tile = 4; }}));

TEST(Verify, FullTargetMustHaveAllItsTiles) {
  Package p = sample();
  p.image.target = "c600";
  p.image.tiles.resize(1472, p.image.tiles[0]);
  EXPECT_THAT(verify(p), ElementsAre());
  segment(p, 1).address = 0x7FFC0;
  p.image.tiles[1].entry = 0x7FFC0;
  p.image.tiles[1].segments.pop_back();
  EXPECT_THAT(verify(p), ElementsAre(HasSubstr("instructions are fetched below 0x80000")));
}

}  // namespace
}  // namespace tw::package
