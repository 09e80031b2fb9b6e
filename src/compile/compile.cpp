#include "compile/compile.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <expected>
#include <memory>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "compile/capacity.h"
#include "compile/reservation.h"
#include "emit/emit.h"
#include "exchange/exchange.h"
#include "numeric/formats.h"
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

std::uint32_t most_fragments(const Device& device, const tile::Program& program) {
  return std::ranges::max(tile::fragments_per_tile(program, device.tiles));
}

// Planned and lowered. Products in steps of K send fewer and longer messages: where the fragment limit is
// exceeded, products are chosen within the room of a tile as if memory were short. A limit below the default
// judges and does not steer.
void plan_and_lower(const Device& device, const graph::Graph& graph, const Options& options,
                    Progress& progress, Result& out) {
  Stopwatch watch;
  const auto planned = [&](bool within_room) {
    progress.stage("plan");
    plan::Options how = options.plan;
    how.within_room = how.within_room || within_room;
    plan::Plan plan = plan::build(device, graph, how, progress);
    require_good(plan::verify(plan), "plan");
    out.report.seconds_plan += watch.lap();
    return plan;
  };
  const auto lowered = [&](const plan::Plan& plan) {
    progress.stage("lower");
    tile::Program program = tile::lower(plan, {options.checkpoints}, options.threads);
    out.report.seconds_lower += watch.lap();
    return program;
  };
  out.plan = planned(false);
  out.program = lowered(out.plan);
  const std::uint32_t fragments = most_fragments(device, out.program);
  if (fragments <= std::max(options.fragment_limit, Options{}.fragment_limit)) return;
  if (out.plan.within_room || !options.plan.choices.empty()) return;
  plan::Plan plan = planned(true);
  tile::Program program = lowered(plan);
  if (most_fragments(device, program) >= fragments) return;
  out.plan = std::move(plan);
  out.program = std::move(program);
}

