#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/capacity.h"
#include "tools/fit.h"
#include "tools/json.h"

namespace tw::tools {
namespace {
using tw::grouped;
using json = nlohmann::ordered_json;

std::uint64_t number(const json& j, const char* key) { return j.at(key).get<std::uint64_t>(); }

// What distinguishes a row from the others, but for its batch.
struct Group {
  std::uint32_t target = 0, layers = 0, tiles = 0;
  tensor::Precision precision{};
  bool operator==(const Group&) const = default;
};
Group group_of(const FitRow& row) {
  return {row.target, row.recipe.model.layers, row.recipe.tiles, row.recipe.precision};
}
std::vector<Group> groups(const FitReport& report) {
  std::vector<Group> out;
  for (const FitRow& row : report.rows) {
    if (out.empty() || !(out.back() == group_of(row))) out.push_back(group_of(row));
  }
  return out;
}
std::optional<std::uint32_t> largest(const FitReport& report, const Group& group) {
  std::optional<std::uint32_t> batch;
  for (const FitRow& row : report.rows) {
    if (group_of(row) == group && row.verdict == Verdict::Fits)
      batch = std::max(batch.value_or(0), row.recipe.model.batch);
  }
  return batch;
}

std::string fitting(const json& compile) {
  const json& m = compile.at("memory");
  const json& e = compile.at("exchange");
  const std::uint64_t peak = number(m, "peak_tensor_bytes"), budget = number(m, "budget_bytes");
  return fmt::format(
      "{} of {} B ({} interleaved), {} free; tile {}, step {} ({}); table {} B, {} fragments; {} cycles",
      grouped(peak), grouped(budget), grouped(number(m, "peak_interleaved_bytes")), grouped(budget - peak),
      number(m, "peak_tile"), number(m, "peak_step"), m.at("peak_step_path").get<std::string>(),
      grouped(number(e, "table_bytes_max")), grouped(number(e, "fragments_max")),
      grouped(static_cast<std::uint64_t>(compile.at("cycles").at("scheduled").get<double>() + 0.5)));
}

std::string refused(const json& error) {
  const std::string kind = error.at("kind");
  if (!error.contains("needed_bytes")) {
    const std::string message = error.at("message");
    return fmt::format("{}: {}", kind, message.substr(0, message.find('\n')));
  }
  std::string t =
      fmt::format("{}: needed {}, available {}, {} missing; tile {}", kind,
                  grouped(number(error, "needed_bytes")), grouped(number(error, "available_bytes")),
                  grouped(number(error, "missing_bytes")), number(error, "tile"));
  const std::string path = error.at("step_path");
  if (!path.empty()) t += fmt::format(", step {} ({})", error.at("step").get<std::int64_t>(), path);
  return t;
}

std::string line_of(const FitRow& row) {
  std::string t = fmt::format("  {:>5}  {:<10}", row.recipe.model.batch, name_of(row.verdict));
  if (row.attempts.empty())
    return t + fmt::format("  at least {} B on the fullest tile, {} B available, {} missing: {} ({})\n",
                           grouped(row.bound.bytes_per_tile), grouped(row.bound.available_bytes),
                           grouped(row.bound.bytes_per_tile - row.bound.available_bytes), row.proof,
                           row.bound.product);
  for (const FitAttempt& a : row.attempts) {
    if (&a != &row.attempts.front()) t += fmt::format("  {:>5}  {:<10}", "", "");
    const json result = json::parse(a.result);
    t += fmt::format("  {:<8}  {}\n", name_of(a.policy), a.refused ? refused(result) : fitting(result));
  }
  if (!row.proof.empty()) t += fmt::format("  {:>5}  {:<10}  {}\n", "", "", row.proof);
  return t;
}

json attempt_json(const FitAttempt& a) {
  json j = {{"policy", name_of(a.policy)},
            {"seconds", a.seconds},
            {"cached", a.cached},
            {"compile", nullptr},
            {"error", nullptr}};
  const json result = json::parse(a.result);
  j[a.refused ? "error" : "compile"] = result;
  if (!a.refused)
    j["headroom_bytes"] =
        number(result.at("memory"), "budget_bytes") - number(result.at("memory"), "peak_tensor_bytes");
  return j;
}

json row_json(const FitReport& report, const FitRow& row) {
  const FitBound& b = row.bound;
  json r = {{"batch", row.recipe.model.batch},
            {"layers", row.recipe.model.layers},
            {"precision", precision_name(row.recipe.precision)},
            {"tiles", row.recipe.tiles},
            {"target", report.targets[row.target]},
            {"parameters", row.parameters},
            {"verdict", name_of(row.verdict)},
            {"policy", nullptr},
            {"proof", row.proof},
            {"bound",
             {{"bytes_per_tile", b.bytes_per_tile},
              {"available_bytes", b.available_bytes},
              {"parameter_bytes", b.parameter_bytes},
              {"product_bytes", b.product_bytes},
              {"product", b.product}}},
            {"attempts", json::array()}};
  for (const FitAttempt& a : row.attempts) {
    r["attempts"].push_back(attempt_json(a));
    if (!a.refused) r["policy"] = name_of(a.policy);
  }
  return r;
}

// A field of a CSV line; numbers and names without commas stand as they are.
std::string field(const json& j) {
  if (j.is_null()) return "";
  if (!j.is_string()) return j.dump();
  std::string text = j.get<std::string>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, "\"");
  return "\"" + text + "\"";
}

// The attempt that says most of a row: the one that fits, else the one that misses least.
const FitAttempt* telling(const FitRow& row) {
  const FitAttempt* best = nullptr;
  std::uint64_t least = UINT64_MAX;
  for (const FitAttempt& a : row.attempts) {
    if (!a.refused) return &a;
    const std::uint64_t missing = json::parse(a.result).value("missing_bytes", UINT64_MAX - 1);
    if (missing < least) best = &a, least = missing;
  }
  return best;
}

constexpr const char* kColumns =
    "model,layers,batch,precision,tiles,target,parameters,verdict,policy,kind,peak_tensor_bytes,budget_bytes,"
    "headroom_bytes,peak_standard_bytes,peak_interleaved_bytes,parameter_bytes_total,reserve_bytes,tile,step,"
    "operation,needed_bytes,available_bytes,missing_bytes,exchange_phases,table_bytes_max,fragments_max,"
    "cycles_estimated,cycles_scheduled,seconds\n";

std::string csv_line(const FitReport& report, const FitRow& row) {
  std::vector<json> cells = {row.recipe.model.name,  row.recipe.model.layers,
                             row.recipe.model.batch, precision_name(row.recipe.precision),
                             row.recipe.tiles,       report.targets[row.target],
                             row.parameters,         name_of(row.verdict)};
  const FitAttempt* a = telling(row);
  const json none, result = a != nullptr ? json::parse(a->result) : json::object();
  const bool fits = a != nullptr && !a->refused;
  const json memory = result.value("memory", json::object()),
             exchange = result.value("exchange", json::object()),
             cycles = result.value("cycles", json::object());
  const auto of = [&](const json& from, const char* key) { return from.value(key, none); };
  cells.push_back(a != nullptr ? json(name_of(a->policy)) : none);
  cells.push_back(fits ? none : a != nullptr ? of(result, "kind") : json("capacity"));
  for (const char* key : {"peak_tensor_bytes", "budget_bytes"}) cells.push_back(of(memory, key));
  cells.push_back(fits ? json(number(memory, "budget_bytes") - number(memory, "peak_tensor_bytes")) : none);
  for (const char* key :
       {"peak_standard_bytes", "peak_interleaved_bytes", "parameter_bytes_total", "reserve_bytes"})
    cells.push_back(of(memory, key));
  cells.push_back(fits ? of(memory, "peak_tile") : of(result, "tile"));
  cells.push_back(fits ? of(memory, "peak_step") : of(result, "step"));
  cells.push_back(fits ? of(memory, "peak_step_path") : of(result, "step_path"));
  if (a == nullptr) {
    cells.insert(cells.end(), {row.bound.bytes_per_tile, row.bound.available_bytes,
                               row.bound.bytes_per_tile - row.bound.available_bytes});
  } else {
    for (const char* key : {"needed_bytes", "available_bytes", "missing_bytes"})
      cells.push_back(of(result, key));
  }
  for (const char* key : {"phases", "table_bytes_max", "fragments_max"}) cells.push_back(of(exchange, key));
  for (const char* key : {"estimated", "scheduled"}) cells.push_back(of(cycles, key));
  cells.push_back(a != nullptr ? json(a->seconds) : none);
  std::string line;
  for (const json& cell : cells) line += (&cell == &cells.front() ? "" : ",") + field(cell);
  return line + "\n";
}

}  // namespace

