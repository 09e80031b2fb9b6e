// Each rule of a fixture is broken alone, in an otherwise good one. Digests were computed with sha256sum.
#include "import/fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tw::import {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const char* const kDigestOfW = "24ae2dfe8df57c1b80e54cef3d90ac3b417fd98973345a5f616bbc9a75dcc202";
const char* const kDigestOfB = "0846fa44e8b51361c65aa5220fb9a8e2c033649ec1638f2b9b02fb0dd4c0bfb0";
const char* const kDigestOfX = "b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37";

// Two parameters, two cases.
class Fixtures : public ::testing::Test {
 protected:
  void SetUp() override {
    outside_ = fs::temp_directory_path() / ("tilewright-fixture-" + std::to_string(getpid()));
    fs::remove_all(outside_);
    folder_ = outside_ / "fixture";
    fs::create_directories(folder_ / "parameters");
    write("parameters/w.f32", {1, 2, 3, 4, 5, 6});
    write("parameters/b.f32", {0.5F, -1, 2});
    write("x.f32", {1, 2});
    write("y.f32", {3, 4, 5});
    write("z.f32", {-1, -2});
    manifest_ = {{"parameters",
                  {{"w", {{"file", "parameters/w.f32"}, {"shape", {2, 3}}, {"sha256", kDigestOfW}}},
                   {"b", {{"file", "parameters/b.f32"}, {"shape", {3}}, {"sha256", kDigestOfB}}}}},
                 {"cases",
                  {{{"name", "first"},
                    {"inputs", {{"x", {{"file", "x.f32"}, {"shape", {1, 2}}}}}},
                    {"expected", {{"file", "y.f32"}, {"shape", {1, 3}}}}},
                   {{"name", "second"},
                    {"inputs", {{"x", {{"file", "z.f32"}, {"shape", {1, 2}}}}}},
                    {"expected", {{"file", "y.f32"}, {"shape", {1, 3}}}}}}}};
  }
  void TearDown() override { fs::remove_all(outside_); }

  void write(const std::string& name, const std::vector<float>& values) {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
  }
  void write_text(const std::string& text) {
    std::ofstream(folder_ / kFixtureManifest, std::ios::binary) << text;
  }
  Fixture open(FixtureValues values = FixtureValues::Checked) {
    return open_fixture(folder_, needs_, values, 2);
  }
  // The message of a refusal, or nothing.
  std::string refusal_of_text(const std::string& text) {
    write_text(text);
    try {
      open();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      EXPECT_THAT(e.what(), StartsWith((folder_ / kFixtureManifest).string() + ": "));
      return e.what();
    }
    return "";
  }
  std::string refusal() { return refusal_of_text(manifest_.dump()); }
  json& parameter(const char* name) { return manifest_["parameters"][name]; }
  json& first() { return manifest_["cases"][0]; }

  fs::path outside_, folder_;
  json manifest_;
  FixtureNeeds needs_{
      .parameters = {{"w", {2, 3}}, {"b", {3}}},
      .cases = FixtureNeeds::Cases{.count = 2, .inputs = {{"x", {1, 2}}}, .expected = {1, 3}}};
};

