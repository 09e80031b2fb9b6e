// Worked cases of the placer: rules of compiler.md 8 one by one, with addresses that follow from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "place/place.h"

namespace tw::place {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Device kDevice;

Placement solved(const Problem& problem) {
  const Result result = solve(kDevice, problem);
  const Placement* p = std::get_if<Placement>(&result);
  EXPECT_NE(p, nullptr);
  if (p == nullptr) return {};
  EXPECT_THAT(check(kDevice, problem, *p), ElementsAre());
  return *p;
}

NoFit refused(const Problem& problem) {
  const Result result = solve(kDevice, problem);
  const NoFit* no = std::get_if<NoFit>(&result);
  EXPECT_NE(no, nullptr);
  return no == nullptr ? NoFit{} : *no;
}

TEST(Solve, EmptyProblem) { EXPECT_THAT(solved({}).address, ElementsAre()); }

TEST(Solve, ReusesBytesOfWhatIsOver) {
  Problem p{.free = {{0x60000, 0x60100}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100, .first = 0, .last = 1}, {.bytes = 0x100, .first = 2, .last = 3}};
  EXPECT_THAT(solved(p).address, ElementsAre(0x60000, 0x60000));
}

TEST(Solve, LifetimesAreInclusive) {
  Problem p{.free = {{0x60000, 0x60100}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100, .first = 0, .last = 2}, {.bytes = 0x100, .first = 2, .last = 3}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Capacity);
  EXPECT_EQ(no.step, 2u);
  EXPECT_EQ(no.needed, 0x200u);
  EXPECT_EQ(no.available, 0x100u);
  EXPECT_EQ(no.missing, 0x100u);
  EXPECT_THAT(no.live, ElementsAre(0, 1));
}

TEST(Solve, AlignsStarts) {
  Problem p{.free = {{0x60004, 0x61000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 36, .alignment = 32}, {.bytes = 8, .alignment = 8}};
  EXPECT_THAT(solved(p).address, ElementsAre(0x60020, 0x60008));
}

TEST(Solve, InterleavedDataStayInRegionOne) {
  Problem p{.free = {{0x60000, 0x80000}, {0x80000, 0x90000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100, .cls = Class::Interleaved}, {.bytes = 0x100}};
  EXPECT_THAT(solved(p).address, ElementsAre(0x80000, 0x60000));
}

TEST(Solve, StandardDataMayUseRegionOneButNotCrossIntoIt) {
  Problem p{.free = {{0x7FF00, 0x80000}, {0x80000, 0x90000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x200}};
  EXPECT_THAT(solved(p).address, ElementsAre(0x80000));
}

TEST(Solve, ApertureOnlyForTransientStandardData) {
  Problem p{.free = {{0x60000, 0x60400}}, .aperture = {{0x50000, 0x58000}}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100, .first = 1, .last = 9},
                {.bytes = 0x100, .first = 0, .last = 9},
                {.bytes = 0x100, .first = 1, .last = kForever}};
  const Placement placed = solved(p);
  EXPECT_EQ(placed.address[0], 0x50000u);
  EXPECT_GE(placed.address[1], 0x60000u);
  EXPECT_GE(placed.address[2], 0x60000u);
}

TEST(Solve, CapacityCountsTheApertureOnlyForTransients) {
  Problem p{.free = {{0x60000, 0x60100}}, .aperture = {{0x50000, 0x58000}}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100}, {.bytes = 0x80, .first = 5}, {.bytes = 0x100, .first = 5, .last = 6}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Capacity);
  EXPECT_EQ(no.missing, 0x80u);
  EXPECT_EQ(no.step, 5u);
  EXPECT_THAT(no.live, ElementsAre(0, 1));  // the transient does not count against this bound
}

TEST(Solve, CapacityOfTheInterleavedClass) {
  Problem p{.free = {{0x60000, 0x80000}, {0x80000, 0x80100}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x80, .cls = Class::Interleaved}, {.bytes = 0xA0, .cls = Class::Interleaved}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Capacity);
  EXPECT_EQ(no.cls, Class::Interleaved);
  EXPECT_EQ(no.missing, 0x20u);
  EXPECT_EQ(no.request, 1u);
}

TEST(Solve, ContiguityNamesTheLargestRange) {
  Problem p{.free = {{0x60010, 0x60110}, {0x61000, 0x61080}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0xF4, .alignment = 32}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Contiguity);
  EXPECT_EQ(no.largest_hole, 0xF0u);  // 0x60020 .. 0x60110
  EXPECT_EQ(no.missing, 4u);
}

TEST(Solve, CapacityOfTheOneRangeThatIsLargeEnough) {
  // 0x180 of 0x200 bytes are wanted, but both requests fit into one range only.
  Problem p{.free = {{0x60000, 0x60100}, {0x61000, 0x61080}, {0x62000, 0x62080}},
            .aperture = {},
            .requests = {},
            .separate = {}};
  p.requests = {{.bytes = 0xC0}, {.bytes = 0xC0}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Capacity);
  EXPECT_EQ(no.needed, 0x180u);
  EXPECT_EQ(no.available, 0x100u);
  EXPECT_EQ(no.missing, 0x80u);
  EXPECT_THAT(no.confined, ElementsAre(Range{0x60000, 0x60100}));
}

TEST(Solve, CapacityOfSeveralRangesTogether) {
  // Each range could hold its own request, and all bytes are less than all ranges; but the three that fit
  // only into the first two are larger than these.
  Problem p{.free = {{0x60000, 0x60100}, {0x61000, 0x61100}, {0x62000, 0x62080}},
            .aperture = {},
            .requests = {},
            .separate = {}};
  p.requests = {{.bytes = 0xB0}, {.bytes = 0xB0}, {.bytes = 0xB0}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Capacity);
  EXPECT_EQ(no.missing, 0x10u);
  EXPECT_THAT(no.confined, ElementsAre(Range{0x60000, 0x60100}, Range{0x61000, 0x61100}));
}

// A probe of 24 layers at batch 7: what is free below interleaved memory comes in pieces of 14,624, 16,384
// and (aperture) 32,768 bytes. Weights, an operand and the rows it is cast from, all larger than these, are
// 427,016 bytes; the range above has 424,880. All bytes together would fit with 35,232 to spare.
TEST(Solve, ProvesWhatTheSizesOfTheRangesRuleOut) {
  Problem p{.free = {{0x586E0, 0x5C000}, {0x7C000, 0x80000}, {0x80000, 0xE7BB0}},
            .aperture = {{0x50000, 0x58000}},
            .requests = {},
            .separate = {}};
  for (const std::uint32_t weights : {73728, 73728, 61440, 24576, 3072, 3072, 1536})
    p.requests.push_back({.bytes = weights, .alignment = 32});
  p.requests.push_back({.bytes = 129024, .alignment = 8, .first = 58, .last = 60});
  p.requests.push_back({.bytes = 64520, .alignment = 32, .first = 60, .last = 63});
  p.requests.push_back({.bytes = 14336, .alignment = 8, .first = 15, .last = 132});
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Capacity);
  EXPECT_EQ(no.step, 60u);
  EXPECT_EQ(no.needed, 427016u);
  EXPECT_EQ(no.available, 424880u);
  EXPECT_EQ(no.missing, 2136u);
  EXPECT_THAT(no.live, ElementsAre(7, 0, 1, 8, 2, 3));
  EXPECT_THAT(no.confined, ElementsAre(Range{0x80000, 0xE7BB0}));
}

// The seed's captured case (compiler.md 8.7): 51,648 bytes are free, in two holes, and a request of 27,648
// finds no place, whatever the order.
TEST(Solve, FragmentationIsNotCapacity) {
  Problem p{.free = {{0x60000, 0x60000 + 54448}, {0x70000, 0x70000 + 52496}},
            .aperture = {},
            .requests = {},
            .separate = {}};
  p.requests = {{.bytes = 27648}, {.bytes = 27648}, {.bytes = 27648}};
  const NoFit no = refused(p);
  EXPECT_EQ(no.kind, NoFit::Kind::Fragmentation);
  EXPECT_EQ(no.needed, 27648u);
  EXPECT_EQ(no.available, 51648u);
  EXPECT_EQ(no.largest_hole, 26800u);
  EXPECT_EQ(no.missing, 848u);
  EXPECT_THAT(no.confined, ElementsAre());
}

TEST(Solve, SeparatedRequestsShareNoElementWhateverTheirLifetimes) {
  Problem p{.free = {{0x5C000, 0x80000}, {0x80000, 0xA0000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x100, .first = 0, .last = 1},
                {.bytes = 0x100, .first = 5, .last = 6},
                {.bytes = 0x100, .cls = Class::Interleaved, .first = 0, .last = 1},
                {.bytes = 0x100, .cls = Class::Interleaved, .first = 5, .last = 6}};
  p.separate = {{0, 1}, {2, 3}};
  EXPECT_THAT(solved(p).address, ElementsAre(0x5C000, 0x60000, 0x80000, 0x88000));
}

TEST(Solve, SeparationCountsEveryTouchedElement) {
  // Request 0 touches elements of 0x5C000 and 0x60000, so the partner starts at 0x64000.
  Problem p{.free = {{0x5FF00, 0x80000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x200}, {.bytes = 0x100}};
  p.separate = {{0, 1}};
  EXPECT_THAT(solved(p).address, ElementsAre(0x5FF00, 0x64000));
}

TEST(Solve, SizeOrderRescuesALifetimeOrderFailure) {
  // In lifetime order the small early request splits the range for the large late one.
  Problem p{.free = {{0x60000, 0x60100}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 0x40, .first = 1, .last = 2},
                {.bytes = 0x40, .first = 1, .last = 9},
                {.bytes = 0xC0, .first = 5, .last = 9}};
  p.requests[0].bytes = 0x50;
  const Placement placed = solved(p);
  EXPECT_EQ(placed.peak_live_bytes, 0x100u);
  EXPECT_EQ(placed.peak_step, 5u);
}

TEST(Solve, PeakCountsAlignmentPaddingOnce) {
  Problem p{.free = {{0x60000, 0x61000}}, .aperture = {}, .requests = {}, .separate = {}};
  p.requests = {{.bytes = 36, .alignment = 32}};
  EXPECT_EQ(solved(p).peak_live_bytes, 64u);
  p.requests.push_back({.bytes = 28, .alignment = 4});  // fits in the padding
  EXPECT_EQ(solved(p).peak_live_bytes, 64u);
}

TEST(Solve, IsDeterministic) {
  Problem p{.free = {{0x5C000, 0x80000}, {0x80000, 0xA0000}}, .aperture = {}, .requests = {}, .separate = {}};
  for (std::uint32_t i = 0; i < 50; ++i)
    p.requests.push_back({.bytes = 64 + 36 * (i % 7), .alignment = 32, .first = i, .last = i + i % 5});
  EXPECT_EQ(solved(p).address, solved(p).address);
}

TEST(Check, FindsEveryBrokenRule) {
  Problem p{.free = {{0x60000, 0x80000}, {0x80000, 0x90000}},
            .aperture = {{0x50000, 0x58000}},
            .requests = {},
            .separate = {}};
  const auto broken = [&](std::vector<Request> requests, std::vector<std::uint32_t> address) {
    p.requests = std::move(requests);
    return check(kDevice, p, Placement{.address = std::move(address), .peak_live_bytes = 0, .peak_step = 0});
  };
  EXPECT_THAT(broken({{.bytes = 4}}, {}), ElementsAre(HasSubstr("0 addresses for 1 requests")));
  EXPECT_THAT(broken({{.bytes = 4, .alignment = 8}}, {0x60004}), ElementsAre(HasSubstr("no multiple of 8")));
  EXPECT_THAT(broken({{.bytes = 8}}, {0x7FFFC}), ElementsAre(HasSubstr("region boundary")));
  EXPECT_THAT(broken({{.bytes = 8}}, {0x8FFFC}), ElementsAre(HasSubstr("outside what it may use")));
  EXPECT_THAT(broken({{.bytes = 8}}, {0x50000}), ElementsAre(HasSubstr("outside what it may use")));
  EXPECT_THAT(broken({{.bytes = 8, .first = 1, .last = 2}}, {0x50000}), ElementsAre());
  EXPECT_THAT(broken({{.bytes = 8, .cls = Class::Interleaved}}, {0x60000}),
              ElementsAre(HasSubstr("interleaved data at 0x60000")));
  EXPECT_THAT(
      broken({{.bytes = 8, .first = 0, .last = 4}, {.bytes = 8, .first = 4, .last = 5}}, {0x60000, 0x60004}),
      ElementsAre(HasSubstr("requests 0 and 1 overlap at 0x60004 at step 4")));
  EXPECT_THAT(
      broken({{.bytes = 8, .first = 0, .last = 3}, {.bytes = 8, .first = 4, .last = 5}}, {0x60000, 0x60004}),
      ElementsAre());
  p.separate = {{0, 1}};
  EXPECT_THAT(
      broken({{.bytes = 8, .first = 0, .last = 3}, {.bytes = 8, .first = 4, .last = 5}}, {0x60000, 0x63FF8}),
      ElementsAre(HasSubstr("share memory element 24")));
  EXPECT_THAT(broken({{.bytes = 0x8000}, {.bytes = 8, .first = 4, .last = 5}}, {0x60000, 0x68000}),
              ElementsAre());
}

TEST(Print, GoldenMap) {
  Problem p{
      .free = {{0x60000, 0x61000}}, .aperture = {{0x50000, 0x58000}}, .requests = {}, .separate = {{0, 1}}};
  p.requests = {{.bytes = 0x100}, {.bytes = 0x20, .alignment = 32, .first = 1, .last = 2}};
  EXPECT_EQ(print(p, solved(p)),
            "free     [0x60000, 0x61000)\n"
            "aperture [0x50000, 0x58000)\n"
            "[0x50000, 0x50020) standard steps 1..2 align 32 request 1\n"
            "[0x60000, 0x60100) standard steps 0..end align 4 request 0\n"
            "separate 0 1\n"
            "peak 288 bytes at step 1\n");
}

}  // namespace
}  // namespace tw::place
