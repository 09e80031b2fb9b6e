#include "tools/fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <set>

#include "base/error.h"

namespace tw::tools {
namespace {

constexpr std::uint32_t kMaxBatch = 256;  // the models' own limit

std::uint32_t parse_batch(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > kMaxBatch)
    throw Error(ErrorKind::Usage, fmt::format("--batch: \"{}\" is no batch in 1..{} (write 1..8, 1,2,4 or 2)",
                                              text, kMaxBatch));
  return value;
}

// The parameters that products read, with the bodies' arguments resolved to the members they stand for.
std::set<std::uint32_t> product_weights(const graph::Graph& g) {
  std::set<std::uint32_t> weights;
  for (const graph::Op& op : g.ops) {
    if (op.kind == graph::OpKind::Gemm) weights.insert(op.inputs[1].value);
    if (op.kind != graph::OpKind::Repeat) continue;
    const graph::Repeat& r = g.repeats[op.repeat];
    std::set<std::uint32_t> used;
    for (const graph::Op& b : r.body) {
      if (b.kind == graph::OpKind::Gemm) used.insert(b.inputs[1].value);
    }
    const std::size_t carried = r.carried_in.size(), invariant = r.invariant_in.size();
    for (std::size_t a = 0; a < r.arguments.size(); ++a) {
      if (!used.contains(r.arguments[a].value)) continue;
      if (a >= carried + invariant) {
        for (const ValueId m : g.sequences[r.iterated[a - carried - invariant]].members)
          weights.insert(m.value);
      } else if (a >= carried) {
        weights.insert(r.invariant_in[a - carried].value);
      }
    }
  }
  return weights;
}

// The product with the largest left operand plus result.
void largest_product(const graph::Graph& g, const std::vector<graph::Op>& ops, std::uint64_t operand_bytes,
                     FitBound& bound) {
  for (const graph::Op& op : ops) {
    if (op.kind == graph::OpKind::Repeat) largest_product(g, g.repeats[op.repeat].body, operand_bytes, bound);
    if (op.kind != graph::OpKind::Gemm) continue;
    const graph::Value& left = g.at(op.inputs[0]);
    std::uint64_t bytes = 2 * tensor::elements(g.at(op.results[0]).shape);
    if (left.kind != graph::ValueKind::Parameter) bytes += operand_bytes * tensor::elements(left.shape);
    if (bytes <= bound.product_bytes) continue;
    bound.product_bytes = bytes;
    bound.product = op.path;
  }
}

FitAttempt attempt(const Host& host, const Recipe& recipe, const model::Model& model, plan::Policy policy) {
  FitAttempt a;
  a.policy = policy;
  Recipe with = recipe;
  with.policy = policy;
  const auto begin = std::chrono::steady_clock::now();
  try {
    a.report = compile::compile(host.device, model.graph, compile_options(with, host.threads), *host.progress)
                   .report;
  } catch (const Error& e) {
    if (exit_code(e.kind) != 3) throw;  // not about fitting
    a.error = e;
  }
  a.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return a;
}

// Reasons that every compilation of these options meets again: the plan is too large, or its one schedule
// exceeds a limit. The search for addresses may miss an order, and an unsupported operation says nothing
// about room.
bool decides(const FitAttempt& a) {
  constexpr std::array kinds = {ErrorKind::Capacity,  ErrorKind::Contiguity, ErrorKind::ExchangeTable,
                                ErrorKind::Fragments, ErrorKind::Code,       ErrorKind::HostBuffer};
  return a.error && std::find(kinds.begin(), kinds.end(), a.error->kind) != kinds.end();
}

std::string reason(const FitRow& row) {
  const auto open = std::find_if_not(row.attempts.begin(), row.attempts.end(), decides);
  if (open != row.attempts.end())
    return fmt::format("the plan of the {} policy failed with {}, which proves nothing",
                       name_of(open->policy), kind_name(open->error->kind));
  const bool capacity = std::all_of(row.attempts.begin(), row.attempts.end(), [](const FitAttempt& a) {
    return a.error->kind == ErrorKind::Capacity || a.error->kind == ErrorKind::Contiguity;
  });
  return fmt::format("{} {}",
                     row.attempts.size() == 1 ? "the plan of this policy" : "the plan of every policy",
                     capacity ? "holds more live bytes than a tile has" : "exceeds a tile or a limit");
}

FitRow fit_batch(const Host& host, const Recipe& recipe, const model::Model& model,
                 const FitOptions& options) {
  FitRow row;
  row.batch = model.config.batch;
  row.parameters = model.parameters;
  row.bound = fit_bound(host.device, model, recipe);
  if (row.bound.exceeded()) {
    row.verdict = Verdict::CannotFit;
    row.proof = "parameters, one product's operand and its result alone exceed the memory of the tiles";
    return row;
  }
  for (const plan::Policy policy : options.policies) {
    row.attempts.push_back(attempt(host, recipe, model, policy));
    if (!row.attempts.back().report) continue;
    row.verdict = Verdict::Fits;
    return row;
  }
  row.verdict = verdict_of(row.attempts);
  row.proof = reason(row);
  return row;
}

}  // namespace