TEST_F(Fixtures, ValuesOfAGoodOne) {
  ASSERT_EQ(refusal(), "");
  for (const FixtureValues look : {FixtureValues::Checked, FixtureValues::Unread}) {
    const Fixture read = open(look);
    EXPECT_THAT(values_of(read.parameters.at("w")), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(values_of(read.parameters.at("b")), ElementsAre(0.5F, -1, 2));
    ASSERT_EQ(read.cases.size(), 2U);
    EXPECT_EQ(read.cases[1].name, "second");
    EXPECT_THAT(values_of(read.cases[1].inputs.at("x")), ElementsAre(-1, -2));
    EXPECT_THAT(values_of(read.cases[1].expected), ElementsAre(3, 4, 5));
  }
}

TEST_F(Fixtures, WhatNobodyNeedsIsLeftAlone) {
  manifest_["source"] = {{"revision", 7}};
  first()["note"] = "a photograph";
  parameter("w")["dtype"] = "F32";
  EXPECT_EQ(refusal(), "");
  // Without cases, as when only the parameters are needed again.
  needs_.cases.reset();
  manifest_.erase("cases");
  EXPECT_EQ(refusal(), "");
}

TEST_F(Fixtures, DigestsInEitherCaseAndOfCases) {
  parameter("w")["sha256"] = "24AE2DFE8DF57C1B80E54CEF3D90AC3B417FD98973345A5F616BBC9A75DCC202";
  first()["inputs"]["x"]["sha256"] = kDigestOfX;
  EXPECT_EQ(refusal(), "");
  first()["inputs"]["x"]["sha256"] = kDigestOfB;
  EXPECT_THAT(refusal(),
              HasSubstr(std::string("case 0 \"first\": \"x\" in \"x.f32\" has SHA-256 ") + kDigestOfX));
}

TEST_F(Fixtures, ValuesBeyondF16AreCounted) {
  write("parameters/b.f32", {1e6F, 1e-9F, 2});
  parameter("b")["sha256"] = "0";
  EXPECT_THAT(refusal(), HasSubstr("64 hexadecimal digits"));
  parameter("b")["sha256"] = std::string(64, '0');
  const std::string message = refusal();  // it tells the digest
  parameter("b")["sha256"] = message.substr(message.find("has SHA-256 ") + 12, 64);
  ASSERT_EQ(refusal(), "");
  const Fixture read = open();
  EXPECT_EQ(read.scan.overflowing, 1U);
  EXPECT_EQ(read.scan.vanishing, 1U);
  EXPECT_EQ(read.scan.first_overflowing, "b");
}

struct Broken {
  const char* name;
  std::function<void(json& manifest, const fs::path& folder)> how;
  const char* expected;
};
json& first_of(json& m) { return m["cases"][0]; }
json& w_of(json& m) { return m["parameters"]["w"]; }
void put(const fs::path& file, const std::vector<float>& values) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
}
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

