#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "report/memory.h"
#include "report/report.h"
#include "report/row.h"
#include "report/timeline.h"
#include "target/topology.h"

namespace tw::report {
namespace {

const package::Symbol& symbol(const package::Package& p, const std::string& name, const std::string& file) {
  const auto it = std::ranges::find(p.side.symbols, name, &package::Symbol::name);
  if (it == p.side.symbols.end())
    throw Error(ErrorKind::File, fmt::format("{}: the side section names no '{}'", file, name));
  return *it;
}

std::uint32_t bytes_at(const package::DeviceImage& image, const package::TileImage& tile,
                       std::uint32_t address) {
  const auto it = std::ranges::find(tile.segments, address, &package::Segment::address);
  return it == tile.segments.end() ? 0 : static_cast<std::uint32_t>(image.blobs[it->blob].size());
}

std::vector<Area> areas_of(const Device& d, const package::Symbol& program, const package::Symbol& rows) {
  const std::uint32_t rows_end = rows.address + rows.bytes;
  return {{"loader and launch words", "system", d.memory_base, d.aperture_begin},
          {"runtime state and stack", "system", d.aperture_end, d.data_base},
          {"runtime and kernels", "code", d.code_base, program.address},
          {"program", "program", program.address, rows.address},
          {"exchange table", "table", rows.address, rows_end},
          {"loader", "system", d.loader_end, d.memory_end}};
}

// Addresses of weights on each tile, ascending.
std::vector<std::vector<std::uint32_t>> weight_addresses(const package::DeviceImage& image) {
  std::vector<std::vector<std::uint32_t>> out(image.tiles.size());
  for (const package::Binding& b : image.bindings)
    if (b.kind == package::BindingKind::Weight)
      for (const package::Slice& s : b.slices) out[s.tile].push_back(s.address);
  for (auto& addresses : out) std::ranges::sort(addresses);
  return out;
}

bool holds_one(const std::vector<std::uint32_t>& addresses, const package::TensorPlace& t) {
  const auto it = std::ranges::lower_bound(addresses, t.address);
  return it != addresses.end() && *it - t.address < t.bytes;
}

// Tensor names in order of first use, buffers of each tile sorted, equal lists once.
void collect_buffers(const package::Package& p, Report& out) {
  std::unordered_map<std::string, std::uint32_t> index;
  std::vector<std::vector<Buffer>> of_tile(p.image.tiles.size());
  const auto steps = static_cast<std::uint32_t>(p.side.steps.size());
  const auto weights = weight_addresses(p.image);
  for (const package::TensorPlace& t : p.side.tensors) {
    const auto [it, fresh] = index.try_emplace(t.tensor, static_cast<std::uint32_t>(out.tensors.size()));
    if (fresh) out.tensors.push_back(t.tensor);
    const std::uint32_t last = std::min(t.last_step, steps);
    const std::uint32_t first = std::min(t.first_step, last);
    const bool parameter = first == 0 && last == steps && holds_one(weights[t.tile], t);
    of_tile[t.tile].push_back(
        {it->second, t.address, t.bytes, t.taken, first, last, t.interleaved, parameter});
  }
  std::map<std::vector<Buffer>, std::uint32_t> lists;
  for (std::size_t t = 0; t < of_tile.size(); ++t) {
    std::ranges::sort(of_tile[t], {},
                      [](const Buffer& b) { return std::tuple(b.address, b.first, b.tensor); });
    const auto [it, fresh] =
        lists.try_emplace(std::move(of_tile[t]), static_cast<std::uint32_t>(out.lists.size()));
    if (fresh) out.lists.push_back(it->first);
    out.tiles[t].list = it->second;
  }
}

void memory_figures(Report& out) {
  const std::size_t steps = out.steps.size();
  const Ranges ranges = tensor_ranges(out.device, out.areas);
  std::vector<std::vector<Live>> live;
  for (const auto& list : out.lists) live.push_back(live_bytes(list, steps));
  out.fullest.assign(steps + 1, {});
  for (std::uint32_t t = 0; t < out.tiles.size(); ++t) {
    Tile& tile = out.tiles[t];
    const auto& at = live[tile.list];
    const auto peak = std::ranges::max_element(at, {}, &Live::bytes);
    tile.peak_bytes = peak->bytes();
    tile.peak_standard = peak->standard;
    tile.peak_interleaved = peak->interleaved;
    tile.peak_step = static_cast<std::uint32_t>(peak - at.begin());
    for (const Buffer& b : out.lists[tile.list])
      tile.resident_bytes += b.first == 0 && b.last == steps ? b.taken : 0;
    const Holes holes = holes_at(out.lists[tile.list], tile.peak_step, ranges);
    tile.free_bytes = holes.bytes;
    tile.largest_hole = holes.largest;
    tile.holes = holes.count;
    for (std::size_t s = 0; s <= steps; ++s) {
      Fullest& f = out.fullest[s];
      if (at[s].bytes() > f.bytes) f.bytes = at[s].bytes(), f.tile = t;
      f.standard = std::max(f.standard, at[s].standard);
      f.interleaved = std::max(f.interleaved, at[s].interleaved);
    }
  }
}

void name_phases(Report& out) {
  std::uint32_t iterations = 1;
  for (std::uint32_t s = 0; s < out.steps.size(); ++s) {
    const package::Step& step = out.steps[s];
    if (step.kind == package::StepKind::RepeatBegin) iterations = std::max(step.count, 1U);
    if (step.kind == package::StepKind::RepeatEnd) iterations = 1;
    if (step.kind != package::StepKind::Exchange) continue;
    Phase& phase = out.phases.emplace_back();
    phase.step = s + 1;
    phase.iterations = iterations;
  }
}

// What is wrong with a row; empty: nothing.
std::string fault_of(const Row& row, std::size_t tiles) {
  for (const Window& w : row.windows)
    if (w.source >= tiles) return fmt::format("the mux turns to {:#x}, which is no tile", w.source);
  return row.fault;
}

void add_row(Phase& phase, Tile& tile, std::uint32_t t, const Row& row) {
  phase.tiles += row.active() ? 1 : 0;
  phase.messages += row.messages;
  phase.windows += row.windows.size();
  phase.words += row.sent;
  if (row.events > phase.horizon) phase.horizon = row.events, phase.horizon_tile = t;
  const std::uint64_t bound = std::max(row.sent, row.received);
  if (bound > phase.bound) phase.bound = bound, phase.bound_tile = t;
  if (row.active()) phase.row_bytes_max = std::max(phase.row_bytes_max, row.bytes);
  tile.messages += row.messages;
  tile.windows += row.windows.size();
  tile.words += row.sent;
  tile.row_cycles += std::uint64_t{row.events} * phase.iterations;
}

void add_tile(Report& out, std::uint32_t t, const TileCall& call) {
  Tile& tile = out.tiles[t];
  for (std::size_t p = 0; p < out.phases.size(); ++p) {
    Phase& phase = out.phases[p];
    const Row& row = call.rows[p];
    if (const std::string fault = fault_of(row, out.tiles.size()); !fault.empty())
      throw Error(ErrorKind::File,
                  fmt::format("{}: exchange row of phase {} on tile {}: {}", out.file, p, t, fault));
    add_row(phase, tile, t, row);
    const std::uint64_t cycles = call.kernel_cycles[p];
    if (cycles > phase.kernel_cycles_max) phase.kernel_cycles_max = cycles, phase.kernel_tile = t;
    phase.kernel_cycles_mean += static_cast<double>(cycles);
    tile.kernel_cycles += cycles;
  }
  tile.kernel_cycles += call.kernel_cycles.back();
  out.kernel_cycles_after = std::max(out.kernel_cycles_after, call.kernel_cycles.back());
}

void add_kernels(const std::vector<TileCall>& calls, Report& out) {
  std::map<std::pair<std::uint32_t, std::uint16_t>, KernelUse> all;
  for (const TileCall& call : calls) {
    for (const KernelUse& k : call.kernels) {
      KernelUse& use = all[{k.phase, k.code}];
      use.phase = k.phase;
      use.code = k.code;
      use.calls += k.calls;
      use.cycles += k.cycles;
      use.cycles_max = std::max(use.cycles_max, k.cycles);
      use.macs += k.macs;
    }
  }
  for (const auto& [key, use] : all) out.kernels.push_back(use);
}

// Cycles before a barrier without a phase count for the phase behind it.
void add_meetings(Report& out) {
  std::uint64_t before = 0;
  for (const Meeting& m : out.meetings) {
    out.cycles += m.cycles;
    before += m.cycles;
    if (m.phase < out.phases.size()) out.phases[m.phase].before_cycles += std::exchange(before, 0);
  }
  out.cycles_after = before;
}

void call_figures(const package::Package& p, std::uint32_t program, unsigned threads, Report& out) {
  name_phases(out);
  std::vector<TileCall> calls = follow_call(p.image, program, threads, out);
  for (std::uint32_t t = 0; t < calls.size(); ++t) {
    add_tile(out, t, calls[t]);
    for (std::size_t i = 0; i < out.phases.size(); ++i)
      name_tensors(calls[t].rows[i], out.lists[out.tiles[t].list], out.phases[i].step);
    out.rows.push_back(std::move(calls[t].rows));
  }
  for (Phase& phase : out.phases) {
    phase.exchange_cycles = (std::uint64_t{phase.horizon} + out.device.phase_constant) * phase.iterations;
    phase.kernel_cycles_mean /= static_cast<double>(out.tiles.size());
    out.cycles += phase.exchange_cycles;
  }
  add_kernels(calls, out);
  add_meetings(out);
}

// Everything about memory.
Report memory_report(const Device& device, const package::Package& package, const std::string& file) {
  const package::Symbol& program = symbol(package, "program", file);
  const package::Symbol& rows = symbol(package, "rows", file);
  Report out;
  out.device = device;
  out.file = file;
  out.summary_json = package.side.summary_json;
  out.steps = package.side.steps;
  out.areas = areas_of(device, program, rows);
  out.tiles.resize(package.image.tiles.size());
  for (std::uint32_t t = 0; t < out.tiles.size(); ++t) {
    const package::TileImage& image = package.image.tiles[t];
    out.tiles[t].logical = t < topology::kTiles ? topology::logical(PhysId(t)).value : t;
    out.tiles[t].table_bytes = bytes_at(package.image, image, rows.address);
    out.tiles[t].program_bytes = bytes_at(package.image, image, program.address);
  }
  collect_buffers(package, out);
  memory_figures(out);
  return out;
}

}  // namespace

Report build(const Device& device, const package::Package& package, const std::string& file,
             std::uint64_t file_bytes, unsigned threads) {
  Report out = memory_report(device, package, file);
  out.file_bytes = file_bytes;
  call_figures(package, symbol(package, "program", file).address, threads, out);
  return out;
}

Report build_unplaced(const Device& device, const package::Package& package, const std::string& error_json) {
  Report out = memory_report(device, package, "");
  out.error_json = error_json;
  const std::uint32_t code = symbol(package, "program", "").bytes;
  for (Tile& tile : out.tiles) tile.program_bytes = code;
  return out;
}

}  // namespace tw::report