std::string fit_table(const FitReport& report) {
  std::string t;
  for (const Group& g : groups(report)) {
    bool first = true;
    for (const FitRow& row : report.rows) {
      if (!(group_of(row) == g)) continue;
      if (first)
        t += fmt::format("{} | {} layer(s), {}, {} tiles, {}\n  batch  verdict     policy    figures\n",
                         row.recipe.model.name, g.layers, precision_name(g.precision), g.tiles,
                         report.targets[g.target]);
      first = false;
      t += line_of(row);
    }
    const auto batch = largest(report, g);
    t += batch ? fmt::format("largest batch that fits: {}\n", *batch)
               : std::string("none of these batches is known to fit\n");
  }
  return t;
}

std::string fit_json(const FitReport& report) {
  json rows = json::array(), batches = json::array();
  for (const FitRow& row : report.rows) rows.push_back(row_json(report, row));
  const std::vector<Group> all = groups(report);
  for (const Group& g : all) {
    const auto batch = largest(report, g);
    batches.push_back({{"target", report.targets[g.target]},
                       {"precision", precision_name(g.precision)},
                       {"tiles", g.tiles},
                       {"layers", g.layers},
                       {"batch", batch ? json(*batch) : json(nullptr)}});
  }
  const FitRow& first = report.rows.front();
  json j = json::parse(result_json("", ""));
  j["fit"] = {{"model",
               {{"name", first.recipe.model.name},
                {"layers", first.recipe.model.layers},
                {"parameters", first.parameters}}},
              {"precision", precision_name(first.recipe.precision)},
              {"target", {{"name", report.targets.front()}, {"tiles", first.recipe.tiles}}},
              {"rows", rows},
              {"largest_batch", all.size() == 1 ? batches[0]["batch"] : json(nullptr)},
              {"largest_batches", batches}};
  return j.dump(2) + "\n";
}

std::string fit_csv(const FitReport& report) {
  std::string text = kColumns;
  for (const FitRow& row : report.rows) text += csv_line(report, row);
  return text;
}

}  // namespace tw::tools
