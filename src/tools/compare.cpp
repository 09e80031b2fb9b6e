#include "tools/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/version.h"
#include "compile/optimise.h"
#include "plan/exact.h"
#include "ref/ref.h"
#include "sim/bindings.h"
#include "target/topology.h"
#include "tools/inputs.h"
#include "tools/weights.h"

namespace tw::tools {
namespace {

using Key = std::pair<std::string, std::uint32_t>;  // operation path, iteration

// Where the shards of a checkpointed tensor stand on the device.
class TensorReader {
 public:
  TensorReader(const compile::Result& result) : result_(result) {
    for (std::uint32_t b = 0; b < result.program.buffers.size(); ++b) {
      const tile::Buffer& buffer = result.program.buffers[b];
      address_[{buffer.tensor.value, buffer.tile.value}] = result.side.tensors[b].address;
    }
  }
  std::uint32_t address(TensorId tensor, std::uint32_t tile) const {
    const auto it = address_.find({result_.plan.storage_of(tensor).value, tile});
    TW_CHECK(it != address_.end(), "a checkpointed tensor has no buffer");
    return it->second;
  }
  std::vector<float> read(const sim::Machine& machine, TensorId id) const {
    const plan::Tensor& t = result_.plan.at(id);
    const tensor::ResolvedLayout layout(t.type);
    std::vector<float> logical(tensor::elements(t.type.shape));
    for (std::uint32_t o = 0; o < layout.owners(); ++o) {
      const auto bytes = static_cast<std::uint32_t>(layout.shard_bytes(o));
      if (bytes == 0) continue;
      const std::uint32_t tile = t.owners.tile_of(o);
      const auto data = machine.read(topology::physical(TileId(tile)).value, address(id, tile), bytes);
      tensor::unpack_shard(layout, o, data, logical);
    }
    return logical;
  }
  // Tile and address of one logical element.
  std::pair<std::uint32_t, std::uint32_t> locate(TensorId id, std::uint64_t element) const {
    const plan::Tensor& t = result_.plan.at(id);
    const tensor::ResolvedLayout layout(t.type);
    std::vector<std::uint32_t> coord(t.type.shape.size());
    for (std::size_t a = coord.size(); a-- > 0;) {
      coord[a] = static_cast<std::uint32_t>(element % t.type.shape[a]);
      element /= t.type.shape[a];
    }
    const std::uint32_t owner = layout.owner_of(coord);
    const std::uint32_t tile = t.owners.tile_of(owner);
    const auto offset = static_cast<std::uint32_t>(layout.index_in_shard(owner, coord) *
                                                   tensor::bytes_of(t.type.encoding.precision));
    return {topology::physical(TileId(tile)).value, address(id, tile) + offset};
  }

 private:
  const compile::Result& result_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> address_;
};

struct ExactValue {
  std::string path;
  std::uint32_t iteration;
  TensorId tensor;
  plan::Values values;
};

void compare_one(OperationError& op, const std::vector<float>& simulated, const ExactValue& exact,
                 const TensorReader& reader, std::optional<Divergence>& first) {
  TW_CHECK(simulated.size() == exact.values.size(), "checkpoint shapes differ");
  op.elements = simulated.size();
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(simulated[i]) == std::bit_cast<std::uint32_t>(exact.values[i])) continue;
    ++op.different;
    op.max_sim_error = std::max(op.max_sim_error, std::abs(double{simulated[i]} - double{exact.values[i]}));
    if (first) continue;
    const auto [tile, address] = reader.locate(exact.tensor, i);
    first = Divergence{exact.path, i, tile, address, simulated[i], exact.values[i]};
  }
}

void sample(OperationError& op, const std::vector<float>& simulated, const plan::Values& exact,
            const Sampling& sampling) {
  for (const std::uint64_t i : sample_indices(simulated.size(), sampling.samples)) {
    ++op.samples;
    const double error = std::abs(double{simulated[i]} - double{exact[i]});
    if (!(error <= sampling.atol + sampling.rtol * std::abs(double{exact[i]}))) ++op.beyond;
  }
}

}  // namespace

std::vector<std::uint64_t> sample_indices(std::uint64_t elements, std::uint32_t samples) {
  std::vector<std::uint64_t> at;
  const std::uint64_t count = std::min<std::uint64_t>(elements, samples);
  for (std::uint64_t i = 0; i < count; ++i)
    at.push_back(count < 2 || count == elements ? i : i * (elements - 1) / (count - 1));
  return at;
}