const std::vector<Broken> kBroken{
    {"NoParameters", [](json& m, const fs::path&) { m.erase("parameters"); }, "\"parameters\" is missing"},
    {"ParametersNoObject", [](json& m, const fs::path&) { m["parameters"] = 1; },
     "\"parameters\" is 1, not an object"},
    {"NoCases", [](json& m, const fs::path&) { m.erase("cases"); }, "\"cases\" is missing"},
    {"CasesNoList", [](json& m, const fs::path&) { m["cases"] = json::object(); },
     "\"cases\" is {}, not a list"},
    {"MissingParameter", [](json& m, const fs::path&) { m["parameters"].erase("w"); }, "\"w\" is missing"},
    {"UnknownParameter", [](json& m, const fs::path&) { m["parameters"]["v"] = w_of(m); },
     "\"v\" is no parameter of the model"},
    {"EntryNoObject", [](json& m, const fs::path&) { w_of(m) = "w.f32"; },
     "\"w\" is \"w.f32\", not an object with \"file\" and \"shape\""},
    {"NoFile", [](json& m, const fs::path&) { w_of(m).erase("file"); }, "\"w\": \"file\" is missing"},
    {"FileNoName", [](json& m, const fs::path&) { w_of(m)["file"] = 3; },
     "\"w\": \"file\" is 3, not a string"},
    {"NoShape", [](json& m, const fs::path&) { w_of(m).erase("shape"); }, "\"w\": \"shape\" is missing"},
    {"ShapeNoList", [](json& m, const fs::path&) { w_of(m)["shape"] = 6; },
     "\"w\": \"shape\" is 6, not a list"},
    {"NegativeExtent", [](json& m, const fs::path&) { w_of(m)["shape"] = {-2, -3}; },
     "\"w\": \"shape\" is [-2,-3], not a list of whole numbers"},
    {"FractionalExtent", [](json& m, const fs::path&) { w_of(m)["shape"] = {2.0, 3.0}; },
     "not a list of whole numbers"},
    {"TransposedShape", [](json& m, const fs::path&) { w_of(m)["shape"] = {3, 2}; },
     "\"w\" has shape [3,2], expected [2,3]"},
    {"FlatShape", [](json& m, const fs::path&) { w_of(m)["shape"] = {6}; },
     "\"w\" has shape [6], expected [2,3]"},
    {"ScalarShape", [](json& m, const fs::path&) { w_of(m)["shape"] = json::array(); },
     "\"w\" has shape [], expected [2,3]"},
    {"OverflowingShape", [](json& m, const fs::path&) { w_of(m)["shape"] = {1ULL << 33, 1ULL << 33}; },
     "\"w\": the product of its shape is larger than 2^64 - 1"},
    // 2^62 elements: 4 times that is 2^64, which a wrapped product would call zero bytes.
    {"OverflowingBytes", [](json& m, const fs::path&) { w_of(m)["shape"] = {1ULL << 31, 1ULL << 31}; },
     "\"w\": its size in bytes is larger than 2^64 - 1"},
    {"NoDigest", [](json& m, const fs::path&) { w_of(m).erase("sha256"); }, "\"w\": \"sha256\" is missing"},
    {"DigestNoText", [](json& m, const fs::path&) { w_of(m)["sha256"] = 0; },
     "\"sha256\" is 0, not a string"},
    {"ShortDigest", [](json& m, const fs::path&) { w_of(m)["sha256"] = std::string(63, 'a'); },
     "not 64 hexadecimal digits"},
    {"DigestWithOtherLetters", [](json& m, const fs::path&) { w_of(m)["sha256"] = std::string(64, 'g'); },
     "not 64 hexadecimal digits"},
    {"WrongDigest", [](json& m, const fs::path&) { w_of(m)["sha256"] = kDigestOfB; },
     "\"w\" in \"parameters/w.f32\" has SHA-256 "
     "24ae2dfe8df57c1b80e54cef3d90ac3b417fd98973345a5f616bbc9a75dcc202"},
    {"OtherValues", [](json&, const fs::path& f) { put(f / "parameters/w.f32", {1, 2, 3, 4, 5, 7}); },
     "expected 24ae2dfe8df57c1b80e54cef3d90ac3b417fd98973345a5f616bbc9a75dcc202"},
    {"TooShort", [](json&, const fs::path& f) { fs::resize_file(f / "parameters/w.f32", 23); },
     "\"w\" in \"parameters/w.f32\": the file has 23 bytes, shape [2,3] needs 24"},
    {"TooLong", [](json&, const fs::path& f) { fs::resize_file(f / "parameters/w.f32", 25); },
     "the file has 25 bytes, shape [2,3] needs 24"},
    {"Empty", [](json&, const fs::path& f) { fs::resize_file(f / "y.f32", 0); },
     "case 0 \"first\": \"expected\" in \"y.f32\": the file has 0 bytes, shape [1,3] needs 12"},
    {"NoSuchFile", [](json&, const fs::path& f) { fs::remove(f / "x.f32"); },
     "case 0 \"first\": \"x\" in \"x.f32\": no such file"},
    {"AFolder", [](json& m, const fs::path&) { w_of(m)["file"] = "parameters"; },
     "\"w\" in \"parameters\": no such file"},
    {"Nan", [](json&, const fs::path& f) { put(f / "x.f32", {1, kNan}); },
     "\"x\" in \"x.f32\" holds 1 NaN or infinite values, the first is element 1 at byte 4"},
    {"Infinity", [](json&, const fs::path& f) { put(f / "y.f32", {-kInf, 0, kInf}); },
     "\"expected\" in \"y.f32\" holds 2 NaN or infinite values, the first is element 0 at byte 0"},
    {"AbsolutePath", [](json& m, const fs::path& f) { w_of(m)["file"] = (f / "parameters/w.f32").string(); },
     "is outside the fixture's folder"},
    {"ParentFolder",
     [](json& m, const fs::path& f) {
       fs::copy_file(f / "parameters/w.f32", f.parent_path() / "w.f32");
       w_of(m)["file"] = "../w.f32";
     },
     "\"w\": file \"../w.f32\" is outside the fixture's folder"},
    {"ParentFolderInside", [](json& m, const fs::path&) { w_of(m)["file"] = "parameters/../x.f32"; },
     "is outside the fixture's folder"},
    {"EmptyName", [](json& m, const fs::path&) { w_of(m)["file"] = ""; }, "\"w\": an empty file name"},
    {"ZeroByte", [](json& m, const fs::path&) { w_of(m)["file"] = std::string("x\0y", 3); },
     "\"w\": a file name with a zero byte"},
    {"LongName", [](json& m, const fs::path&) { w_of(m)["file"] = std::string(10000, 'x'); }, "no such file"},
    {"LinkToAFileOutside",
     [](json&, const fs::path& f) {
       fs::rename(f / "parameters/w.f32", f.parent_path() / "w.f32");
       fs::create_symlink("../../w.f32", f / "parameters/w.f32");
     },
     "\"w\" in \"parameters/w.f32\": a symbolic link leads out of the fixture's folder"},
    {"LinkToAFolderOutside",
     [](json&, const fs::path& f) {
       fs::rename(f / "parameters", f.parent_path() / "parameters");
       fs::create_directory_symlink(f.parent_path() / "parameters", f / "parameters");
     },
     "a symbolic link leads out of the fixture's folder"},
    {"NeighbourWithTheSameBeginning",
     [](json&, const fs::path& f) {
       const fs::path neighbour = f.parent_path() / "fixture2";
       fs::create_directory(neighbour);
       fs::rename(f / "x.f32", neighbour / "x.f32");
       fs::create_symlink(neighbour / "x.f32", f / "x.f32");
     },
     "\"x\" in \"x.f32\": a symbolic link leads out"},
    {"MissingCase", [](json& m, const fs::path&) { m["cases"].erase(1); },
     "\"cases\" holds 1, but 2 inference calls are asked for"},
    {"CaseTooMany",
     [](json& m, const fs::path&) {
       m["cases"].push_back(first_of(m));
       m["cases"][2]["name"] = "third";
     },
     "\"cases\" holds 3, but 2 inference calls are asked for"},
    {"CaseNoObject", [](json& m, const fs::path&) { first_of(m) = "x"; }, "case 0 is \"x\", not an object"},
    {"NoName", [](json& m, const fs::path&) { first_of(m).erase("name"); }, "case 0: \"name\" is missing"},
    {"NameNoText", [](json& m, const fs::path&) { first_of(m)["name"] = 1; },
     "case 0: \"name\" is 1, not a string"},
    {"SameNames", [](json& m, const fs::path&) { first_of(m)["name"] = "second"; },
     "case 1 \"second\": the name of an earlier case"},
    {"NoInputs", [](json& m, const fs::path&) { first_of(m).erase("inputs"); },
     "case 0 \"first\": \"inputs\" is missing"},
    {"MissingInput", [](json& m, const fs::path&) { first_of(m)["inputs"] = json::object(); },
     "case 0 \"first\": \"x\" is missing"},
    {"UnknownInput", [](json& m, const fs::path&) { first_of(m)["inputs"]["u"] = first_of(m)["expected"]; },
     "case 0 \"first\": \"u\" is no input of the model"},
    {"InputOfAnotherBatch", [](json& m, const fs::path&) { first_of(m)["inputs"]["x"]["shape"] = {2, 1}; },
     "case 0 \"first\": \"x\" has shape [2,1], expected [1,2]"},
    {"NoExpected", [](json& m, const fs::path&) { first_of(m).erase("expected"); },
     "case 0 \"first\": \"expected\" is missing"},
    {"ExpectedShape", [](json& m, const fs::path&) { first_of(m)["expected"]["shape"] = {3}; },
     "case 0 \"first\": \"expected\" has shape [3], expected [1,3]"}};