void guard_fragments(const tile::Program& program, const Options& options, std::uint32_t tiles,
                     Report& report) {
  const auto count = tile::fragments_per_tile(program, tiles);
  report.fragments_max = std::ranges::max(count);
  if (report.fragments_max > options.fragment_limit)
    throw fragments_error(program, count, options.fragment_limit);
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
  if (most_fragments(device, program) > kRelayReach * options.fragment_limit) return;
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

// Addresses and bytes of every buffer from those of the tiles' requests.
void by_buffer(const tile::Program& program, Placed& out) {
  out.addresses.of.assign(program.buffers.size(), 0);
  out.taken.assign(program.buffers.size(), 0);
  for (std::size_t t = 0; t < out.problems.size(); ++t) {
    for (std::size_t r = 0; r < out.problems[t].buffers.size(); ++r) {
      const std::uint32_t buffer = out.problems[t].buffers[r].value;
      out.addresses.of[buffer] = out.placements[t].address[r];
      out.taken[buffer] = out.placements[t].taken[r];
    }
  }
}

// No placement, as message and data.
struct Refusal {
  Error error;
  std::uint32_t rows;  // bytes that were reserved
  Placed unplaced;
  std::vector<TileFailure> failures;
};

std::expected<Placed, Refusal> place_all(const Device& device, const plan::Plan& plan,
                                         const tile::Program& program, std::uint32_t code, std::uint32_t rows,
                                         unsigned threads) {
  Placed out;
  out.problems = tile::placement_problems(device, program, code, rows);
  out.placements.resize(out.problems.size());
  std::vector<std::unique_ptr<place::NoFit>> failed(out.problems.size());
  parallel_for(out.problems.size(), 8, threads, [&](std::size_t begin, std::size_t end) {
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
    Error error = capacity_error(plan, program, out.problems, failures, {code, rows});
    return std::unexpected(Refusal{std::move(error), rows, std::move(out), std::move(failures)});
  }
  by_buffer(program, out);
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
  report.peak_step_path = step_path(program, report.peak_step);
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

// Weights as they stand, as far as they do.
std::vector<package::Binding> weight_bindings(const tile::Program& program,
                                              const tile::Addresses& addresses) {
  std::vector<package::Binding> out;
  for (const tile::Binding& b : program.weights) {
    package::Binding& binding = out.emplace_back();
    binding.name = b.name;
    binding.kind = package::BindingKind::Weight;
    for (const tile::BindingSlice& s : b.slices) {
      const std::uint32_t address = addresses.of[s.buffer.value];
      binding.slices.push_back({topology::physical(program.buffers[s.buffer.value].tile).value,
                                address + (address == 0 ? 0 : s.buffer_offset), s.offset, s.bytes});
    }
  }
  return out;
}

[[noreturn]] void refuse(const Device& device, const Result& built, const Options& options,
                         std::uint32_t code, Refusal refusal) {
  if (!options.on_unplaced) throw refusal.error;
  Placed& placed = refusal.unplaced;
  for (const TileFailure& f : refusal.failures) {
    const place::Problem& problem = placed.problems[f.tile].problem;
    placed.placements[f.tile].address = place::place_partly(device, problem);
    placed.placements[f.tile].taken.clear();
    for (const place::Request& r : problem.requests) placed.placements[f.tile].taken.push_back(r.bytes);
  }
  by_buffer(built.program, placed);
  package::Side side =
      describe(built.plan, built.program, placed,
               {{.address = device.code_base, .bytes = code, .name = "program"},
                {.address = emit::row_base(device, code), .bytes = refusal.rows, .name = "rows"}});
  options.on_unplaced({built.plan, built.program, placed.problems, refusal.error, std::move(side),
                       weight_bindings(built.program, placed.addresses)});
  throw refusal.error;
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

}  // namespace

Result compile(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress) {
  Result out;
  Report& report = out.report;
  Stopwatch watch, total;

  plan_and_lower(device, graph, options, progress, out);
  report.estimated_tensor_bytes = out.plan.estimated_tensor_bytes;
  report.cycles_estimated = out.plan.estimated_cycles;
  watch.lap();
  add_relays(device, out.program, options, report);
  // Judged after placement, which has the exact message for operands that are larger than a tile.
  const std::vector<std::string> findings = tile::verify(out.program);
  guard_fragments(out.program, options, device.tiles, report);
  report.seconds_lower += watch.lap();

  // Code has one size whatever the addresses; the row table's reservation climbs a ladder of elements until
  // the encoded rows fit (decisions.md 36; ADR 0013).
  const std::uint32_t code = emit::code_bytes(device, out.program);
  const std::uint32_t first_row = emit::row_base(device, code);
  if (first_row + device.element_bytes > device.interleaved_base) throw code_error(device, code, first_row);
  const auto elements = [&](std::uint32_t bytes) {
    return up(bytes + device.fetch_guard, device.element_bytes);
  };
  // A budget below the default judges and does not steer: the budget that a table meets exactly builds that
  // table.
  const std::uint32_t executable = device.interleaved_base - first_row;
  RowReservation<Refusal> reserved(
      device.element_bytes, elements(estimated_row_bytes(device, out.program)),
      std::min(elements(std::max(options.table_budget, Options{}.table_budget)), executable));
  Placed placed;
  Scheduled scheduled;
  emit::RowTables tables;
  for (;;) {
    progress.stage("place");
    auto attempt = reserved.largest_that_leaves_room([&](std::uint32_t rows) {
      return place_all(device, out.plan, out.program, code, rows, options.threads);
    });
    if (!attempt) refuse(device, out, options, code, std::move(attempt.error()));
    placed = *std::move(attempt);
    require_good(findings, "tile program");
    report.seconds_place += watch.lap();
    progress.stage("exchange", out.program.phases.size());
    scheduled = schedule_all(device, out.program, placed.addresses, options, progress);
    tables = emit::row_tables(device, out.program, scheduled.rows);
    report.seconds_exchange += watch.lap();
    const std::uint32_t needed = tables.max_bytes + device.fetch_guard;
    if (const Refusal* refusal = reserved.refusal(needed)) refuse(device, out, options, code, *refusal);
    if (tables.max_bytes > options.table_budget)
      throw table_error(out.program, scheduled.rows, tables.bytes, options.table_budget);
    if (needed <= reserved.bytes()) break;
    if (needed > executable)
      throw table_error(out.program, scheduled.rows, tables.bytes, executable - device.fetch_guard);
    reserved.climb();
  }

  progress.stage("emit");
  emit::Image image =
      emit::assemble(device, out.program, placed.addresses, scheduled.rows, tables, code, reserved.bytes());
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
  memory_figures(device, out.program, placed, code, reserved.bytes(), report);
  report.seconds_emit = watch.lap();
  report.seconds_total = total.lap();
  return out;
}

namespace {

// Integer operations on the bits, so that the loop vectorises: it takes a fortieth of the time of the
// rounding.
ClippedWeights clips_of(const std::string& name, int scale, std::span<const float> values) {
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  const auto limit = std::bit_cast<std::uint32_t>(numeric::f143_clip_limit(scale));
  std::uint32_t largest = 0;
  std::uint64_t clipped = 0;
  for (const float x : values) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU,
                        finite = bits < kInfinity ? bits : 0;
    largest = std::max(largest, finite);
    clipped += finite >= limit;
  }
  return {name, scale, values.size(), clipped, std::bit_cast<float>(largest)};
}

}  // namespace

std::vector<std::vector<std::uint8_t>> pack_weights(
    const Result& result, const std::function<const std::vector<float>&(const std::string&)>& host,
    unsigned threads, std::vector<ClippedWeights>* clipped) {
  const auto& bindings = result.program.weights;
  std::vector<std::vector<std::uint8_t>> data(bindings.size());
  std::vector<ClippedWeights> clips(bindings.size());
  parallel_for(bindings.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const plan::Tensor& tensor = result.plan.at(bindings[b].tensor);
      const tensor::ResolvedLayout layout(tensor.type);
      const std::vector<float>& values = host(bindings[b].name);
      if (clipped && tensor.type.encoding.precision == tensor::Precision::F8)
        clips[b] = clips_of(bindings[b].name, tensor.type.encoding.scale, values);
      std::vector<float> storage;
      const std::span<const float> logical = plan::rounded_parameter(result.plan, tensor, values, storage, 1);
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
  if (clipped)
    std::ranges::copy_if(clips, std::back_inserter(*clipped), [](const auto& c) { return c.clipped > 0; });
  return data;
}

}  // namespace tw::compile
