// The written form: columns instead of objects where there are many entries (docs/report.md).
#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <span>
#include <utility>

#include "base/version.h"
#include "kernel/macs.h"
#include "report/report.h"
#include "target/topology.h"

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
          {"interleaved", column(b, [](const Buffer& x) { return x.interleaved ? 1 : 0; })},
          {"parameter", column(b, [](const Buffer& x) { return x.parameter ? 1 : 0; })}};
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
          {"bound", column(p, &Phase::bound)},
          {"bound_tile", column(p, &Phase::bound_tile)},
          {"tiles", column(p, &Phase::tiles)},
          {"row_bytes_max", column(p, &Phase::row_bytes_max)},
          {"messages", column(p, &Phase::messages)},
          {"windows", column(p, &Phase::windows)},
          {"words", column(p, &Phase::words)},
          {"exchange_cycles", column(p, &Phase::exchange_cycles)},
          {"kernel_cycles_max", column(p, &Phase::kernel_cycles_max)},
          {"kernel_cycles_mean", column(p, &Phase::kernel_cycles_mean)},
          {"kernel_tile", column(p, &Phase::kernel_tile)},
          {"before_cycles", column(p, &Phase::before_cycles)}};
}

json kernels_json(const std::vector<KernelUse>& kernels) {
  std::map<std::uint16_t, std::size_t> index;
  json names = json::array(), peaks = json::array();
  for (const KernelUse& k : kernels) {
    const auto code = static_cast<kernel::Code>(k.code);
    if (!index.try_emplace(k.code, index.size()).second) continue;
    names.push_back(kernel::find(code)->name);
    peaks.push_back(kernel::peak_macs(code));
  }
  return {{"names", names},
          {"peak_macs", peaks},
          {"phase", column(kernels, &KernelUse::phase)},
          {"kernel", column(kernels, [&](const KernelUse& k) { return index.at(k.code); })},
          {"calls", column(kernels, &KernelUse::calls)},
          {"cycles", column(kernels, &KernelUse::cycles)},
          {"cycles_max", column(kernels, &KernelUse::cycles_max)},
          {"macs", column(kernels, &KernelUse::macs)}};
}

// Lists of numbers, each stored once.
class Lists {
 public:
  std::size_t add(std::vector<std::int64_t> list) {
    const auto [it, fresh] = index_.try_emplace(std::move(list), index_.size());
    if (fresh) all_.push_back(&it->first);
    return it->second;
  }
  json dump() const {
    return column(all_, [](const std::vector<std::int64_t>* list) { return json(*list); });
  }

 private:
  std::map<std::vector<std::int64_t>, std::size_t> index_;
  std::vector<const std::vector<std::int64_t>*> all_;
};

// What the tiles of each phase send and hear; windows as columns, equal columns once.
class ExchangeJson {
 public:
  explicit ExchangeJson(const Report& r) {
    for (std::size_t p = 0; p < r.phases.size(); ++p) phases_.push_back(phase(r, p));
  }
  json dump() const {
    return {{"gaps", gaps_.dump()},
            {"words", words_.dump()},
            {"sources", sources_.dump()},
            {"tensors", tensors_.dump()},
            {"phases", phases_}};
  }

 private:
  json phase(const Report& r, std::size_t p) {
    std::vector<std::uint32_t> tiles;
    for (std::uint32_t t = 0; t < r.rows.size(); ++t)
      if (r.rows[t][p].active()) tiles.push_back(t);
    auto of = [&](auto value) {
      return column(tiles, [&](std::uint32_t t) { return std::invoke(value, r.rows[t][p]); });
    };
    json out = {{"tile", tiles},
                {"events", of(&Row::events)},
                {"bytes", of(&Row::bytes)},
                {"messages", of(&Row::messages)},
                {"sent", of(&Row::sent)},
                {"gaps", json::array()},
                {"words", json::array()},
                {"sources", json::array()},
                {"tensors", json::array()}};
    for (const std::uint32_t t : tiles) add_windows(r.rows[t][p].windows, out);
    return out;
  }

  void add_windows(const std::vector<Window>& windows, json& out) {
    std::vector<std::int64_t> gaps, words, sources, tensors;
    std::int64_t end = 0, before = -2;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Window& w = windows[i];
      gaps.push_back(w.begin - std::exchange(end, std::int64_t{w.begin} + w.words));
      words.push_back(w.words);
      sources.push_back(w.source);
      const std::int64_t tensor = w.tensor == Window::kNoTensor ? -1 : std::int64_t{w.tensor};
      if (tensor == std::exchange(before, tensor)) continue;
      tensors.insert(tensors.end(), {static_cast<std::int64_t>(i), tensor});
    }
    out["gaps"].push_back(gaps_.add(std::move(gaps)));
    out["words"].push_back(words_.add(std::move(words)));
    out["sources"].push_back(sources_.add(std::move(sources)));
    out["tensors"].push_back(tensors_.add(std::move(tensors)));
  }

  Lists gaps_, words_, sources_, tensors_;
  json phases_ = json::array();
};

// Parts of a message's time from sender to receiver, per physical tile (target/topology.h).
json fabric_json(std::size_t tiles) {
  const std::span<const topology::FabricTile> fabric(topology::kFabric.data(),
                                                     std::min(tiles, topology::kFabric.size()));
  using F = topology::FabricTile;
  return {{"half", column(fabric, &F::half)},
          {"send_time_0", column(fabric, [](const F& f) { return f.send_time[0]; })},
          {"send_time_1", column(fabric, [](const F& f) { return f.send_time[1]; })},
          {"receive_time", column(fabric, &F::receive_time)},
          {"send_route", column(fabric, &F::send_route)},
          {"receive_route", column(fabric, &F::receive_route)}};
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
  json j = {{"schema_version", kSchemaVersion},
            {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}}};
  const json summary = json::parse(r.summary_json, nullptr, false);
  j["compile"] = summary.is_object() ? summary : json(nullptr);
  if (!r.error_json.empty()) j["error"] = json::parse(r.error_json);
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
  out["exchange"] = ExchangeJson(r).dump();
  out["fabric"] = fabric_json(r.tiles.size());
  out["kernels"] = kernels_json(r.kernels);
  out["cycles"] = r.cycles;
  out["cycles_after"] = r.cycles_after;
  out["kernel_cycles_after"] = r.kernel_cycles_after;
  out["areas"] = {{"name", column(r.areas, &Area::name)},
                  {"kind", column(r.areas, &Area::kind)},
                  {"begin", column(r.areas, &Area::begin)},
                  {"end", column(r.areas, &Area::end)}};
  // Texts of a damaged package may not be UTF-8.
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tw::report