CompareReport compare_package(const Host& host, const Recipe& recipe, const RunOptions& options,
                              const Sampling& sampling) {
  const Source source = open_source(recipe);
  const model::Model& model = source.model;
  compile::Options compile_opts = compile_options(recipe, host.threads);
  compile_opts.checkpoints = true;
  const compile::Result built = compile::optimise(host.device, model.graph, compile_opts, *host.progress);
  model::Tensors tensors(tensor_source(recipe, model));
  const Inputs inputs(source, options.images, options.inputs, recipe.seed);
  const std::map<std::string, std::vector<float>> values = inputs.host_values(0);
  auto data = [&](const std::string& name) -> const std::vector<float>& {
    const auto given = values.find(name);
    return given != values.end() ? given->second : tensors(name);
  };

  host.progress->stage("exact");
  std::vector<ExactValue> exact;
  plan::ExactOptions exact_options;
  exact_options.threads = host.threads;
  exact_options.drop_group_rounding = options.checks.drop_group_rounding;
  exact_options.checkpoint = [&](const std::string& path, std::uint32_t iteration, TensorId tensor,
                                 const plan::Values& v) { exact.push_back({path, iteration, tensor, v}); };
  plan::run_exact(built.plan, data, exact_options);
  TW_CHECK(exact.size() == built.checkpoints.size(),
           "the exact interpreter and the package have other checkpoints");

  host.progress->stage("reference");
  std::map<Key, std::vector<float>> fp32;
  ref::Options ref_options;
  ref_options.threads = host.threads;
  ref_options.checkpoint = [&](const std::string& path, std::uint32_t iteration,
                               const std::vector<float>& v) { fp32[{path, iteration}] = v; };
  ref::run(model.graph, data, ref_options);

  host.progress->stage("simulate");
  CompareReport report;
  const TensorReader reader(built);
  sim::Options sim_options = options.sim;
  sim_options.threads = host.threads;
  sim::Machine machine(host.device, built.image, sim_options);
  machine.on_trap([&](std::uint32_t index) {
    TW_CHECK(index < exact.size(), "more traps than checkpoints");
    const ExactValue& e = exact[index];
    OperationError op;
    op.path = e.path;
    op.iteration = e.iteration;
    const std::vector<float> simulated = reader.read(machine, e.tensor);
    compare_one(op, simulated, e, reader, report.first);
    sample(op, simulated, e.values, sampling);
    if (const auto it = fp32.find({e.path, e.iteration});
        it != fp32.end() && it->second.size() == e.values.size()) {
      op.cosine_fp32 = ref::minimum_cosine(e.values, it->second, e.values.size());
      op.max_fp32_error = ref::max_abs_error(e.values, it->second);
    }
    report.operations.push_back(op);
  });
  const auto weights = compile::pack_weights(
      built, [&](const std::string& name) -> const std::vector<float>& { return tensors(name); },
      host.threads);
  report.fault = machine.initialize(weights, 1).fault;
  std::vector<std::vector<std::uint8_t>> input;
  for (const package::Binding* b : sim::bindings_of(built.image, package::BindingKind::Input))
    input.push_back(sim::encode(*b, values.at(b->name)));
  if (!report.fault) report.fault = machine.run(input, host.progress).fault;
  host.progress->finish();
  report.pass = !report.fault && !report.first && report.operations.size() == exact.size();
  return report;
}

std::string compare_table(const CompareReport& report) {
  std::string t = fmt::format("{:<52} {:>5} {:>10} {:>10} {:>12} {:>12}\n", "operation", "iter", "elements",
                              "different", "cosine FP32", "error FP32");
  for (const OperationError& op : report.operations) {
    t += fmt::format("{:<52} {:>5} {:>10} {:>10} {:>12} {:>12}\n", op.path, op.iteration, op.elements,
                     op.different, op.cosine_fp32 ? fmt::format("{:.8f}", *op.cosine_fp32) : "-",
                     op.max_fp32_error ? fmt::format("{:.6f}", *op.max_fp32_error) : "-");
  }
  if (report.first) {
    const Divergence& d = *report.first;
    t += fmt::format("first divergence: {} element {} on tile {} at {:#x}: simulated {}, exact {}\n", d.path,
                     d.element, d.tile, d.address, d.simulated, d.exact);
  }
  if (report.fault)
    t += fmt::format("device fault: {}: tile {}: {}\n", sim::name_of(report.fault->kind), report.fault->tile,
                     report.fault->what);
  return t + (report.pass ? "pass\n" : "FAIL\n");
}

std::string compare_json(const CompareReport& report) {
  using json = nlohmann::ordered_json;
  json j = {{"schema_version", 1},
            {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}}};
  json operations = json::array();
  for (const OperationError& op : report.operations) {
    json o = {{"path", op.path},
              {"iteration", op.iteration},
              {"elements", op.elements},
              {"different", op.different},
              {"max_sim_error", op.max_sim_error},
              {"samples", op.samples},
              {"samples_beyond", op.beyond},
              {"cosine_fp32", nullptr},
              {"max_fp32_error", nullptr}};
    if (op.cosine_fp32 && std::isfinite(*op.cosine_fp32)) o["cosine_fp32"] = *op.cosine_fp32;
    if (op.max_fp32_error) o["max_fp32_error"] = *op.max_fp32_error;
    operations.push_back(o);
  }
  j["compare"] = {{"operations", operations}, {"first_divergence", nullptr}, {"pass", report.pass}};
  if (report.first) {
    const Divergence& d = *report.first;
    j["compare"]["first_divergence"] = {{"path", d.path},           {"element", d.element},
                                        {"tile", d.tile},           {"address", d.address},
                                        {"simulated", d.simulated}, {"exact", d.exact}};
  }
  if (report.fault)
    j["compare"]["fault"] = {{"kind", sim::name_of(report.fault->kind)}, {"what", report.fault->what}};
  return j.dump(2) + "\n";
}

}  // namespace tw::tools
