#include "import/calibration.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "import/json-inl.h"
#include "import/problems.h"
#include "tensor/role.h"

namespace tw::import {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kLeast = -16, kMost = 15;  // the sum of both operands' scales has six bits (models.md A.1.1)

class Reader {
 public:
  Reader(const std::filesystem::path& file, const std::set<std::string>& roles)
      : file_(file), roles_(roles) {}

  Calibration read(const std::string& text) {
    const json root = parse_json(text, file_, kMostBytes, problems_);
    if (!root.is_object()) refuse(file_, {"is no JSON object"});
    if (!flag(root, "shared_operand_scale").value_or(true))
      problem("\"shared_operand_scale\" is false: unequal operand scales are not built");
    if (flag(root, "fp16_embedding").value_or(false)) out_.fp16.insert(tensor::kEmbeddingRole);
    if (root.contains("fp16")) fp16(root["fp16"]);
    if (root.contains("nearest") && !root["nearest"].is_array()) problem("\"nearest\" is no array");
    if (!root.contains("scales")) {
      problem("\"scales\" is missing");
    } else if (!root["scales"].is_object()) {
      problem("\"scales\" is no object");
    } else {
      scales(root["scales"]);
    }
    if (!problems_.empty()) refuse(file_, problems_);
    return std::move(out_);
  }

 private:
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  std::optional<bool> flag(const json& root, const char* key) {
    if (!root.contains(key)) {
      problem(fmt::format("\"{}\" is missing", key));
    } else if (!root[key].is_boolean()) {
      problem(fmt::format("\"{}\" is {}, not true or false", key, text_of(root[key])));
    } else {
      return root[key].get<bool>();
    }
    return {};
  }

  void fp16(const json& entries) {
    if (!entries.is_array()) return problem("\"fp16\" is no array");
    for (const json& entry : entries) {
      const std::string role = entry.is_string() ? tensor::role_of(entry.get<std::string>()) : "";
      if (roles_.contains(role))
        out_.fp16.insert(role);
      else
        problem(fmt::format("\"fp16\": {} is no role of the model", text_of(entry)));
    }
  }

  void scales(const json& entries) {
    std::set<std::string> named;  // also with a value that is wrong
    for (const auto& [key, entry] : entries.items()) {
      const std::string role = tensor::role_of(key);
      named.insert(role);
      if (!roles_.contains(role)) {
        problem(fmt::format("{} is no role of the model", in_quotes(key)));
        continue;
      }
      const std::optional<int> scale = shared_scale(key, entry);
      if (!scale) continue;
      const auto [known, fresh] = out_.scales.try_emplace(role, *scale);
      if (!fresh && known->second != *scale)
        problem(fmt::format("{} has scale {}, another layer {}: the layers of a role must agree",
                            in_quotes(key), *scale, known->second));
    }
    for (const std::string& role : roles_) {
      if (out_.fp16.contains(role))
        out_.scales.erase(role);
      else if (!named.contains(role))
        problem(fmt::format("{} is missing in \"scales\"", in_quotes(role)));
    }
  }

  std::optional<int> shared_scale(const std::string& key, const json& entry) {
    if (!entry.is_object()) {
      problem(fmt::format("{} is {}, not an object with \"activation\" and \"weight\"", in_quotes(key),
                          text_of(entry)));
      return {};
    }
    const std::optional<int> activation = scale(key, entry, "activation"),
                             weight = scale(key, entry, "weight");
    if (!activation || !weight) return {};
    if (*activation != *weight) {
      problem(fmt::format("{}: activation {} and weight {}: unequal operand scales are not built",
                          in_quotes(key), *activation, *weight));
      return {};
    }
    return activation;
  }

  std::optional<int> scale(const std::string& key, const json& entry, const char* operand) {
    if (!entry.contains(operand)) {
      problem(fmt::format("{} has no \"{}\"", in_quotes(key), operand));
      return {};
    }
    const json& value = entry[operand];
    if (!value.is_number_integer()) {
      problem(fmt::format("{}: {} is {}, not an integer", in_quotes(key), operand, text_of(value)));
      return {};
    }
    const bool inside = value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t{kMost}
                                                   : value.get<std::int64_t>() >= kLeast;
    if (!inside) {
      problem(fmt::format("{}: {} is {}, outside {}..{}", in_quotes(key), operand, text_of(value), kLeast,
                          kMost));
      return {};
    }
    return value.get<int>();
  }

  const std::filesystem::path& file_;
  const std::set<std::string>& roles_;
  Calibration out_;
  std::vector<std::string> problems_;
};

}  // namespace

Calibration calibration_from_json(const std::string& text, const std::filesystem::path& file,
                                  const std::set<std::string>& roles) {
  return Reader(file, roles).read(text);
}

std::string to_json(const Calibration& calibration) {
  nlohmann::ordered_json j;
  std::set<std::string> fp16 = calibration.fp16;
  j["shared_operand_scale"] = true;
  j["fp16_embedding"] = fp16.erase(tensor::kEmbeddingRole) > 0;
  if (!fp16.empty()) j["fp16"] = fp16;
  j["scales"] = json::object();
  for (const auto& [role, scale] : calibration.scales)
    j["scales"][role] = {{"activation", scale}, {"weight", scale}};
  j["nearest"] = json::array();
  return j.dump(2) + "\n";
}

}  // namespace tw::import
