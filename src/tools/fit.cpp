#include "tools/fit.h"

#include <fmt/core.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/source.h"

namespace tw::tools {
namespace {

constexpr std::uint64_t kCaseBytes = 3ULL << 30;  // host memory of one construction at full depth, at most

std::uint32_t parse_number(const char* option, std::string_view text, std::uint32_t limit) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > limit)
    throw Error(ErrorKind::Usage, fmt::format("{}: \"{}\" is no number in 1..{} (write 1..8, 1,2,4 or 2)",
                                              option, text, limit));
  return value;
}

// A device and what tells it from others in the cache.
struct Target {
  Device device;
  std::string name, text;
};

Target target_of(const std::string& file) {
  Target t{load_device(file), {}, {}};
  t.name = t.device.name + " (" + file + ")";
  t.text = read_text(file);
  return t;
}

// Reasons that every compilation of these options meets again: the plan is too large, or its one schedule
// exceeds a limit. The search for addresses may miss an order, and an unsupported operation says nothing
// about room.
bool decides(const FitAttempt& a) {
  constexpr std::array kinds = {ErrorKind::Capacity,  ErrorKind::Contiguity, ErrorKind::ExchangeTable,
                                ErrorKind::Fragments, ErrorKind::Code,       ErrorKind::HostBuffer};
  return a.refused && std::ranges::find(kinds, *a.refused) != kinds.end();
}

std::string reason(const FitRow& row) {
  const auto open = std::ranges::find_if_not(row.attempts, decides);
  if (open != row.attempts.end())
    return fmt::format("the plan of the {} policy failed with {}, which proves nothing",
                       name_of(open->policy), kind_name(*open->refused));
  const bool capacity = std::ranges::all_of(row.attempts, [](const FitAttempt& a) {
    return a.refused == ErrorKind::Capacity || a.refused == ErrorKind::Contiguity;
  });
  return fmt::format("{} {}",
                     row.attempts.size() == 1 ? "the plan of this policy" : "the plan of every policy",
                     capacity ? "holds more live bytes than a tile has" : "exceeds a tile or a limit");
}

FitAttempt attempt(const Host& host, const Recipe& recipe, const model::Model& model) {
  FitAttempt a{.policy = recipe.policy, .refused = {}, .result = {}};
  Progress silent;
  const auto begin = std::chrono::steady_clock::now();
  try {
    const compile::Result built =
        compile::compile(host.device, model.graph, compile_options(recipe, host.threads), silent);
    a.result = summary_json(host.device, recipe, model, built.report);
  } catch (const Error& e) {
    if (exit_code(e.kind) != 3) throw;  // not about fitting
    a.refused = e.kind;
    a.result = error_object_json(e);
  }
  a.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return a;
}

void decide(const Host& host, const Target& target, const FitOptions& options, FitCache& cache, FitRow& row) {
  const model::Model model = open_source(row.recipe).model;
  row.recipe.model = model.config;
  row.parameters = model.parameters;
  row.bound = fit_bound(target.device, model, row.recipe);
  if (row.bound.exceeded()) {
    row.verdict = Verdict::CannotFit;
    row.proof = "parameters, one product's operand and its result alone exceed the memory of the tiles";
    return;
  }
  Host one = host;
  one.device = target.device;
  for (const plan::Policy policy : options.policies) {
    Recipe recipe = row.recipe;
    recipe.policy = policy;
    std::optional<FitAttempt> known = cache.find(target.text, recipe);
    if (!known) {
      known = attempt(one, recipe, model);
      cache.keep(target.text, recipe, *known);
    }
    row.attempts.push_back(*std::move(known));
    if (!row.attempts.back().refused) break;
  }
  row.verdict = verdict_of(row.attempts);
  if (row.verdict != Verdict::Fits) row.proof = reason(row);
}

std::vector<FitRow> combinations(const Recipe& recipe, const FitOptions& options, std::size_t targets) {
  const auto given = [](const auto& list, auto otherwise) {
    return list.empty() ? std::vector{otherwise} : list;
  };
  std::vector<FitRow> rows;
  for (std::uint32_t target = 0; target < targets; ++target) {
    for (const tensor::Precision precision : given(options.precisions, recipe.precision)) {
      for (const std::uint32_t tiles : given(options.tiles, recipe.tiles)) {
        for (const std::uint32_t layers : given(options.layers, recipe.model.layers)) {
          for (const std::uint32_t batch : given(options.batches, recipe.model.batch)) {
            FitRow row;
            row.target = target;
            row.recipe = recipe;
            row.recipe.precision = precision;
            row.recipe.tiles = tiles;
            row.recipe.model.layers = layers;
            row.recipe.model.batch = batch;
            rows.push_back(std::move(row));
          }
        }
      }
    }
  }
  return rows;
}

// Constructions at the same time: one for each thread, as far as memory goes.
unsigned jobs(unsigned threads) {
  struct sysinfo info{};
  const std::uint64_t bytes = sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit : 0;
  const auto room = static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / kCaseBytes, 1, 1024));
  return std::min(threads == 0 ? default_threads() : threads, room);
}

}  // namespace

std::vector<std::uint32_t> parse_numbers(const char* option, const std::string& text, std::uint32_t limit) {
  std::set<std::uint32_t> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    const std::size_t dots = part.find("..");
    const std::uint32_t first = parse_number(option, part.substr(0, dots), limit);
    const std::uint32_t last =
        dots == std::string_view::npos ? first : parse_number(option, part.substr(dots + 2), limit);
    if (last < first) throw Error(ErrorKind::Usage, fmt::format("{}: {} is empty", option, part));
    for (std::uint32_t n = first; n <= last; ++n) numbers.insert(n);
    at = comma + 1;
  }
  return {numbers.begin(), numbers.end()};
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
  if (std::any_of(attempts.begin(), attempts.end(), [](const FitAttempt& a) { return !a.refused; }))
    return Verdict::Fits;
  return !attempts.empty() && std::all_of(attempts.begin(), attempts.end(), decides) ? Verdict::CannotFit
                                                                                     : Verdict::Undecided;
}

FitReport fit(const Host& host, const Recipe& recipe, const FitOptions& options) {
  std::vector<Target> targets;
  for (const std::string& file : options.targets) targets.push_back(target_of(file));
  if (targets.empty()) targets.push_back({host.device, host.device.name, host.device.name});
  FitReport report;
  for (const Target& t : targets) report.targets.push_back(t.name);
  report.rows = combinations(recipe, options, targets.size());
  for (const FitRow& row : report.rows) open_source(row.recipe);  // what does not exist, first
  FitCache cache(options.cache, !options.no_cache);
  host.progress->stage("fit", report.rows.size());
  const auto one = [&](FitRow& row) {
    decide(host, targets[row.target], options, cache, row);
    host.progress->advance();
  };
  // A single row has all threads for itself; several are constructed side by side.
  if (report.rows.size() == 1) {
    one(report.rows.front());
  } else {
    parallel_for(report.rows.size(), 1, jobs(host.threads), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) one(report.rows[i]);
    });
  }
  return report;
}

}  // namespace tw::tools
