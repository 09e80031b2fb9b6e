#include "import/calibration.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tw::import {
namespace {

const std::set<std::string> kRoles{"embedding", "encoder.layer.mlp.up", "map.mlp.up"};

std::string file(const std::string& scales, const std::string& before = R"("shared_operand_scale":true,
    "fp16_embedding":true)") {
  return "{" + before + R"(,"scales":{)" + scales + "}}";
}
const std::string kHead = R"("shared_operand_scale":true,"fp16_embedding":true)";
std::string entry(const std::string& role, const std::string& activation, const std::string& weight) {
  return "\"" + role + "\":{\"activation\":" + activation + ",\"weight\":" + weight + "}";
}
const std::string kGood = entry("encoder.layer.mlp.up", "1", "1") + "," + entry("map.mlp.up", "-16", "-16");

std::string problem(const std::string& text) {
  try {
    calibration_from_json(text, "c.json", kRoles);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::File);
    EXPECT_TRUE(std::string(e.what()).starts_with("c.json: ")) << e.what();
    return e.what();
  }
  return "";
}

TEST(Calibration, ScalesByRole) {
  const Calibration read = calibration_from_json(file(kGood), "c.json", kRoles);
  EXPECT_EQ(read.fp16, (std::set<std::string>{"embedding"}));
  EXPECT_EQ(read.scales, (std::map<std::string, int>{{"encoder.layer.mlp.up", 1}, {"map.mlp.up", -16}}));
}

TEST(Calibration, LayersOfARoleAgree) {
  const std::string rest = "," + entry("map.mlp.up", "0", "0");
  for (const char* name :
       {"encoder.layer{}.mlp.up", "encoder.layer0.mlp.up", "vit.encoder.layer26.mlp.up.weight"})
    EXPECT_EQ(calibration_from_json(file(entry(name, "3", "3") + rest), "c.json", kRoles)
                  .scales.at("encoder.layer.mlp.up"),
              3);
  const std::string two = entry("encoder.layer0.mlp.up", "3", "3") + ",";
  EXPECT_EQ(problem(file(two + entry("encoder.layer1.mlp.up", "3", "3") + rest)), "");
  EXPECT_NE(problem(file(two + entry("encoder.layer1.mlp.up", "2", "2") + rest)).find("must agree"),
            std::string::npos);
}

TEST(Calibration, TheEmbeddingNeedsAScaleOnlyInFp8) {
  const std::string fp8 = R"("shared_operand_scale":true,"fp16_embedding":false)";
  EXPECT_NE(problem(file(kGood, fp8)).find("\"embedding\" is missing"), std::string::npos);
  const std::string with = kGood + "," + entry("embedding", "-2", "-2");
  EXPECT_EQ(calibration_from_json(file(with, fp8), "c.json", kRoles).scales.at("embedding"), -2);
  EXPECT_FALSE(calibration_from_json(file(with), "c.json", kRoles).scales.contains("embedding"));
}

TEST(Calibration, RolesInF16NeedNoScale) {
  const std::string up = entry("encoder.layer.mlp.up", "1", "1");
  for (const char* name : {"map.mlp.up", "vit.map.mlp.up.weight"}) {
    const std::string before = kHead + R"(,"fp16":[")" + name + "\"]";
    const Calibration read = calibration_from_json(file(up, before), "c.json", kRoles);
    EXPECT_EQ(read.fp16, (std::set<std::string>{"embedding", "map.mlp.up"}));
    EXPECT_EQ(read.scales, (std::map<std::string, int>{{"encoder.layer.mlp.up", 1}}));
    // A scale beside it is not used.
    EXPECT_EQ(calibration_from_json(file(kGood, before), "c.json", kRoles).scales, read.scales);
  }
}

TEST(Calibration, WhatIsWrittenIsRead) {
  const Calibration all{.fp16 = {},
                        .scales = {{"embedding", 0}, {"encoder.layer.mlp.up", -16}, {"map.mlp.up", 15}}};
  const Calibration some{.fp16 = {"embedding", "map.mlp.up"}, .scales = {{"encoder.layer.mlp.up", -3}}};
  for (const Calibration& c : {all, some}) {
    const Calibration read = calibration_from_json(to_json(c), "c.json", kRoles);
    EXPECT_EQ(read.fp16, c.fp16);
    EXPECT_EQ(read.scales, c.scales);
  }
  // The form of models.md C.5.
  EXPECT_NE(to_json(some).find("\"shared_operand_scale\": true"), std::string::npos);
  EXPECT_NE(to_json(some).find("\"fp16_embedding\": true"), std::string::npos);
  EXPECT_NE(to_json(all).find("\"nearest\": []"), std::string::npos);
}

