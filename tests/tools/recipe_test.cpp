// The recipe inside a package: ours comes back, another one is a bad file.
#include "tools/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tw::tools {
namespace {

Recipe calibrated() {
  Recipe r;
  r.model.name = "siglip-so400m";
  r.model.small = true;
  r.fp8_scales = {{"embedding", -3}};
  r.calibration_sha256 = std::string(64, 'a');
  return r;
}

TEST(Recipe, ComesBack) {
  const std::string text = to_json(calibrated());
  EXPECT_EQ(to_json(recipe_from_json(text, "a.ipuexe")), text);
}

TEST(Recipe, DamageIsABadFileThatIsNamed) {
  const auto refusal = [](const char* key, const nlohmann::json& value) {
    nlohmann::json j = nlohmann::json::parse(to_json(calibrated()));
    j[key] = value;
    try {
      recipe_from_json(j.dump(), "a.ipuexe");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File) << key;
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  using testing::AllOf;
  using testing::HasSubstr;
  using testing::Not;
  EXPECT_THAT(refusal("fp8_scale", 99), AllOf(HasSubstr("a.ipuexe"), HasSubstr("an FP8 scale of 99")));
  EXPECT_THAT(refusal("fp8_scales", {{"embedding", -17}}), HasSubstr("an FP8 scale of -17"));
  EXPECT_THAT(refusal("calibration_sha256", "\x1b[2J\nabc"),
              AllOf(HasSubstr("a digest that is none"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(refusal("onnx_sha256", std::string(63, 'a')), HasSubstr("a digest that is none"));
  EXPECT_THAT(refusal("tiles", "many"), AllOf(HasSubstr("a.ipuexe"), HasSubstr("damaged")));
}

}  // namespace
}  // namespace tw::tools
