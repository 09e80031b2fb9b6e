#include "report/compare.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "report/report.h"
#include "sample.h"

namespace tw::report {
namespace {
using json = nlohmann::json;
using testing::HasSubstr;

json good() { return json::parse(to_json(build(c600(), sample(), "two.ipuexe", 1234, 1))); }

std::string refusal(const std::string& text) {
  try {
    comparable(text, "other.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::File);
    const std::string what = e.what();
    EXPECT_EQ(what.find('\n'), std::string::npos);
    EXPECT_THAT(what, HasSubstr("other.json: "));
    return what;
  }
  return "accepted";
}

TEST(ReportCompare, AReportComesBackWithoutItsExchange) {
  json want = good();
  const json got = json::parse(comparable(want.dump(), "other.json"));
  want["report"].erase("exchange");
  EXPECT_EQ(got, want);
}

TEST(ReportCompare, WhatIsNoReportIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("no whole JSON text"));
  const std::string text = good().dump();
  EXPECT_THAT(refusal(text.substr(0, text.size() / 2)), HasSubstr("no whole JSON text"));
  for (const char* other : {"[]", "{}", "3", "null", R"({"schema_version":1})", R"({"report":{}})"})
    EXPECT_THAT(refusal(other), HasSubstr("no report of tilewright")) << other;
  json j = good();
  j["schema_version"] = 2;
  EXPECT_THAT(refusal(j.dump()), HasSubstr("schema version 2"));
  j["schema_version"] = "1";
  EXPECT_THAT(refusal(j.dump()), HasSubstr("schema version"));
}

TEST(ReportCompare, ReportsOfBeforeTheKernelsAreAccepted) {
  json j = good();
  for (const char* key : {"kernels", "cycles", "cycles_after", "exchange", "fabric"}) j["report"].erase(key);
  j["report"]["phases"].erase("before_cycles");
  j["compile"] = nullptr;
  EXPECT_EQ(refusal(j.dump()), "accepted");
}

TEST(ReportCompare, IndexesStayInTheirLists) {
  const std::function<void(json&)> damages[] = {
      [](json& r) { r["steps"]["path"][0] = 4; },        [](json& r) { r["lists"][0]["tensor"][0] = 99; },
      [](json& r) { r["lists"][0]["last"][0] = 9; },     [](json& r) { r["tiles"]["list"][1] = 2; },
      [](json& r) { r["tiles"]["words"].push_back(0); }, [](json& r) { r["fullest"]["tile"][0] = -1; },
      [](json& r) { r["phases"]["step"][0] = 0; },       [](json& r) { r["phases"]["horizon"][0] = "x"; },
      [](json& r) { r["kernels"]["kernel"][0] = 1; },    [](json& r) { r["fullest"]["bytes"].erase(0); },
      [](json& r) { r["package"]["file"] = 3; },         [](json& r) { r["lists"] = json::object(); },
      [](json& r) { r["tensors"][0] = nullptr; },        [](json& r) { r["device"].erase("clock_hz"); }};
  for (std::size_t i = 0; i < std::size(damages); ++i) {
    json j = good();
    damages[i](j["report"]);
    EXPECT_THAT(refusal(j.dump()), HasSubstr("damaged report")) << i;
  }
}

// Bytes of a report changed at random: accepted or refused, nothing else.
TEST(ReportCompare, DamagedTextsAreAcceptedOrRefused) {
  const std::string text = good().dump();
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = text;
    for (std::uint32_t edits = 1 + random() % 3; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    refusal(bytes);
  }
}

}  // namespace
}  // namespace tw::report
