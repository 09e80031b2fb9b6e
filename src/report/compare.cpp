#include "report/compare.h"

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/report.h"

namespace tw::report {
namespace {
using json = nlohmann::json;

constexpr std::uint64_t kAny = UINT64_MAX;

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  json parse(const std::string& text) const {
    try {
      return json::parse(text);
    } catch (const json::parse_error& e) {
      fail(fmt::format("no whole JSON text: error at byte {}", e.byte));
    } catch (const json::exception&) {
      fail("a number of it is too large");
    }
  }

  void report(const json& j) const {
    if (!j.is_object() || !j.contains("schema_version") || !j.contains("report"))
      fail("no report of tilewright: 'schema_version' or 'report' is missing");
    if (j["schema_version"] != kSchemaVersion)
      fail(fmt::format("report of schema version {}, this program reads version {}",
                       j["schema_version"].dump().substr(0, 20), kSchemaVersion));
    tool(j);
    const json& r = object(j, "report");
    figures(r);
    const std::size_t steps = steps_of(r);
    const std::size_t tiles = tiles_of(r, lists_of(r, steps));
    const json& fullest = object(r, "fullest");
    numbers(fullest, "bytes", steps + 1);
    numbers(fullest, "tile", steps + 1, tiles);
    const std::size_t phases = phases_of(r, steps, tiles);
    if (r.contains("kernels")) kernels_of(object(r, "kernels"), phases);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::File, fmt::format("{}: {}", name_, what));
  }
  void require(bool good, const char* key) const {
    if (!good) fail(fmt::format("damaged report: '{}' is missing or of the wrong form", key));
  }
  const json& object(const json& parent, const char* key) const {
    require(parent.contains(key) && parent[key].is_object(), key);
    return parent[key];
  }
  const json& list(const json& parent, const char* key, std::size_t size = kAny) const {
    require(parent.contains(key) && parent[key].is_array() && (size == kAny || parent[key].size() == size),
            key);
    return parent[key];
  }
  std::size_t texts(const json& parent, const char* key, std::size_t size = kAny) const {
    for (const json& x : list(parent, key, size)) require(x.is_string(), key);
    return parent[key].size();
  }
  // `below`: of indexes.
  std::size_t numbers(const json& parent, const char* key, std::size_t size = kAny,
                      std::uint64_t below = kAny) const {
    for (const json& x : list(parent, key, size))
      require(below == kAny ? x.is_number() : x.is_number_unsigned() && x.get<std::uint64_t>() < below, key);
    return parent[key].size();
  }
  void all_numbers(const json& parent, std::initializer_list<const char*> keys, std::size_t size) const {
    for (const char* key : keys) numbers(parent, key, size);
  }

  void tool(const json& j) const {
    for (const char* key : {"name", "version", "commit"}) {
      const json& tool = object(j, "tool");
      require(tool.contains(key) && tool[key].is_string(), "tool");
    }
  }
  void figures(const json& r) const {
    const json& package = object(r, "package");
    require(package.contains("file") && package["file"].is_string(), "package");
    require(package.contains("bytes") && package["bytes"].is_number(), "package");
    const json& device = object(r, "device");
    require(device.contains("clock_hz") && device["clock_hz"].is_number(), "device");
    for (const char* key : {"kernel_cycles_after", "cycles", "cycles_after"})
      require(!r.contains(key) || r[key].is_number(), key);
  }
  std::size_t steps_of(const json& r) const {
    const json& steps = object(r, "steps");
    const std::size_t paths = texts(steps, "paths"), size = numbers(steps, "path", kAny, paths);
    texts(steps, "kind", size);
    numbers(steps, "count", size);
    return size;
  }
  std::size_t lists_of(const json& r, std::size_t steps) const {
    const std::size_t tensors = texts(r, "tensors");
    for (const json& l : list(r, "lists")) {
      require(l.is_object(), "lists");
      const std::size_t size = numbers(l, "tensor", kAny, tensors);
      numbers(l, "first", size, steps + 1);
      numbers(l, "last", size, steps + 1);
      all_numbers(l, {"address", "bytes", "taken", "interleaved"}, size);
    }
    return r["lists"].size();
  }
  std::size_t tiles_of(const json& r, std::size_t lists) const {
    const json& tiles = object(r, "tiles");
    const std::size_t size = numbers(tiles, "list", kAny, lists);
    require(size > 0, "list");
    all_numbers(
        tiles,
        {"logical", "peak_bytes", "peak_step", "resident_bytes", "free_bytes", "largest_hole_bytes",
         "table_bytes", "program_bytes", "messages", "windows", "words", "kernel_cycles", "row_cycles"},
        size);
    return size;
  }
  std::size_t phases_of(const json& r, std::size_t steps, std::size_t tiles) const {
    const json& phases = object(r, "phases");
    const std::size_t size = numbers(phases, "step", kAny, steps + 1);
    for (const json& step : phases["step"]) require(step != 0, "step");
    numbers(phases, "horizon_tile", size, tiles);
    all_numbers(phases, {"iterations", "horizon", "words", "exchange_cycles", "kernel_cycles_max"}, size);
    if (phases.contains("before_cycles")) numbers(phases, "before_cycles", size);
    return size;
  }
  void kernels_of(const json& k, std::size_t phases) const {
    const std::size_t names = texts(k, "names");
    numbers(k, "peak_macs", names);
    const std::size_t size = numbers(k, "kernel", kAny, names);
    numbers(k, "phase", size, phases + 1);
    all_numbers(k, {"calls", "cycles", "macs"}, size);
  }

  const std::string& name_;
};

}  // namespace

std::string comparable(const std::string& text, const std::string& name) {
  const Reader reader(name);
  json j = reader.parse(text);
  reader.report(j);
  j["report"].erase("exchange");
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tw::report
