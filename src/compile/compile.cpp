#include "compile/compile.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "compile/capacity.h"
#include "emit/emit.h"
#include "exchange/exchange.h"
#include "place/place.h"
#include "plan/cost.h"
#include "plan/rounding.h"
#include "target/topology.h"
#include "tile/problems.h"
#include "tile/relay.h"

namespace tw::compile {
namespace {

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void require_good(const std::vector<std::string>& findings, const char* stage) {
  TW_CHECK(findings.empty(),
           fmt::format("{}: {} finding(s), first: {}", stage, findings.size(), findings.front()));
}

// A budget of one tile that is exceeded: counts or bytes.
CapacityDetail budget_detail(std::uint32_t logical, std::uint64_t needed, std::uint64_t available) {
  CapacityDetail d;
  d.tile = logical;
  d.physical_tile = topology::physical(TileId(logical)).value;
  d.needed_bytes = needed;
  d.available_bytes = available;
  d.missing_bytes = needed - available;
  return d;
}

void guard_fragments(const tile::Program& program, const Options& options, std::uint32_t tiles,
                     Report& report) {
  const auto count = tile::fragments_per_tile(program, tiles);
  const auto most = std::max_element(count.begin(), count.end());
  report.fragments_max = most == count.end() ? 0 : *most;
  if (report.fragments_max <= options.fragment_limit) return;
  CapacityDetail d =
      budget_detail(static_cast<std::uint32_t>(most - count.begin()), *most, options.fragment_limit);
  d.failing_tiles = static_cast<std::uint32_t>(
      std::count_if(count.begin(), count.end(), [&](std::uint32_t n) { return n > options.fragment_limit; }));
  d.suggestions = {{"a larger --fragment-limit (a policy, not the hardware's)", 0}, {"a smaller --batch", 0}};
  throw does_not_fit(ErrorKind::Fragments, std::move(d), 0);
}

// Addresses before placement: the buffers of a tile stand one behind the other (compiler.md 6.1).
tile::Addresses provisional_addresses(const Device& device, const tile::Program& program) {
  tile::Addresses fake;
  std::vector<std::uint32_t> next(device.tiles, device.memory_base);
  for (const tile::Buffer& b : program.buffers) {
    fake.of.push_back(next[b.tile.value]);
    next[b.tile.value] += up(b.stride() * b.members + b.tail, 8U) + 8;
  }
  return fake;
}

std::uint32_t estimated_row_bytes(const Device& device, const tile::Program& program) {
  const tile::Addresses fake = provisional_addresses(device, program);
  std::vector<std::uint32_t> total(device.tiles, 8);
  for (const tile::Phase& phase : program.phases) {
    const auto bytes =
        exchange::estimate_row_bytes(tile::exchange_problem(program, phase, fake), device.tiles);
    for (std::size_t t = 0; t < total.size(); ++t) total[t] += bytes[t];
  }
  return *std::max_element(total.begin(), total.end());
}

// One phase alone on an address space of its own: its buffers packed upward per tile, for pricing relays.
tile::PhasePrice phase_price(const Device& device, const tile::Program& program, const tile::Phase& phase,
                             const Options& options) {
  tile::Addresses fake;
  fake.of.assign(program.buffers.size(), 0);
  std::vector<std::uint32_t> next(device.tiles, device.memory_base);
  auto visit = [&](BufferId id) {
    const tile::Buffer& b = program.buffers[id.value];
    if (fake.of[id.value] != 0) return;
    fake.of[id.value] = next[b.tile.value];
    next[b.tile.value] +=
        up(b.stride() * b.members, device.element_bytes);  // sources and targets in other elements
  };
  for (const tile::Transfer& t : phase.transfers) visit(t.source);
  for (const tile::Receiver& r : phase.receivers) visit(r.buffer);
  const auto rows = exchange::encode(
      device,
      exchange::schedule(device, tile::exchange_problem(program, phase, fake), {options.stream_words}));
  tile::PhasePrice price;
  price.cycles = rows.horizon;
  price.row_bytes.assign(device.tiles, 0);
  for (const exchange::Row& row : rows.rows)
    price.row_bytes[topology::logical(row.tile).value] = static_cast<std::uint32_t>(4 * row.words.size());
  return price;
}

// How far beyond the fragment limit relays are still tried: pricing them schedules phases, which takes
// minutes for a program that no relay brings back.
constexpr std::uint64_t kRelayReach = 2;

void add_relays(const Device& device, tile::Program& program, const Options& options, Report& report) {
  if (!options.relays) return;
  const auto fragments = tile::fragments_per_tile(program, device.tiles);
  if (*std::ranges::max_element(fragments) > kRelayReach * options.fragment_limit) return;
  report.relay_phases =
      tile::insert_relays(program, options.plan.tiles, [&](const tile::Program& p, const tile::Phase& phase) {
        return phase_price(device, p, phase, options);
      }).phases;
}

struct Placed {
  tile::Addresses addresses;
  std::vector<std::uint32_t> taken;  // per buffer, place::Placement::taken
  std::vector<place::Placement> placements;
  std::vector<tile::TilePlacement> problems;
};

Placed place_all(const Device& device, const plan::Plan& plan, const tile::Program& program,
                 std::uint32_t code, std::uint32_t rows, const Options& options) {
  Placed out;
  out.problems = tile::placement_problems(device, program, code, rows);
  out.placements.resize(out.problems.size());
  std::vector<std::unique_ptr<place::NoFit>> failed(out.problems.size());
  parallel_for(out.problems.size(), 8, options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      place::Result result = place::solve(device, out.problems[t].problem);
      if (auto* placement = std::get_if<place::Placement>(&result)) {
        require_good(place::check(device, out.problems[t].problem, *placement), "placement");
        out.placements[t] = std::move(*placement);
      } else {
        failed[t] = std::make_unique<place::NoFit>(std::get<place::NoFit>(std::move(result)));
      }
    }
  });
  std::vector<TileFailure> failures;
  for (std::uint32_t t = 0; t < failed.size(); ++t) {
    if (failed[t]) failures.push_back({t, std::move(*failed[t])});
  }
  if (!failures.empty()) {
    Error error = capacity_error(plan, program, out.problems, failures);
    const TileId tile(error.capacity->tile);
    if (options.on_unplaced) options.on_unplaced(plan, program, tile, out.problems[tile.value]);
    throw error;
  }
  out.addresses.of.assign(program.buffers.size(), 0);
  out.taken.assign(program.buffers.size(), 0);
  for (std::size_t t = 0; t < out.problems.size(); ++t) {
    for (std::size_t r = 0; r < out.problems[t].buffers.size(); ++r) {
      const std::uint32_t buffer = out.problems[t].buffers[r].value;
      out.addresses.of[buffer] = out.placements[t].address[r];
      out.taken[buffer] = out.placements[t].taken[r];
    }
  }
  return out;
}