class Refused : public Fixtures, public ::testing::WithParamInterface<Broken> {};
TEST_P(Refused, AloneAndByName) {
  ASSERT_EQ(refusal(), "");  // it is what follows that is refused
  GetParam().how(manifest_, folder_);
  EXPECT_THAT(refusal(), HasSubstr(GetParam().expected));
}
INSTANTIATE_TEST_SUITE_P(Rules, Refused, ::testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

TEST_F(Fixtures, Texts) {
  const std::string good = manifest_.dump();
  const std::string entry = parameter("w").dump();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "is no JSON"},
      {"{", "is no JSON"},
      {good + "x", "is no JSON"},
      {std::string("\0\1\2\3", 4), "is no JSON"},
      {"{\"a\":\"\xff\"}", "is no JSON"},
      {"[]", "is no JSON object"},
      {"{\"a\":1e999}", "number"},
      {with("\"w\":" + entry, "\"w\":" + entry + ",\"w\":" + entry),
       "the key \"parameters\"/\"w\" comes twice"},
      {with("\"name\":\"first\"", "\"name\":\"first\",\"name\":\"first\""),
       "the key \"cases\"/0/\"name\" comes twice"},
      {with("\"name\":\"second\"", "\"name\":\"second\",\"name\":\"second\""),
       "the key \"cases\"/1/\"name\" comes twice"},
      {with("\"cases\":", "\"cases\":[],\"cases\":"), "the key \"cases\" comes twice"},
      {std::string(100'000, '['), "nested too deeply"},
      {"{\"parameters\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", "nested too deeply"},
      {"{\"a\":\"" + std::string(std::size_t{1} << 24, 'x') + "\"}", "more than the limit"}};
  for (const auto& [text, expected] : cases) EXPECT_THAT(refusal_of_text(text), HasSubstr(expected));
}

TEST_F(Fixtures, EverythingAtOnceUpToFifty) {
  write("x.f32", {kNan, 1});
  fs::resize_file(folder_ / "z.f32", 4);
  parameter("w")["sha256"] = kDigestOfB;
  parameter("b")["shape"] = {1, 3};
  manifest_["cases"].push_back({{"name", "third"}});
  std::string message = refusal();
  for (const char* part :
       {"7 problems", "\"b\" has shape [1,3]", "\"w\" in \"parameters/w.f32\" has SHA-256",
        "\"cases\" holds 3", "element 0 at byte 0", "\"z.f32\": the file has 4 bytes",
        "case 2 \"third\": \"inputs\" is missing", "case 2 \"third\": \"expected\" is missing"})
    EXPECT_THAT(message, HasSubstr(part));
  for (int i = 0; i < 60; ++i) manifest_["parameters"]["more" + std::to_string(i)] = 1;
  message = refusal();
  EXPECT_THAT(message, HasSubstr("67 problems"));
  EXPECT_THAT(message, HasSubstr("and 17 more"));
  EXPECT_THAT(message, Not(HasSubstr("more53")));
}

TEST_F(Fixtures, WithoutAFolderOrAManifest) {
  for (const fs::path& folder : {outside_ / "none", folder_}) {
    try {
      open_fixture(folder, needs_, FixtureValues::Checked, 1);
      ADD_FAILURE() << folder;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      EXPECT_THAT(e.what(), StartsWith(folder.string()));
      EXPECT_THAT(e.what(), HasSubstr("no such"));
    }
  }
}

TEST_F(Fixtures, AFolderThatIsALink) {
  ASSERT_EQ(refusal(), "");
  fs::create_directory_symlink(folder_, outside_ / "link");
  folder_ = outside_ / "link";
  EXPECT_THAT(values_of(open().parameters.at("b")), ElementsAre(0.5F, -1, 2));
}

TEST_F(Fixtures, AFileThatChangedAfterwards) {
  ASSERT_EQ(refusal(), "");
  const Fixture read = open();
  fs::resize_file(folder_ / "y.f32", 8);
  EXPECT_THROW(values_of(read.cases[0].expected), Error);
}

}  // namespace
}  // namespace tw::import
