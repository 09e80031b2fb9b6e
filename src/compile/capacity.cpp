#include "compile/capacity.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

#include "target/topology.h"

namespace tw::compile {
namespace {

ErrorKind kind_of(place::NoFit::Kind kind) {
  switch (kind) {
    case place::NoFit::Kind::Capacity:
      return ErrorKind::Capacity;
    case place::NoFit::Kind::Contiguity:
      return ErrorKind::Contiguity;
    case place::NoFit::Kind::Fragmentation:
      return ErrorKind::Fragmentation;
  }
  return ErrorKind::Capacity;
}

std::int64_t step_or_forever(std::uint32_t step) {
  return step == tile::kForever ? std::int64_t{-1} : std::int64_t{step};
}

LiveTensor describe(const plan::Plan& plan, const tile::Buffer& buffer, std::uint64_t request_bytes) {
  LiveTensor live;
  const plan::Tensor& t = plan.at(buffer.tensor);
  live.tensor = t.name;
  live.role = plan::name_of(t.role);
  live.shape = tensor::to_string(t.type.shape);
  live.precision = tensor::name_of(t.type.encoding.precision);
  live.bytes = request_bytes;
  live.padding_bytes =
      request_bytes - std::min<std::uint64_t>(request_bytes, std::uint64_t{buffer.bytes} * buffer.members);
  live.first_step = buffer.first;
  live.last_step = step_or_forever(buffer.last);
  return live;
}

// From what is alive there. What another plan would save, the callers find out by planning.
std::vector<Suggestion> suggestions(const plan::Plan& plan, const tile::TilePlacement& problem,
                                    const tile::Program& program, const std::vector<std::uint32_t>& live) {
  std::uint64_t transient = 0, layer = 0;
  std::uint32_t layers = 0;
  for (const std::uint32_t r : live) {
    const tile::Buffer& buffer = program.buffers[problem.buffers[r].value];
    if (plan.at(buffer.tensor).role != plan::Role::Parameter) {
      transient += problem.problem.requests[r].bytes;
    } else if (buffer.members > 1) {
      layer += buffer.stride();
      layers = buffer.members;
    }
  }
  std::vector<Suggestion> out;
  const bool batched =
      std::ranges::any_of(plan.inputs, [&](TensorId input) { return plan.at(input).type.shape.front() > 1; });
  if (transient > 0 && batched)
    out.push_back({"half the batch (--batch): activations and their copies halve", transient / 2});
  if (layers > 1) out.push_back({fmt::format("one layer fewer than {} (--layers)", layers), layer});
  std::ranges::stable_sort(out, std::ranges::greater{}, &Suggestion::saves_bytes);
  return out;
}

// Sums of the live requests that stay to the end and of those that do not.
struct Held {
  std::uint64_t resident = 0, transient = 0;
};
Held held(const place::Problem& problem, const std::vector<std::uint32_t>& live) {
  Held h;
  for (const std::uint32_t r : live)
    (problem.requests[r].last == place::kForever ? h.resident : h.transient) += problem.requests[r].bytes;
  return h;
}

// The two largest tensors that come and go, and what they are to each other.
std::string together(const plan::Plan& plan, const tile::Program& program, const tile::TilePlacement& problem,
                     const place::NoFit& why) {
  std::vector<std::uint32_t> largest;
  for (const std::uint32_t r : why.live) {
    if (problem.problem.requests[r].last != place::kForever && largest.size() < 2) largest.push_back(r);
  }
  const Held h = held(problem.problem, why.live);
  const auto tensor = [&](std::uint32_t r) -> const plan::Tensor& {
    return plan.at(program.buffers[problem.buffers[r].value].tensor);
  };
  const auto bytes = [&](std::uint32_t r) -> std::uint64_t { return problem.problem.requests[r].bytes; };
  if (largest.empty())
    return fmt::format("what is resident, {} B, is more than the tile has", grouped(h.resident));
  if (largest.size() == 1)
    return fmt::format("'{}' needs {} B beside {} B that are resident", tensor(largest[0]).name,
                       grouped(bytes(largest[0])), grouped(h.resident));
  const auto born = [&](std::uint32_t r) { return problem.problem.requests[r].first; };
  if (tensor(largest[0]).type.shape == tensor(largest[1]).type.shape)  // the original before its copy
    std::ranges::stable_sort(largest, {}, born);
  const plan::Tensor &a = tensor(largest[0]), &b = tensor(largest[1]);
  const auto precision = [](const plan::Tensor& t) { return t.type.encoding.precision; };
  const bool copy = a.type.shape == b.type.shape;
  return fmt::format("'{}' ({} B) and {}'{}' ({} B) are alive together, beside {} B that are resident",
                     a.name, grouped(bytes(largest[0])),
                     !copy ? std::string()
                     : precision(a) == precision(b)
                         ? std::string("its copy ")
                         : fmt::format("its {} copy ", tensor::name_of(precision(b))),
                     b.name, grouped(bytes(largest[1])), grouped(h.resident));
}

std::string cause(const plan::Plan& plan, const tile::Program& program, const tile::TilePlacement& problem,
                  const place::NoFit& why) {
  const std::string& name = plan.at(program.buffers[problem.buffers[why.request].value].tensor).name;
  switch (why.kind) {
    case place::NoFit::Kind::Capacity:
      return together(plan, program, problem, why);
    case place::NoFit::Kind::Contiguity:
      return fmt::format("'{}' must stand in one piece", name);
    case place::NoFit::Kind::Fragmentation:
      return fmt::format(
          "'{}' found no hole in any of the orders tried (by lifetime, by size, residents "
          "first, each repaired) nor in the search over addresses",
          name);
  }
  return "";
}

// Physical tile, count and first tiles of what is worst.
void locate(CapacityDetail& d, std::uint32_t logical, std::vector<std::uint32_t> failing) {
  d.tile = logical;
  d.physical_tile = topology::physical(TileId(logical)).value;
  d.failing_tiles = static_cast<std::uint32_t>(failing.size());
  failing.resize(std::min<std::size_t>(failing.size(), 5));
  d.first_tiles = std::move(failing);
}

// Amounts by operation, largest first, at most five.
std::vector<Share> largest(const std::map<std::string, std::uint64_t>& amounts) {
  std::vector<Share> parts;
  for (const auto& [path, amount] : amounts) {
    if (amount > 0) parts.push_back({fmt::format("'{}'", path), amount});
  }
  std::ranges::stable_sort(parts, std::ranges::greater{}, &Share::amount);
  parts.resize(std::min<std::size_t>(parts.size(), 5));
  return parts;
}

std::vector<std::string> phase_paths(const tile::Program& program) {
  std::vector<std::string> paths(program.phases.size());
  for (const tile::Step& s : program.steps) {
    if (s.kind == tile::StepKind::Exchange && s.path < program.paths.size())
      paths[s.phase] = program.paths[s.path];
  }
  return paths;
}

CapacityDetail exceeded(std::uint64_t needed, std::uint64_t available) {
  CapacityDetail d;
  d.needed_bytes = needed;
  d.available_bytes = available;
  d.missing_bytes = needed - available;
  return d;
}

}  // namespace

std::string step_path(const tile::Program& program, std::uint32_t step) {
  if (step == 0 || step > program.steps.size()) return "upload";
  const std::uint32_t path = program.steps[step - 1].path;
  return path < program.paths.size() ? program.paths[path] : "";
}

Error capacity_error(const plan::Plan& plan, const tile::Program& program,
                     const std::vector<tile::TilePlacement>& problems,
                     const std::vector<TileFailure>& failures, Reserves reserves) {
  const TileFailure& worst =
      *std::ranges::max_element(failures, {}, [](const TileFailure& f) { return f.why.missing; });
  const tile::TilePlacement& problem = problems[worst.tile];
  const place::NoFit& why = worst.why;
  CapacityDetail d;
  std::vector<std::uint32_t> failing;
  for (const TileFailure& f : failures) failing.push_back(f.tile);
  locate(d, worst.tile, std::move(failing));
  d.step = why.step;
  d.step_path = step_path(program, why.step);
  d.memory_class = why.cls == place::Class::Interleaved ? "interleaved" : "standard";
  for (const place::Range& r : why.confined) d.ranges.push_back({r.begin, r.end});
  d.needed_bytes = why.needed;
  d.available_bytes = why.available;
  d.missing_bytes = why.missing;
  d.largest_hole_bytes = why.largest_hole;
  d.holes = why.holes;
  d.estimated_bytes = plan.estimated_tensor_bytes;
  d.cause = cause(plan, program, problem, why);
  const Held live = held(problem.problem, why.live);
  d.parts = {{"resident", live.resident},
             {"of this step", live.transient},
             {"reserved for code", reserves.code},
             {"reserved for exchange rows", reserves.rows}};
  for (std::size_t i = 0; i < std::min<std::size_t>(8, why.live.size()); ++i) {
    const std::uint32_t r = why.live[i];
    d.live.push_back(
        describe(plan, program.buffers[problem.buffers[r].value], problem.problem.requests[r].bytes));
  }
  d.suggestions = suggestions(plan, problem, program, why.live);
  d.steps = static_cast<std::int64_t>(program.steps.size());
  return does_not_fit(kind_of(why.kind), std::move(d));
}

Error fragments_error(const tile::Program& program, std::span<const std::uint32_t> fragments,
                      std::uint32_t limit) {
  const auto most = static_cast<std::uint32_t>(std::ranges::max_element(fragments) - fragments.begin());
  CapacityDetail d = exceeded(fragments[most], limit);
  std::vector<std::uint32_t> failing;
  for (std::uint32_t t = 0; t < fragments.size(); ++t) {
    if (fragments[t] > limit) failing.push_back(t);
  }
  locate(d, most, std::move(failing));
  const std::vector<std::string> paths = phase_paths(program);
  std::map<std::string, std::uint64_t> by_path;
  for (std::size_t p = 0; p < program.phases.size(); ++p)
    by_path[paths[p]] += tile::fragments_of(program, program.phases[p], TileId(most));
  d.parts = largest(by_path);
  d.suggestions = {
      {fmt::format("--fragment-limit {} or more (a policy, not the hardware's)", fragments[most]), 0},
      {"a smaller --batch", 0}};
  return does_not_fit(ErrorKind::Fragments, std::move(d));
}

Error table_error(const tile::Program& program, const std::vector<exchange::Rows>& rows,
                  std::span<const std::uint32_t> bytes, std::uint32_t budget) {
  const auto most = static_cast<std::uint32_t>(std::ranges::max_element(bytes) - bytes.begin());
  CapacityDetail d = exceeded(bytes[most], budget);
  std::vector<std::uint32_t> failing;
  for (std::uint32_t t = 0; t < bytes.size(); ++t) {
    if (bytes[t] > budget) failing.push_back(topology::logical(PhysId(t)).value);
  }
  std::ranges::sort(failing);
  locate(d, topology::logical(PhysId(most)).value, std::move(failing));
  const std::vector<std::string> paths = phase_paths(program);
  std::map<std::string, std::uint64_t> by_path;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    for (const exchange::Row& row : rows[p].rows) {
      if (row.tile.value == most) by_path["rows of " + paths[p] + " before sharing"] += 4 * row.words.size();
    }
  }
  d.parts = largest(by_path);
  d.suggestions = {{fmt::format("--table-budget {} or more", bytes[most]), 0}, {"a smaller --batch", 0}};
  return does_not_fit(ErrorKind::ExchangeTable, std::move(d));
}

Error code_error(const Device& device, std::uint32_t code, std::uint32_t first_row) {
  CapacityDetail d = exceeded(first_row + device.element_bytes - device.code_base,
                              device.interleaved_base - device.code_base);
  d.failing_tiles = device.tiles;
  d.ranges = {{device.code_base, device.interleaved_base}};
  d.parts = {{"code, in whole elements", first_row - device.code_base},
             {"code", code},
             {"one element of exchange rows", device.element_bytes}};
  d.suggestions = {{"fewer operations of different shapes (each needs code of its own)", 0}};
  return does_not_fit(ErrorKind::Code, std::move(d));
}

}  // namespace tw::compile
