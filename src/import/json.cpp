#include <fmt/format.h>

#include <set>

#include "import/json-inl.h"
#include "import/problems.h"

namespace tw::import {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

// An object or list that is being read.
struct Open {
  bool list = false;
  std::size_t index = 0;  // of a list: the next value
  std::set<std::string> keys;
  std::string key;  // of an object: the latest
};

std::string path_of(const std::vector<Open>& open) {
  std::string path;
  for (const Open& o : open)
    path += (path.empty() ? "" : "/") + (o.list ? std::to_string(o.index) : in_quotes(o.key));
  return path;
}

}  // namespace

json parse_json(const std::string& text, const std::filesystem::path& file, std::size_t most_bytes,
                std::vector<std::string>& problems) {
  if (text.size() > most_bytes)
    refuse(file, {fmt::format("{} bytes are more than the limit of {}", text.size(), most_bytes)});
  std::vector<Open> open;
  const auto value_ends = [&] {
    if (!open.empty() && open.back().list) ++open.back().index;
  };
  const auto look = [&](int, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (open.size() == kDeepest) refuse(file, {"objects and lists are nested too deeply"});
        open.push_back({.list = event == json::parse_event_t::array_start, .keys = {}, .key = {}});
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        open.pop_back();
        value_ends();
        break;
      case json::parse_event_t::key:
        open.back().key = value.get<std::string>();
        if (!open.back().keys.insert(open.back().key).second)
          problems.push_back(fmt::format("the key {} comes twice", path_of(open)));
        break;
      case json::parse_event_t::value:
        value_ends();
        break;
    }
    return true;
  };
  try {
    return json::parse(text, look);
  } catch (const json::parse_error& e) {
    refuse(file, {fmt::format("is no JSON: error at byte {}", e.byte)});
  } catch (const json::exception&) {
    refuse(file, {"holds a number beyond every range"});
  }
}

std::string text_of(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace tw::import
