#include "compile/capacity.h"

#include <fmt/core.h>

#include <algorithm>

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

std::int64_t step_or_forever(std::uint32_t step) { return step == tile::kForever ? -1 : step; }

std::string step_path(const tile::Program& program, std::uint32_t step) {
  if (step == 0 || step > program.steps.size()) return "upload";
  const std::uint32_t path = program.steps[step - 1].path;
  return path < program.paths.size() ? program.paths[path] : "";
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

std::vector<Suggestion> suggestions(const plan::Plan& plan, const tile::TilePlacement& problem,
                                    const tile::Program& program, const std::vector<std::uint32_t>& live) {
  std::uint64_t transient = 0, operands = 0, layer = 0;
  std::uint32_t layers = 0;
  for (const std::uint32_t r : live) {
    const tile::Buffer& buffer = program.buffers[problem.buffers[r].value];
    const plan::Tensor& t = plan.at(buffer.tensor);
    const std::uint64_t bytes = problem.problem.requests[r].bytes;
    if (t.role == plan::Role::Parameter) {
      if (buffer.members > 1) {
        layer += buffer.stride();
        layers = buffer.members;
      }
      continue;
    }
    transient += bytes;
    if (t.role == plan::Role::Operand && t.type.encoding.precision == tensor::Precision::F16)
      operands += bytes / 2;
  }
  std::vector<Suggestion> out;
  if (transient > 0)
    out.push_back({"half the batch (--batch): activations and their copies halve", transient / 2});
  if (operands > 0) out.push_back({"FP8 operands (--precision fp8) instead of F16 ones", operands});
  if (layers > 1) out.push_back({fmt::format("one layer fewer than {} (--layers)", layers), layer});
  std::sort(out.begin(), out.end(),
            [](const Suggestion& a, const Suggestion& b) { return a.saves_bytes > b.saves_bytes; });
  if (out.size() > 3) out.resize(3);
  return out;
}

}  // namespace

Error capacity_error(const plan::Plan& plan, const tile::Program& program,
                     const std::vector<tile::TilePlacement>& problems,
                     const std::vector<TileFailure>& failures) {
  const TileFailure& worst = *std::max_element(
      failures.begin(), failures.end(),
      [](const TileFailure& a, const TileFailure& b) { return a.why.missing < b.why.missing; });
  const tile::TilePlacement& problem = problems[worst.tile];
  CapacityDetail d;
  d.tile = worst.tile;
  d.physical_tile = topology::physical(TileId(worst.tile)).value;
  d.step = worst.why.step;
  d.step_path = step_path(program, worst.why.step);
  d.memory_class = worst.why.cls == place::Class::Interleaved ? "interleaved" : "standard";
  d.needed_bytes = worst.why.needed;
  d.available_bytes = worst.why.available;
  d.missing_bytes = worst.why.missing;
  d.largest_hole_bytes = worst.why.largest_hole;
  d.failing_tiles = static_cast<std::uint32_t>(failures.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(8, worst.why.live.size()); ++i) {
    const std::uint32_t r = worst.why.live[i];
    d.live.push_back(
        describe(plan, program.buffers[problem.buffers[r].value], problem.problem.requests[r].bytes));
  }
  d.suggestions = suggestions(plan, problem, program, worst.why.live);
  return does_not_fit(kind_of(worst.why.kind), std::move(d), static_cast<std::int64_t>(program.steps.size()));
}

}  // namespace tw::compile
