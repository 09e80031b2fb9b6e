#include "import/checkpoint.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "import/files.h"
#include "import/problems.h"

namespace tw::import {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxIndex = 100'000'000;  // as a header's limit

// The pairs (tensor, file) of "weight_map"; whatever else the index holds is passed over.
class IndexReader : public nlohmann::json_sax<json> {
 public:
  std::vector<std::pair<std::string, std::string>> map;
  std::string problem;
  bool has_map = false;

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (!in_map()) return other();
    map.back().second = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (std::exchange(has_map, true)) return fail("\"weight_map\" is there twice");
    } else if (depth_ > 0 && !other()) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    if (!other()) return false;
    ++depth_;
    return true;
  }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) key_ = name;
    if (!in_map()) return true;
    if (!names_.insert(name).second) return fail(fmt::format("\"{}\" is there twice", printable(name)));
    map.emplace_back(name, "");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return fail(fmt::format("is no UTF-8 JSON at byte {}", position > 0 ? position - 1 : 0));
  }

 private:
  bool in_map() const { return depth_ == 2 && key_ == "weight_map"; }
  bool leave() {
    --depth_;
    return true;
  }
  bool fail(std::string text) {
    if (problem.empty()) problem = std::move(text);
    return false;
  }
  // A value that is no file name.
  bool other() {
    if (depth_ == 0) return fail("is no JSON object");
    if (depth_ == 1 && key_ == "weight_map") return fail("\"weight_map\" is no object");
    if (in_map()) return fail(fmt::format("\"{}\" names no file", printable(map.back().first)));
    return true;
  }

  std::uint64_t depth_ = 0;
  std::string key_;  // of the outermost object
  std::set<std::string> names_;
};

std::vector<std::pair<std::string, std::string>> read_index(const fs::path& file) {
  const std::string text = read_limited(file, kMaxIndex);
  IndexReader reader;
  if (!json::sax_parse(text, &reader) || !reader.problem.empty()) refuse(file, {reader.problem});
  if (!reader.has_map) refuse(file, {"has no \"weight_map\""});
  return std::move(reader.map);
}

Checkpoint open_file(const fs::path& path, const fs::path& file) {
  Checkpoint out{path, {read_safetensors(file)}, {}};
  for (std::size_t t = 0; t < out.files[0].tensors.size(); ++t)
    out.tensors[out.files[0].tensors[t].name] = {0, t};
  return out;
}

Checkpoint open_index(const fs::path& path, const fs::path& index) {
  const auto map = read_index(index);
  std::vector<std::string> problems;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map) {
    if (const std::string why = path_problem(shard, "the index's folder"); !why.empty())
      problems.push_back(fmt::format("\"{}\": {}", printable(tensor), why));
    else
      shards.insert(shard);
  }
  if (!problems.empty()) refuse(index, problems);

  Checkpoint out{path, {}, {}};
  std::map<std::string, std::map<std::string, Place>> found;  // by shard, then tensor
  for (const std::string& shard : shards) {
    const std::size_t f = out.files.size();
    out.files.push_back(read_safetensors(index.parent_path() / shard));
    for (std::size_t t = 0; t < out.files[f].tensors.size(); ++t)
      found[shard][out.files[f].tensors[t].name] = {f, t};
  }
  for (const auto& [tensor, shard] : map) {
    auto place = found[shard].extract(tensor);
    if (place.empty())
      problems.push_back(fmt::format("\"{}\" is not in {}", printable(tensor), printable(shard)));
    else
      out.tensors[tensor] = place.mapped();
  }
  for (const auto& [shard, rest] : found)
    for (const auto& [tensor, place] : rest)
      problems.push_back(
          fmt::format("\"{}\" is in {}, but the index does not say so", printable(tensor), printable(shard)));
  if (!problems.empty()) refuse(index, problems);
  return out;
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& path) {
  std::error_code code;
  if (!fs::is_directory(path, code))
    return path.extension() == ".json" ? open_index(path, path) : open_file(path, path);
  const fs::path single = path / "model.safetensors", index = path / "model.safetensors.index.json";
  if (fs::is_regular_file(single, code)) return open_file(path, single);
  if (fs::is_regular_file(index, code)) return open_index(path, index);
  refuse(path, {"the folder holds neither model.safetensors nor model.safetensors.index.json"});
}

}  // namespace tw::import