struct Scheduled {
  std::vector<exchange::Rows> rows;
  std::vector<std::uint32_t> bound_words;
};

Scheduled schedule_all(const Device& device, const tile::Program& program, const tile::Addresses& addresses,
                       const Options& options, Progress& progress) {
  Scheduled out;
  out.rows.resize(program.phases.size());
  out.bound_words.resize(program.phases.size());
  parallel_for(program.phases.size(), 1, options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const exchange::Problem problem = tile::exchange_problem(program, program.phases[p], addresses);
      const exchange::Schedule schedule = exchange::schedule(device, problem, {options.stream_words});
      out.rows[p] = exchange::encode(device, schedule);
      out.bound_words[p] = schedule.bound_words;
      if (options.check_rows) require_good(exchange::check(device, problem, out.rows[p]), "exchange rows");
      progress.advance();
    }
  });
  return out;
}

// Payload-weighted mean and worst (phases above 2,000 cycles) of horizon over bound.
void horizon_figures(const Scheduled& s, Report& report) {
  double weighted = 0, weight = 0;
  for (std::size_t p = 0; p < s.rows.size(); ++p) {
    if (s.bound_words[p] == 0) continue;
    const double ratio = static_cast<double>(s.rows[p].horizon) / s.bound_words[p];
    weighted += ratio * s.bound_words[p];
    weight += s.bound_words[p];
    if (s.rows[p].horizon > 2000)
      report.horizon_over_bound_worst = std::max(report.horizon_over_bound_worst, ratio);
  }
  report.horizon_over_bound_mean = weight > 0 ? weighted / weight : 0;
}

void memory_figures(const Device& device, const tile::Program& program, const Placed& placed,
                    std::uint32_t code, std::uint32_t rows, Report& report) {
  for (std::uint32_t t = 0; t < placed.placements.size(); ++t) {
    if (placed.placements[t].peak_live_bytes <= report.peak_tensor_bytes) continue;
    report.peak_tensor_bytes = placed.placements[t].peak_live_bytes;
    report.peak_tile = t;
    report.peak_step = placed.placements[t].peak_step;
  }
  if (!placed.problems.empty()) {
    const place::Problem& p = placed.problems[report.peak_tile].problem;
    for (const place::Request& r : p.requests) {
      if (r.first > report.peak_step || r.last < report.peak_step) continue;
      (r.cls == place::Class::Interleaved ? report.peak_interleaved_bytes : report.peak_standard_bytes) +=
          r.bytes;
    }
    for (const auto* ranges : {&p.free, &p.aperture}) {
      for (const place::Range& r : *ranges) report.budget_bytes += r.end - r.begin;
    }
  }
  report.reserve_bytes = emit::row_base(device, code) + rows - device.code_base;
  report.peak_total_bytes = report.peak_tensor_bytes + report.reserve_bytes;
  for (const tile::Binding& b : program.weights) {
    for (const tile::BindingSlice& s : b.slices) report.parameter_bytes_total += s.bytes;
  }
}

