// The written form: columns instead of objects where there are many entries (docs/report.md).
#include <nlohmann/json.hpp>

#include <functional>
#include <map>

#include "base/version.h"
#include "report/report.h"

namespace tw::report {
namespace {
using json = nlohmann::ordered_json;

template <class Rows, class Value>
json column(const Rows& rows, Value value) {
  json out = json::array();
  for (const auto& row : rows) out.push_back(std::invoke(value, row));
  return out;
}

json buffers_json(const std::vector<Buffer>& b) {
  return {{"tensor", column(b, &Buffer::tensor)},
          {"address", column(b, &Buffer::address)},
          {"bytes", column(b, &Buffer::bytes)},
          {"taken", column(b, &Buffer::taken)},
          {"first", column(b, &Buffer::first)},
          {"last", column(b, &Buffer::last)},
          {"interleaved", column(b, [](const Buffer& x) { return x.interleaved ? 1 : 0; })}};
}

json tiles_json(const std::vector<Tile>& t) {
  return {{"logical", column(t, &Tile::logical)},
          {"list", column(t, &Tile::list)},
          {"peak_bytes", column(t, &Tile::peak_bytes)},
          {"peak_step", column(t, &Tile::peak_step)},
          {"peak_standard_bytes", column(t, &Tile::peak_standard)},
          {"peak_interleaved_bytes", column(t, &Tile::peak_interleaved)},
          {"resident_bytes", column(t, &Tile::resident_bytes)},
          {"free_bytes", column(t, &Tile::free_bytes)},
          {"largest_hole_bytes", column(t, &Tile::largest_hole)},
          {"holes", column(t, &Tile::holes)},
          {"table_bytes", column(t, &Tile::table_bytes)},
          {"program_bytes", column(t, &Tile::program_bytes)},
          {"messages", column(t, &Tile::messages)},
          {"windows", column(t, &Tile::windows)},
          {"words", column(t, &Tile::words)},
          {"kernel_cycles", column(t, &Tile::kernel_cycles)},
          {"row_cycles", column(t, &Tile::row_cycles)}};
}

json phases_json(const std::vector<Phase>& p) {
  return {{"step", column(p, &Phase::step)},
          {"iterations", column(p, &Phase::iterations)},
          {"horizon", column(p, &Phase::horizon)},
          {"horizon_tile", column(p, &Phase::horizon_tile)},
          {"tiles", column(p, &Phase::tiles)},
          {"row_bytes_max", column(p, &Phase::row_bytes_max)},
          {"messages", column(p, &Phase::messages)},
          {"windows", column(p, &Phase::windows)},
          {"words", column(p, &Phase::words)},
          {"exchange_cycles", column(p, &Phase::exchange_cycles)},
          {"kernel_cycles_max", column(p, &Phase::kernel_cycles_max)},
          {"kernel_cycles_mean", column(p, &Phase::kernel_cycles_mean)},
          {"kernel_tile", column(p, &Phase::kernel_tile)}};
}

const char* kind_name(package::StepKind kind) {
  switch (kind) {
    case package::StepKind::Compute:
      return "compute";
    case package::StepKind::Exchange:
      return "exchange";
    case package::StepKind::RepeatBegin:
      return "repeat begin";
    case package::StepKind::RepeatEnd:
      return "repeat end";
    case package::StepKind::Checkpoint:
      return "checkpoint";
  }
  return "";
}

json steps_json(const std::vector<package::Step>& steps) {
  json paths = json::array(), path = json::array();
  std::map<std::string, std::size_t> index;
  for (const package::Step& s : steps) {
    const auto [it, fresh] = index.try_emplace(s.name, paths.size());
    if (fresh) paths.push_back(s.name);
    path.push_back(it->second);
  }
  return {{"paths", paths},
          {"path", path},
          {"kind", column(steps, [](const package::Step& s) { return kind_name(s.kind); })},
          {"count", column(steps, &package::Step::count)}};
}

json device_json(const Device& d) {
  return {{"name", d.name},
          {"clock_hz", d.clock_hz},
          {"memory_base", d.memory_base},
          {"memory_end", d.memory_end},
          {"interleaved_base", d.interleaved_base},
          {"aperture_begin", d.aperture_begin},
          {"aperture_end", d.aperture_end},
          {"element_bytes", d.element_bytes},
          {"pair_bytes", d.pair_bytes},
          {"phase_constant", d.phase_constant}};
}

}  // namespace

std::string to_json(const Report& r) {
  json j = {{"schema_version", 1},
            {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}}};
  const json summary = json::parse(r.summary_json, nullptr, false);
  j["compile"] = summary.is_object() ? summary : json(nullptr);
  json& out = j["report"];
  out["package"] = {{"file", r.file}, {"bytes", r.file_bytes}};
  out["device"] = device_json(r.device);
  out["steps"] = steps_json(r.steps);
  out["tensors"] = r.tensors;
  out["lists"] = column(r.lists, buffers_json);
  out["tiles"] = tiles_json(r.tiles);
  out["fullest"] = {{"bytes", column(r.fullest, &Fullest::bytes)},
                    {"tile", column(r.fullest, &Fullest::tile)},
                    {"standard_bytes", column(r.fullest, &Fullest::standard)},
                    {"interleaved_bytes", column(r.fullest, &Fullest::interleaved)}};
  out["phases"] = phases_json(r.phases);
  out["kernel_cycles_after"] = r.kernel_cycles_after;
  out["areas"] = {{"name", column(r.areas, &Area::name)},
                  {"kind", column(r.areas, &Area::kind)},
                  {"begin", column(r.areas, &Area::begin)},
                  {"end", column(r.areas, &Area::end)}};
  // Texts of a damaged package may not be UTF-8.
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tw::report
