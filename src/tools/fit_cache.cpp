#include "tools/fit_cache.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/digest.h"
#include "base/sha256.h"
#include "tools/files.h"

namespace tw::tools {
namespace {
namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr auto kKept = std::chrono::hours(24 * 30);

fs::path user_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return fs::path(cache) / "tilewright" / "fit";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return fs::path(home) / ".cache" / "tilewright" / "fit";
  return {};
}

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in.is_open() || !(text << in.rdbuf())) return std::nullopt;
  return text.str();
}

void remove_old(const fs::path& folder) {
  std::error_code ignored;
  const auto oldest = fs::file_time_type::clock::now() - kKept;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".json" && entry.last_write_time(ignored) < oldest)
      fs::remove(entry.path(), ignored);
  }
}

std::optional<ErrorKind> kind_of(const std::string& name) {
  for (int k = 0; k <= static_cast<int>(ErrorKind::DeviceFault); ++k) {
    if (name == kind_name(static_cast<ErrorKind>(k))) return static_cast<ErrorKind>(k);
  }
  return std::nullopt;
}

}  // namespace

FitCache::FitCache(const std::string& folder, bool enabled) {
  if (!enabled) return;
  program_ = sha256_of("/proc/self/exe");
  folder_ = folder.empty() ? user_folder() : fs::path(folder);
  if (!folder_.empty()) remove_old(folder_);
}

std::string FitCache::key(const std::string& device, const Recipe& recipe) const {
  return json{{"program", program_}, {"device", device}, {"recipe", json::parse(to_json(recipe))}}.dump();
}

fs::path FitCache::file(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.json", xxh3_64(key));
}

std::optional<FitAttempt> FitCache::find(const std::string& device, const Recipe& recipe) const {
  if (folder_.empty()) return std::nullopt;
  const std::string wanted = key(device, recipe);
  const auto text = text_of(file(wanted));
  if (!text) return std::nullopt;
  try {
    const json j = json::parse(*text);
    if (j.at("key").get<std::string>() != wanted) return std::nullopt;
    const json& result = j.at("result");
    if (j.at("digest").get<std::uint64_t>() != xxh3_64(result.dump())) return std::nullopt;
    FitAttempt attempt{.policy = recipe.policy,
                       .refused = std::nullopt,
                       .result = result.dump(),
                       .seconds = j.at("seconds").get<double>(),
                       .cached = true};
    if (!j.at("fits").get<bool>()) {
      attempt.refused = kind_of(result.at("kind").get<std::string>());
      if (!attempt.refused) return std::nullopt;
    }
    return attempt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void FitCache::keep(const std::string& device, const Recipe& recipe, const FitAttempt& attempt) {
  if (folder_.empty()) return;
  const std::string full = key(device, recipe);
  const json result = json::parse(attempt.result);
  const json j = {{"key", full},
                  {"fits", !attempt.refused.has_value()},
                  {"seconds", attempt.seconds},
                  {"digest", xxh3_64(result.dump())},
                  {"result", result}};
  const std::lock_guard lock(writing_);
  if (!writable_) return;
  try {
    make_parents(file(full));
    write_text(j.dump() + "\n", file(full).string());
  } catch (const Error& e) {
    spdlog::warn("fit results are not kept: {}", e.what());
    writable_ = false;
  }
}

}  // namespace tw::tools