std::vector<std::uint32_t> parse_batches(const std::string& text) {
  std::set<std::uint32_t> batches;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    const std::size_t dots = part.find("..");
    const std::uint32_t first = parse_batch(part.substr(0, dots));
    const std::uint32_t last = dots == std::string_view::npos ? first : parse_batch(part.substr(dots + 2));
    if (last < first) throw Error(ErrorKind::Usage, fmt::format("--batch: {} is empty", part));
    for (std::uint32_t b = first; b <= last; ++b) batches.insert(b);
    at = comma + 1;
  }
  return {batches.begin(), batches.end()};
}

FitBound fit_bound(const Device& device, const model::Model& model, const Recipe& recipe) {
  const graph::Graph& g = model.graph;
  const std::uint64_t operand_bytes = recipe.precision == tensor::Precision::F8 ? 1 : 2;
  const std::set<std::uint32_t> weights = product_weights(g);
  FitBound bound;
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind != graph::ValueKind::Parameter) continue;
    bound.parameter_bytes += tensor::elements(g.values[v].shape) * (weights.contains(v) ? operand_bytes : 2);
  }
  largest_product(g, g.ops, operand_bytes, bound);
  const std::uint64_t total = bound.parameter_bytes + bound.product_bytes;
  bound.bytes_per_tile = (total + recipe.tiles - 1) / recipe.tiles;
  bound.available_bytes = device.loader_end - device.data_base - 2 * device.element_bytes +
                          device.aperture_end - device.aperture_begin;
  return bound;
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Fits:
      return "fits";
    case Verdict::CannotFit:
      return "cannot-fit";
    case Verdict::Undecided:
      return "undecided";
  }
  return "";
}

Verdict verdict_of(const std::vector<FitAttempt>& attempts) {
  if (std::any_of(attempts.begin(), attempts.end(), [](const FitAttempt& a) { return a.report.has_value(); }))
    return Verdict::Fits;
  return !attempts.empty() && std::all_of(attempts.begin(), attempts.end(), decides) ? Verdict::CannotFit
                                                                                     : Verdict::Undecided;
}

FitReport fit(const Host& host, const Recipe& recipe, const FitOptions& options) {
  FitReport report;
  report.device = host.device;
  report.recipe = recipe;
  for (const std::uint32_t batch : options.batches) {
    Recipe one = recipe;
    one.model.batch = batch;
    const model::Model model = model::build(one.model);
    if (report.rows.empty()) report.model = model;
    report.rows.push_back(fit_batch(host, one, model, options));
    if (report.rows.back().verdict == Verdict::Fits) report.largest = batch;
  }
  return report;
}

}  // namespace tw::tools
