#include "import/fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <span>

#include "base/parallel.h"
#include "base/sha256.h"
#include "import/files.h"
#include "import/json-inl.h"
#include "import/problems.h"

namespace tw::import {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 24;
constexpr std::uint64_t kBlock = 1 << 20;  // elements

// A tensor whose file has the right size: its values are still to be looked at.
struct Pending {
  FixtureTensor tensor;
  std::string label;   // what a message calls it
  std::string sha256;  // that it must have; empty: any
  bool parameter = false;
};

std::string label_of(const std::string& tensor, const std::string& file) {
  return fmt::format("{} in {}", tensor, in_quotes(file));
}

class Reader {
 public:
  Reader(const fs::path& folder, const FixtureNeeds& needs) : folder_(folder), needs_(needs) {
    out_.manifest = folder / kFixtureManifest;
  }

  void read_manifest() {
    std::error_code code;
    if (!fs::is_directory(folder_, code)) refuse(folder_, {"no such folder"});
    const json root =
        parse_json(read_limited(out_.manifest, kMostBytes), out_.manifest, kMostBytes, problems_);
    if (!root.is_object()) refuse(out_.manifest, {"is no JSON object"});
    if (const json* parameters = member(root, "", "parameters", json::value_t::object))
      out_.parameters = tensors(*parameters, "", needs_.parameters, "parameter of the model", true);
    if (!needs_.cases) return;
    if (const json* cases = member(root, "", "cases", json::value_t::array)) read_cases(*cases);
  }