const char* dtype_of(const tensor::Encoding& e) {
  switch (e.precision) {
    case tensor::Precision::F8:
      return "f8f143";
    case tensor::Precision::F16:
      return "f16";
    case tensor::Precision::F32:
      return "f32";
  }
  return "";
}

void describe_bindings(const plan::Plan& plan, const tile::Program& program, package::DeviceImage& image) {
  std::size_t at = 0;
  for (const auto* list : {&program.weights, &program.inputs, &program.outputs}) {
    for (const tile::Binding& b : *list) {
      const tensor::TensorType& type = plan.at(b.tensor).type;
      package::Binding& out = image.bindings[at++];
      out.dtype = dtype_of(type.encoding);
      out.scale = type.encoding.scale;
      out.shape = type.shape;
    }
  }
}

package::StepKind kind_of(tile::StepKind kind) {
  switch (kind) {
    case tile::StepKind::Compute:
      return package::StepKind::Compute;
    case tile::StepKind::Exchange:
      return package::StepKind::Exchange;
    case tile::StepKind::RepeatBegin:
      return package::StepKind::RepeatBegin;
    case tile::StepKind::RepeatEnd:
      return package::StepKind::RepeatEnd;
    case tile::StepKind::Checkpoint:
      return package::StepKind::Checkpoint;
  }
  return package::StepKind::Compute;
}

package::Side describe(const plan::Plan& plan, const tile::Program& program, const Placed& placed,
                       std::vector<package::Symbol> symbols) {
  package::Side side;
  side.symbols = std::move(symbols);
  side.plan_text = plan::print(plan);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const tile::Buffer& buffer = program.buffers[b];
    side.tensors.push_back({plan.at(buffer.tensor).name, topology::physical(buffer.tile).value,
                            placed.addresses.of[b], buffer.stride() * (buffer.members - 1) + buffer.bytes,
                            buffer.first, buffer.last, placed.taken[b],
                            buffer.memory == tensor::MemoryClass::Interleaved});
  }
  for (const tile::Step& s : program.steps)
    side.steps.push_back(
        {s.path < program.paths.size() ? program.paths[s.path] : "", kind_of(s.kind), s.count});
  return side;
}

void operation_figures(Result& out, const std::vector<emit::PhaseEnd>& phases) {
  Report& report = out.report;
  std::vector<double> ends;
  for (const emit::PhaseEnd& phase : phases) {
    report.phase_operations.push_back(out.program.paths[phase.path]);
    ends.push_back(phase.cycle);
  }
  report.scheduled_by_operation = cycles_by_operation(report.phase_operations, ends, report.cycles_scheduled);
  for (const plan::OperationEstimate& e : plan::estimate_by_operation(out.plan))
    report.estimated_by_operation.push_back({e.path, e.cycles});
}

std::vector<std::pair<std::uint32_t, TensorId>> trap_order(const tile::Program& program) {
  std::vector<std::pair<std::uint32_t, TensorId>> out;
  std::uint32_t index = 0;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    if (program.steps[s].kind != tile::StepKind::RepeatBegin) {
      if (program.steps[s].kind == tile::StepKind::Checkpoint)
        out.emplace_back(index++, program.steps[s].checkpoint);
      continue;
    }
    std::size_t close = s;
    while (program.steps[close].kind != tile::StepKind::RepeatEnd) ++close;
    for (std::uint32_t i = 0; i < program.steps[s].count; ++i) {
      for (std::size_t b = s + 1; b < close; ++b) {
        if (program.steps[b].kind == tile::StepKind::Checkpoint)
          out.emplace_back(index++, program.steps[b].checkpoint);
      }
    }
    s = close;
  }
  return out;
}

