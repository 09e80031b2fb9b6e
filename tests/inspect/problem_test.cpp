// Problem files: read back as written, our own solutions legal, every kind of alteration named, every
// malformed file refused with the path of each fault.
#include "inspect/problem.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "emit/emit.h"
#include "small_package.h"
#include "target/topology.h"
#include "tile/problems.h"

namespace tw::inspect {
namespace {
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Device kDevice = c600();

// Three requests of 64 bytes at hand-made addresses. Free: one element before the interleaved base and one
// pair behind it; the second and third may not share an element.
PlacementProblem three() {
  PlacementProblem p;
  p.tile = 5;
  p.problem.free = {{0x78000, 0x80000}, {0x80000, 0x90000}};
  p.problem.aperture = {{0x50000, 0x58000}};
  p.problem.requests = {{64, 32, place::Class::Standard, 1, 4},
                        {64, 8, place::Class::Interleaved, 2, place::kForever},
                        {64, 8, place::Class::Standard, 0, 3}};
  p.problem.separate = {{1, 2}};
  p.problem.apart = {{0, 2, 10}, {0, 1, 7}};
  p.tensors = {"x", "y", "z"};
  p.solver = "hand";
  p.addresses = {0x50000, 0x80000, 0x78000};
  return p;
}

std::vector<std::string> broken(const Problem& p) { return check(kDevice, p, "p").broken; }

std::vector<std::string> broken_with(std::vector<std::uint32_t> addresses) {
  PlacementProblem p = three();
  p.addresses = std::move(addresses);
  return broken(p);
}

TEST(PlacementProblem, HandMadeSolutionsAreJudged) {
  EXPECT_THAT(broken(three()), IsEmpty());
  EXPECT_THAT(broken_with({0x78000, 0x80000, 0x78000}),
              ElementsAre(HasSubstr("requests 0 and 2 overlap at 0x78000")));
  EXPECT_THAT(broken_with({0x50010, 0x80000, 0x78000}),
              ElementsAre("request 0: address 0x50010 is no multiple of 32"));
  EXPECT_THAT(broken_with({0x50000, 0x7C000, 0x78000}),
              ElementsAre("request 1: interleaved data at 0x7c000 outside interleaved memory"));
  EXPECT_THAT(broken_with({0x50000, 0x80000, 0x87000}),
              ElementsAre("requests 1 and 2 share memory element 1024"));
  EXPECT_THAT(broken_with({0x50000, 0x80000, 0x50800}),
              ElementsAre(HasSubstr("request 2: [0x50800, 0x50840) is outside")));
  EXPECT_THAT(broken_with({0x50000, 0x8FFE0, 0x78000}),
              ElementsAre(HasSubstr("request 1: [0x8ffe0, 0x90020) is outside")));
  EXPECT_THAT(broken_with({0x50000, 0x80000, 0x7FFE0}),
              Contains("request 2: crosses the region boundary 0x80000"));
  EXPECT_THAT(broken_with({0x50000, 0x80000}), ElementsAre("2 addresses for 3 requests"));
  EXPECT_THAT(broken_with({0xFFFFFFE0, 0xFFFFFFF8, 0xFFFFFFF8}), Contains(HasSubstr("outside")));
}

TEST(PlacementProblem, PreferencesAreWeighed) {
  PlacementProblem p = three();
  Verdict v = check(kDevice, p, "p");
  EXPECT_EQ(v.total_weight, 17U);
  EXPECT_EQ(v.shared_weight, 0U);
  p.addresses = {0x78040, 0x80000, 0x78000};  // x and z in one element
  EXPECT_EQ(check(kDevice, p, "p").shared_weight, 10U);
}

Problem again(const Problem& p) { return problem_from_json(kDevice, to_json(kDevice, p), "again"); }

TEST(PlacementProblem, OursAreLegalAndReadBack) {
  const SmallPackage& small = small_package();
  const auto rows = std::ranges::find(small.result.side.symbols, "rows", &package::Symbol::name);
  const auto problems = tile::placement_problems(
      kDevice, small.result.program, emit::code_bytes(kDevice, small.result.program), rows->bytes);
  std::size_t requests = 0;
  for (std::uint32_t t = 0; t < 64; t += 7) {
    PlacementProblem p;
    p.tile = topology::physical(TileId(t)).value;
    p.problem = problems[t].problem;
    std::vector<std::uint32_t> addresses;
    for (const BufferId b : problems[t].buffers) {
      addresses.push_back(small.result.side.tensors[b.value].address);
      p.tensors.push_back(small.result.side.tensors[b.value].tensor);
    }
    p.addresses = addresses;
    EXPECT_THAT(broken(p), IsEmpty());
    const auto back = std::get<PlacementProblem>(again(p));
    EXPECT_EQ(to_json(kDevice, back), to_json(kDevice, p));
    EXPECT_EQ(back.problem.requests.size(), p.problem.requests.size());
    EXPECT_EQ(back.problem.apart, p.problem.apart);
    EXPECT_EQ(back.addresses, p.addresses);
    requests += addresses.size();
    // One address moved by what no alignment allows, or into the code: always noticed.
    for (std::size_t r = 0; r < addresses.size(); ++r) {
      for (const std::uint32_t address : {addresses[r] + 2, kDevice.code_base}) {
        std::vector<std::uint32_t> bad = addresses;
        bad[r] = address;
        p.addresses = bad;
        EXPECT_FALSE(broken(p).empty());
      }
    }
  }
  EXPECT_GT(requests, 500U);
}

// Phases of the small model with their schedules.
std::vector<ExchangeProblem> phases() {
  const SmallPackage& small = small_package();
  tile::Addresses addresses;
  for (const package::TensorPlace& t : small.result.side.tensors) addresses.of.push_back(t.address);
  std::vector<ExchangeProblem> out;
  for (std::size_t i = 0; i < small.result.program.phases.size(); i += 5) {
    ExchangeProblem p;
    p.phase = static_cast<std::uint32_t>(i);
    p.problem = tile::exchange_problem(small.result.program, small.result.program.phases[i], addresses);
    p.tensors.resize(p.problem.transfers.size(), "t");
    p.schedule = exchange::schedule(kDevice, p.problem);
    out.push_back(std::move(p));
  }
  return out;
}

TEST(ExchangeProblem, OursAreLegalAndReadBack) {
  for (const ExchangeProblem& p : phases()) {
    const Verdict v = check(kDevice, p, "p");
    EXPECT_THAT(v.broken, IsEmpty()) << "phase " << p.phase;
    EXPECT_EQ(v.horizon, p.schedule->horizon);
    const auto back = std::get<ExchangeProblem>(again(p));
    EXPECT_EQ(to_json(kDevice, back), to_json(kDevice, p));
    EXPECT_EQ(back.problem.transfers, p.problem.transfers);
    EXPECT_THAT(broken(back), IsEmpty());
  }
}

// Two tiles send 10 words to a third, one behind the other; hardware.md 2.2: tau(1, 0) = -29, tau(2, 0) =
// -27.
ExchangeProblem two_sends() {
  ExchangeProblem p;
  p.problem.receivers = {{PhysId(0), 0x90000}, {PhysId(0), 0x91000}};
  p.problem.transfers = {{PhysId(2), 0x60000, 0, 10, 0, 1}, {PhysId(64), 0x61000, 0, 10, 1, 1}};
  p.tensors = {"a", "b"};
  p.schedule.emplace();
  p.schedule->receivers = p.problem.receivers;
  p.schedule->messages = {{p.problem.transfers[0], 38}, {p.problem.transfers[1], 46}};
  return p;
}

std::vector<std::string> broken_with(const std::function<void(std::vector<exchange::Message>&)>& change) {
  ExchangeProblem p = two_sends();
  change(p.schedule->messages);
  return broken(p);
}

TEST(ExchangeProblem, HandMadeSolutionsAreJudged) {
  const Verdict good = check(kDevice, two_sends(), "p");
  EXPECT_THAT(good.broken, IsEmpty());
  EXPECT_EQ(good.bound_words, 20U);
  EXPECT_EQ(good.horizon, 20U + 10 + 52 + 5);  // second window at 20, stored 52 later, five events behind it

  EXPECT_THAT(broken_with([](auto& m) { m[1].start = 45; }), ElementsAre(HasSubstr("(R1)")));
  EXPECT_THAT(broken_with([](auto& m) { m[0].start = 28; }), ElementsAre(HasSubstr("(R4)")));
  EXPECT_THAT(broken_with([](auto& m) { m[1].transfer.source = PhysId(2); }),
              Contains("tile 2: sends at [38, 48) and [46, 56) overlap (S1)"));
  EXPECT_THAT(broken_with([](auto& m) { m[1].start = 50, m[1].transfer.source = PhysId(2); }),
              Contains(HasSubstr("gets 2:0x61000, wanted 64:0x61000")));
  EXPECT_THAT(broken_with([](auto& m) { m[0].transfer.source_address = 0x4BFFC; }),
              ElementsAre(HasSubstr("message 0: source [0x4bffc, 0x4c024) is outside memory")));
  EXPECT_THAT(broken_with([](auto& m) { m[0].transfer.source_address += 4; }),
              Contains(HasSubstr("gets 2:0x60004")));
  EXPECT_THAT(broken_with([](auto& m) { m[0].transfer.words = 9; }),
              Contains(HasSubstr("never gets 2:0x60024")));
  EXPECT_THAT(broken_with([](auto& m) { m.pop_back(); }), Contains(HasSubstr("never gets 64:0x61000")));
  EXPECT_THAT(broken_with([](auto& m) { m[0].transfer.words = 0; }), ElementsAre("message 0: no words"));
  EXPECT_THAT(broken_with([](auto& m) { m[0].start = UINT32_MAX; }),
              ElementsAre(HasSubstr("the last possible is")));
}

// The one rule that needs memory elements: hardware.md 1.4.
TEST(ExchangeProblem, SendsNearStoresOfTheSameElementAreNoticed) {
  ExchangeProblem p;  // tile 0 receives into the element that it sends from
  p.problem.receivers = {{PhysId(0), 0x60100}, {PhysId(64), 0x90000}};
  p.problem.transfers = {{PhysId(2), 0x70000, 0, 40, 0, 1}, {PhysId(0), 0x60000, 0, 10, 1, 1}};
  p.tensors = {"a", "b"};
  p.schedule.emplace();
  p.schedule->receivers = p.problem.receivers;
  p.schedule->messages = {{p.problem.transfers[0], 38}, {p.problem.transfers[1], 70}};  // stores at [62, 102)
  EXPECT_THAT(broken(p), ElementsAre(HasSubstr("tile 0: send at event 70 reads element 24")));
  p.schedule->messages[1].start = 110;
  EXPECT_THAT(broken(p), IsEmpty());
}

std::vector<std::string> faults_of(const std::string& text) {
  try {
    problem_from_json(kDevice, text, "f");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::File);
    std::vector<std::string> lines;
    std::istringstream in(e.what());
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  return {};
}

std::vector<std::string> faults_of(const Problem& p, const std::function<void(json&)>& change) {
  json j = json::parse(to_json(kDevice, p));
  change(j);
  return faults_of(j.dump());
}

TEST(ProblemFile, NamesEveryFaultWithItsPath) {
  EXPECT_THAT(faults_of("{\n\n,"), ElementsAre("f: is no JSON, at line 3"));
  EXPECT_THAT(faults_of("[]"), ElementsAre("f: $: is no object"));
  EXPECT_THAT(faults_of("{\"kind\":\"x\"}"),
              ElementsAre("f: $.schema_version: is not 1", "f: $.target: is not \"c600\"",
                          "f: $.kind: is neither \"placement\" nor \"exchange\""));
  EXPECT_THAT(faults_of(three(), [](json&) {}), IsEmpty());
  EXPECT_THAT(faults_of(three(),
                        [](json& j) {
                          j["requests"][0]["alignment"] = 12;
                          j["requests"][1]["class"] = "other";
                          j["requests"][2].erase("first");
                          j["requests"][2]["frist"] = 0;
                          j["separate"][0]["b"] = 3;
                          j["apart"][0]["weight"] = -1;
                          j["apart"][1]["b"] = 0;
                          j["free"][1]["begin"] = 0x70000;
                          j["aperture"][0]["end"] = 0x50000;
                          j["memory"]["pair_bytes"] = 1;
                          j["tile"] = 1472;
                          j["solution"]["addresses"][1] = "x";
                        }),
              ElementsAre("f: $.tile: is no whole number 0..1471", "f: $.memory.pair_bytes: is not 32768",
                          "f: $.free[1]: crosses the interleaved base 524288",
                          "f: $.free[1]: begins before the end of the range before",
                          "f: $.aperture[0]: does not begin before its end",
                          "f: $.requests[0].alignment: is no power of two",
                          "f: $.requests[1].class: is neither \"standard\" nor \"interleaved\"",
                          "f: $.requests[2]: has no \"first\"", "f: $.requests[2]: knows no \"frist\"",
                          "f: $.separate[0].b: is no whole number 0..2",
                          "f: $.apart[0].weight: is no whole number 0..9223372036854775807",
                          "f: $.apart[1]: names one request twice",
                          "f: $.solution.addresses[1]: is no whole number 0..4294967295"));
  EXPECT_THAT(faults_of(three(), [](json& j) { j["requests"][0]["last"] = 0; }),
              ElementsAre("f: $.requests[0].last: is before 'first'"));
  EXPECT_THAT(faults_of(three(), [](json& j) { j["solution"] = 5; }),
              ElementsAre("f: $.solution: is no object"));
  EXPECT_THAT(faults_of(two_sends(),
                        [](json& j) {
                          j["iterations"] = 0;
                          j["transfers"][0]["words"] = 1.5;
                          j["transfers"][1]["receivers"] = json::array();
                          j["solution"]["messages"][0]["source"] = 1472;
                          j["solution"]["messages"][1].erase("start");
                        }),
              ElementsAre("f: $.iterations: is no whole number 1..4096",
                          "f: $.transfers[0].words: is no whole number 0..4294967295",
                          "f: $.transfers[0]: no words", "f: $.transfers[1]: no receiver",
                          "f: $.solution.messages[0].source: is no whole number 0..1471",
                          "f: $.solution.messages[1]: has no \"start\""));
  std::vector<std::string> many = faults_of(three(), [](json& j) {
    for (int i = 0; i < 80; ++i) j["requests"].push_back(i);
  });
  EXPECT_EQ(many.size(), 51U);
  EXPECT_EQ(many.back(), "and 30 more");
}

TEST(ProblemFile, NothingToCheckIsSaid) {
  PlacementProblem p = three();
  p.addresses.reset();
  const Problem back = again(p);
  EXPECT_FALSE(std::get<PlacementProblem>(back).addresses.has_value());
  EXPECT_THROW(check(kDevice, back, "p"), Error);
}

}  // namespace
}  // namespace tw::inspect