  void check_values(unsigned threads) {
    std::vector<std::string> wrong(pending_.size());
    std::vector<ValueScan> scans(pending_.size());
    parallel_for(pending_.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) wrong[n] = digest_problem(pending_[n], scans[n]);
    });
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      const std::string& label = pending_[n].label;
      if (const std::string bad = scans[n].problem(); !bad.empty())
        problem(fmt::format("{} {} at byte {}", label, bad, 4 * scans[n].first_bad));
      if (!wrong[n].empty()) problem(fmt::format("{} {}", label, wrong[n]));
      if (pending_[n].parameter) out_.scan.add(scans[n], pending_[n].tensor.tensor.name);
    }
  }

  Fixture finish() {
    if (!problems_.empty()) refuse(out_.manifest, problems_);
    return std::move(out_);
  }

 private:
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  // A member of the right type, or nothing and a problem. `owner`: "" or "NAME: ".
  const json* member(const json& object, const std::string& owner, const char* key, json::value_t type) {
    const auto found = object.find(key);
    if (found == object.end()) {
      problem(fmt::format("{}\"{}\" is missing", owner, key));
    } else if (found->type() != type) {
      const char* expected = type == json::value_t::object  ? "an object"
                             : type == json::value_t::array ? "a list"
                                                            : "a string";
      problem(fmt::format("{}\"{}\" is {}, not {}", owner, key, text_of(*found), expected));
    } else {
      return &*found;
    }
    return nullptr;
  }

  std::map<std::string, FixtureTensor> tensors(const json& entries, const std::string& owner,
                                               const std::vector<Parameter>& needs, const char* kind,
                                               bool parameter) {
    std::map<std::string, FixtureTensor> out;
    std::set<std::string> known;
    for (const Parameter& need : needs) {
      known.insert(need.name);
      const auto found = entries.find(need.name);
      if (found == entries.end())
        problem(fmt::format("{}{} is missing", owner, in_quotes(need.name)));
      else if (auto read = tensor(*found, owner, in_quotes(need.name), need, parameter))
        out.emplace(need.name, std::move(*read));
    }
    for (const auto& [name, entry] : entries.items())
      if (!known.contains(name)) problem(fmt::format("{}{} is no {}", owner, in_quotes(name), kind));
    return out;
  }

  std::optional<FixtureTensor> tensor(const json& entry, const std::string& owner, const std::string& what,
                                      const Parameter& need, bool parameter) {
    const std::string name = owner + what;
    if (!entry.is_object()) {
      problem(fmt::format("{} is {}, not an object with \"file\" and \"shape\"", name, text_of(entry)));
      return {};
    }
    Pending read;
    read.label = name;
    read.parameter = parameter;
    read.tensor.tensor.name = need.name;
    const std::size_t before = problems_.size();
    const bool has_size = shape(entry, name, need.shape, read.tensor.tensor);
    digest(entry, name, parameter, read.sha256);
    file(entry, name, has_size, read);
    if (problems_.size() != before) return {};
    pending_.push_back(read);
    return read.tensor;
  }

  // Returns whether the extents have a product, whatever the model needs.
  bool shape(const json& entry, const std::string& name, const tensor::Shape& need, StoredTensor& out) {
    const json* list = member(entry, name + ": ", "shape", json::value_t::array);
    if (list == nullptr) return false;
    if (!std::ranges::all_of(*list, [](const json& extent) { return extent.is_number_unsigned(); })) {
      problem(fmt::format("{}: \"shape\" is {}, not a list of whole numbers", name, text_of(*list)));
      return false;
    }
    out.dtype = Dtype::F32;
    out.shape = list->get<std::vector<std::uint64_t>>();
    Size size;
    const std::string why = size_problem(out.shape, Dtype::F32, size);
    out.elements = size.elements;
    if (!why.empty())
      problem(fmt::format("{}: {}", name, why));
    else if (!std::ranges::equal(out.shape, need))
      problem(
          fmt::format("{} has shape {}, expected [{}]", name, shape_text(out.shape), fmt::join(need, ",")));
    return why.empty();
  }

  void digest(const json& entry, const std::string& name, bool required, std::string& out) {
    if (!required && !entry.contains("sha256")) return;
    const json* text = member(entry, name + ": ", "sha256", json::value_t::string);
    if (text == nullptr) return;
    out = text->get<std::string>();
    std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c; });
    if (out.size() != 64 || out.find_first_not_of("0123456789abcdef") != std::string::npos)
      problem(fmt::format("{}: \"sha256\" is {}, not 64 hexadecimal digits", name, text_of(*text)));
  }

  void file(const json& entry, const std::string& name, bool has_size, Pending& read) {
    const json* text = member(entry, name + ": ", "file", json::value_t::string);
    if (text == nullptr) return;
    const auto stored = text->get<std::string>();
    if (const std::string why = path_problem(stored, "the fixture's folder"); !why.empty())
      return problem(fmt::format("{}: {}", name, why));
    read.label = label_of(name, stored);
    std::error_code code;
    const fs::path path = folder_ / stored;
    if (!fs::is_regular_file(path, code)) return problem(fmt::format("{}: no such file", read.label));
    if (!stands_inside(path, folder_))
      return problem(fmt::format("{}: a symbolic link leads out of the fixture's folder", read.label));
    read.tensor.file = fs::canonical(path, code);
    const std::uint64_t bytes = fs::file_size(path, code);
    if (code || !std::ifstream(path, std::ios::binary))
      return problem(fmt::format("{}: the file cannot be read", read.label));
    if (has_size && bytes != 4 * read.tensor.tensor.elements)
      problem(fmt::format("{}: the file has {} bytes, shape {} needs {}", read.label, bytes,
                          shape_text(read.tensor.tensor.shape), 4 * read.tensor.tensor.elements));
  }

  void read_cases(const json& cases) {
    const FixtureNeeds::Cases& needs = *needs_.cases;
    if (cases.size() != needs.count)
      problem(
          fmt::format("\"cases\" holds {}, but {} inference calls are asked for", cases.size(), needs.count));
    std::set<std::string> names;
    for (std::size_t c = 0; c < cases.size(); ++c) {
      std::string owner = fmt::format("case {}", c);
      if (!cases[c].is_object()) {
        problem(fmt::format("{} is {}, not an object", owner, text_of(cases[c])));
        continue;
      }
      FixtureCase read;
      if (const json* name = member(cases[c], owner + ": ", "name", json::value_t::string)) {
        read.name = name->get<std::string>();
        owner += " " + in_quotes(read.name);
        if (!names.insert(read.name).second) problem(owner + ": the name of an earlier case");
      }
      owner += ": ";
      if (const json* inputs = member(cases[c], owner, "inputs", json::value_t::object))
        read.inputs = tensors(*inputs, owner, needs.inputs, "input of the model", false);
      if (const auto expected = cases[c].find("expected"); expected == cases[c].end())
        problem(owner + "\"expected\" is missing");
      else if (auto tensor =
                   this->tensor(*expected, owner, "\"expected\"", {"expected", needs.expected}, false))
        read.expected = std::move(*tensor);
      out_.cases.push_back(std::move(read));
    }
  }

  // Reads the whole file once.
  std::string digest_problem(const Pending& p, ValueScan& scan) const {
    Sha256 digest;
    for (std::uint64_t at = 0; at < p.tensor.tensor.elements; at += kBlock) {
      const std::uint64_t count = std::min(kBlock, p.tensor.tensor.elements - at);
      const std::vector<float> values = read_values(p.tensor.file, p.tensor.tensor, at, count);
      scan.add(values);
      digest.add(std::as_bytes(std::span(values)));  // little-endian here as in the file
    }
    const std::string found = digest.finish();
    if (p.sha256.empty() || p.sha256 == found) return "";
    return fmt::format("has SHA-256 {}, expected {}", found, p.sha256);
  }

  const fs::path folder_;
  const FixtureNeeds& needs_;
  Fixture out_;
  std::vector<std::string> problems_;
  std::vector<Pending> pending_;
};

}  // namespace

Fixture open_fixture(const fs::path& folder, const FixtureNeeds& needs, FixtureValues values,
                     unsigned threads) {
  Reader reader(folder, needs);
  reader.read_manifest();
  if (values == FixtureValues::Checked) reader.check_values(threads);
  return reader.finish();
}

std::vector<float> values_of(const FixtureTensor& tensor) {
  return read_values(tensor.file, tensor.tensor, 0, tensor.tensor.elements);
}

}  // namespace tw::import