TEST(Calibration, EachRule) {
  const std::string up = "," + entry("encoder.layer.mlp.up", "1", "1");
  const auto map = [&](const std::string& a, const std::string& w) {
    return problem(file(entry("map.mlp.up", a, w) + up));
  };
  EXPECT_EQ(map("-16", "-16"), "");
  EXPECT_EQ(map("15", "15"), "");
  const std::vector<std::pair<std::string, std::string>> cases{
      {map("16", "16"), "activation is 16, outside -16..15"},
      {map("-17", "-17"), "weight is -17, outside -16..15"},
      {map("18446744073709551615", "1"), "outside"},
      {map("-9223372036854775808", "1"), "outside"},
      {map("1e999", "1"), "number"},
      {map("1.0", "1"), "activation is 1.0, not an integer"},
      {map("\"1\"", "1"), "not an integer"},
      {map("null", "1"), "not an integer"},
      {map("true", "1"), "not an integer"},
      {map("-2", "-3"), "activation -2 and weight -3: unequal operand scales are not built"},
      {problem(file("\"map.mlp.up\":{\"activation\":1}" + up)), "has no \"weight\""},
      {problem(file("\"map.mlp.up\":-4" + up)), "\"map.mlp.up\" is -4, not an object"},
      {problem(file(up.substr(1))), "\"map.mlp.up\" is missing"},
      {problem(file(kGood + "," + entry("map.mlp.down", "1", "1"))), "\"map.mlp.down\" is no role"},
      {problem(file(kGood + "," + entry("map.mlp.up", "1", "1"))), "\"map.mlp.up\" comes twice"},
      {problem(file(kGood, R"("shared_operand_scale":false,"fp16_embedding":true)")),
       "unequal operand scales are not built"},
      {problem(file(kGood, R"("shared_operand_scale":1,"fp16_embedding":true)")), "not true or false"},
      {problem(file(kGood, R"("shared_operand_scale":true)")), "\"fp16_embedding\" is missing"},
      {problem(file(kGood, R"("fp16_embedding":true)")), "\"shared_operand_scale\" is missing"},
      {problem(file(kGood, R"("shared_operand_scale":true,"fp16_embedding":true,"nearest":1)")),
       "\"nearest\" is no array"},
      {problem(R"({"shared_operand_scale":true,"fp16_embedding":true})"), "\"scales\" is missing"},
      {problem(R"({"shared_operand_scale":true,"fp16_embedding":true,"scales":[]})"),
       "\"scales\" is no object"},
      {problem(file(kGood, kHead + R"(,"fp16":"map.mlp.up")")), "\"fp16\" is no array"},
      {problem(file(kGood, kHead + R"(,"fp16":["map.mlp.down"])")), "\"fp16\": \"map.mlp.down\" is no role"},
      {problem(file(kGood, kHead + R"(,"fp16":[["map.mlp.up"]])")), "is no role"},
      {problem("[]"), "is no JSON object"},
      {problem(""), "is no JSON"},
      {problem("{"), "is no JSON"},
      {problem(file(kGood) + "x"), "is no JSON"}};
  for (const auto& [message, expected] : cases)
    EXPECT_NE(message.find(expected), std::string::npos) << expected << "\n in: " << message;
  EXPECT_EQ(problem(file(kGood, R"("shared_operand_scale":true,"fp16_embedding":true,"nearest":["x"])")), "");
}

TEST(Calibration, AllProblemsInOneMessageUpToFifty) {
  std::string scales;
  for (int i = 0; i < 60; ++i) scales += entry("unknown" + std::to_string(i), "1", "1") + ",";
  const std::string message = problem(file(scales + entry("map.mlp.up", "99", "1")));
  EXPECT_NE(message.find("62 problems"), std::string::npos) << message;  // 60, the range, a missing role
  EXPECT_NE(message.find("and 12 more"), std::string::npos) << message;
}

TEST(Calibration, DeepNestingIsRefused) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  EXPECT_NE(problem(deep).find("nested"), std::string::npos);
  // A value that is shown in a message.
  const std::string lists = std::string(400'000, '[') + std::string(400'000, ']');
  EXPECT_NE(problem("{\"shared_operand_scale\":" + lists + "}").find("nested"), std::string::npos);
}

}  // namespace
}  // namespace tw::import