void guard_table(const emit::RowTables& tables, std::uint32_t budget) {
  if (tables.max_bytes <= budget) return;
  const auto worst = std::max_element(tables.bytes.begin(), tables.bytes.end()) - tables.bytes.begin();
  const TileId tile = topology::logical(PhysId(static_cast<std::uint32_t>(worst)));
  CapacityDetail d = budget_detail(tile.value, tables.max_bytes, budget);
  d.failing_tiles = static_cast<std::uint32_t>(std::count_if(
      tables.bytes.begin(), tables.bytes.end(), [&](std::uint32_t bytes) { return bytes > budget; }));
  d.suggestions = {{"a larger --table-budget", 0}, {"a smaller --batch", 0}};
  throw does_not_fit(ErrorKind::ExchangeTable, std::move(d), 0);
}

}  // namespace

Result compile(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress) {
  Result out;
  Report& report = out.report;
  Stopwatch watch, total;

  progress.stage("plan");
  out.plan = plan::build(device, graph, options.plan, progress);
  require_good(plan::verify(out.plan), "plan");
  report.estimated_tensor_bytes = out.plan.estimated_tensor_bytes;
  report.cycles_estimated = out.plan.estimated_cycles;
  report.seconds_plan = watch.lap();

  progress.stage("lower");
  out.program = tile::lower(out.plan, {options.checkpoints}, options.threads);
  add_relays(device, out.program, options, report);
  // Judged after placement, which has the exact message for operands that are larger than a tile.
  const std::vector<std::string> findings = tile::verify(out.program);
  guard_fragments(out.program, options, device.tiles, report);
  report.seconds_lower = watch.lap();

  // Code has one size whatever the addresses; the row table's reservation climbs a ladder of elements until
  // the encoded rows fit (decisions.md 36). This is the only backward edge of the compiler.
  const std::uint32_t code = emit::code_bytes(device, out.program);
  std::uint32_t reserved =
      up(estimated_row_bytes(device, out.program) + device.fetch_guard, device.element_bytes);
  // A budget below the default judges and does not steer: the budget that a table meets exactly builds that
  // table.
  const std::uint32_t ceiling =
      up(std::max(options.table_budget, Options{}.table_budget) + device.fetch_guard, device.element_bytes);
  reserved = std::min(reserved, ceiling);
  Placed placed;
  Scheduled scheduled;
  emit::RowTables tables;
  for (;; reserved += device.element_bytes) {
    progress.stage("place");
    placed = place_all(device, out.plan, out.program, code, reserved, options);
    require_good(findings, "tile program");
    report.seconds_place += watch.lap();
    progress.stage("exchange", out.program.phases.size());
    scheduled = schedule_all(device, out.program, placed.addresses, options, progress);
    tables = emit::row_tables(device, out.program, scheduled.rows);
    report.seconds_exchange += watch.lap();
    guard_table(tables, options.table_budget);
    if (tables.max_bytes + device.fetch_guard <= reserved) break;
    TW_CHECK(reserved < ceiling, "row reservation ladder exhausted below the table budget");
  }

  progress.stage("emit");
  emit::Image image =
      emit::assemble(device, out.program, placed.addresses, scheduled.rows, tables, code, reserved);
  out.image = std::move(image.image);
  describe_bindings(out.plan, out.program, out.image);
  out.side = describe(out.plan, out.program, placed, std::move(image.symbols));
  out.checkpoints = trap_order(out.program);
  report.cycles_scheduled = image.scheduled_cycles;
  operation_figures(out, image.phase_ends);
  report.phases = static_cast<std::uint32_t>(out.program.phases.size());
  report.table_bytes_max = tables.max_bytes;
  report.table_bytes_mean = tables.mean_bytes;
  horizon_figures(scheduled, report);
  memory_figures(device, out.program, placed, code, reserved, report);
  report.seconds_emit = watch.lap();
  report.seconds_total = total.lap();
  return out;
}

std::vector<std::vector<std::uint8_t>> pack_weights(
    const Result& result, const std::function<const std::vector<float>&(const std::string&)>& host,
    unsigned threads) {
  const auto& bindings = result.program.weights;
  std::vector<std::vector<std::uint8_t>> data(bindings.size());
  parallel_for(bindings.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const tensor::ResolvedLayout layout(result.plan.at(bindings[b].tensor).type);
      std::vector<float> storage;
      const std::span<const float> logical = plan::rounded_parameter(
          result.plan, result.plan.at(bindings[b].tensor), host(bindings[b].name), storage, 1);
      data[b].reserve(bindings[b].bytes);
      for (std::uint32_t t = 0; t < layout.owners(); ++t) {
        std::vector<std::uint8_t> shard = tensor::pack_shard(layout, t, logical);
        shard.resize(up(shard.size(), 4UL), 0);
        data[b].insert(data[b].end(), shard.begin(), shard.end());
      }
      TW_CHECK(data[b].size() == bindings[b].bytes,
               "packed weights differ from their binding: " + bindings[b].name);
    }
  });
  return data;
}

}  // namespace tw::compile
