#include "tools/report_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "package/package.h"
#include "report/compare.h"
#include "report/report.h"
#include "tools/files.h"
#include "tools/json.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxTraceTiles = 32;  // viewers load some hundred MB

// The tile that sends most words of a call to `receiver`.
std::uint32_t most_heard(const report::Report& r, std::uint32_t receiver) {
  std::vector<std::uint64_t> words(r.tiles.size(), 0);
  for (std::size_t p = 0; p < r.phases.size(); ++p)
    for (const report::Window& w : r.rows[receiver][p].windows)
      if (w.source != receiver) words[w.source] += std::uint64_t{w.words} * r.phases[p].iterations;
  return static_cast<std::uint32_t>(std::ranges::max_element(words) - words.begin());
}

std::vector<std::uint32_t> default_tiles(const report::Report& r) {
  auto most = [&](auto figure) {
    return static_cast<std::uint32_t>(std::ranges::max_element(r.tiles, {}, figure) - r.tiles.begin());
  };
  const std::uint32_t fullest = most(&report::Tile::peak_bytes);
  return {fullest, most(&report::Tile::kernel_cycles), most_heard(r, fullest)};
}

std::vector<std::uint32_t> each_once(const std::vector<std::uint32_t>& tiles) {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t t : tiles)
    if (std::ranges::find(out, t) == out.end()) out.push_back(t);
  return out;
}

void check_tiles(const report::Report& report, const std::vector<std::uint32_t>& tiles) {
  for (const std::uint32_t t : tiles)
    if (t >= report.tiles.size())
      throw Error(ErrorKind::Usage,
                  fmt::format("--trace-tile {}: the package has {} tiles", t, report.tiles.size()));
  if (tiles.size() > kMaxTraceTiles)
    throw Error(ErrorKind::Usage,
                fmt::format("--trace-tile {} times: at most {}", tiles.size(), kMaxTraceTiles));
}

report::Report report_of(const Host& host, const package::Package& package, const std::string& file) {
  return report::build(host.device, package, fs::path(file).filename().string(),
                       file.empty() ? 0 : fs::file_size(file), host.threads);
}

ReportFiles page_in(const std::string& folder) {
  ReportFiles files;
  files.html.file = (fs::path(folder) / "report.html").string();
  files.json.file = (fs::path(folder) / "report.json").string();
  return files;
}

void prepare(const ReportFiles& files) {
  for (const ReportFiles::File* f : {&files.html, &files.json, &files.trace}) {
    if (f->file.empty()) continue;
    make_parents(f->file);
    require_writable(f->file);
  }
}

void write(ReportFiles::File& f, const std::string& text) {
  write_text(text, f.file);
  f.bytes = text.size();
}

void write_page(ReportFiles& files, const report::Report& report, const std::string& other) {
  const std::string json = report::to_json(report);
  write(files.json, json);
  write(files.html, report::to_html(json, other));
}

// Empty for no file.
std::string report_to_compare(const Host& host, const std::string& file) {
  if (file.empty()) return "";
  const std::string name = fs::path(file).filename().string();
  if (const std::string text = read_text(file); text.starts_with('{') || text.starts_with('['))
    return report::comparable(text, name);
  return report::comparable(report::to_json(report_of(host, package::read(file), file)), name);
}

}  // namespace

ReportFiles write_page(const Host& host, const package::Package& package, const std::string& package_file,
                       const std::string& folder) {
  ReportFiles files = page_in(folder);
  const report::Report report = report_of(host, package, package_file);
  prepare(files);
  write_page(files, report, "");
  return files;
}

ReportFiles write_unplaced_page(const Host& host, const Recipe& recipe, const compile::Unplaced& unplaced,
                                const std::string& folder) {
  ReportFiles files = page_in(folder);
  package::Package package;
  package.side = unplaced.side;
  package.side.summary_json = refused_summary_json(host.device, recipe);
  package.image.bindings = unplaced.weights;
  package.image.tiles.resize(host.device.tiles);
  const report::Report report =
      report::build_unplaced(host.device, package, error_object_json(unplaced.error));
  prepare(files);
  write_page(files, report, "");
  return files;
}

ReportFiles write_report(const Host& host, const std::string& package_file, const ReportPlaces& places,
                         const std::string& other, std::vector<std::uint32_t> trace_tiles) {
  ReportFiles files;
  if (!places.folder.empty()) {
    files = page_in(places.folder);
    files.trace.file = (fs::path(places.folder) / "trace.json").string();
  }
  if (!places.trace.empty()) files.trace.file = places.trace;
  if (files.trace.file.empty()) throw Error(ErrorKind::Usage, "report: give -o DIR, --trace FILE or both");
  if (places.folder.empty() && !other.empty())
    throw Error(ErrorKind::Usage, "--compare adds a view to the page: give -o DIR");
  const std::string second = report_to_compare(host, other);
  const package::Package package = package::read(package_file);
  const report::Report report = report_of(host, package, package_file);
  check_tiles(report, trace_tiles);
  if (trace_tiles.empty()) trace_tiles = default_tiles(report);
  trace_tiles = each_once(trace_tiles);
  prepare(files);
  write(files.trace, report::to_trace(report, package, trace_tiles));
  if (!places.folder.empty()) write_page(files, report, second);
  return files;
}

std::string report_table(const ReportFiles& f) {
  std::string out;
  auto line = [&](const char* what, const ReportFiles::File& file, const char* remark) {
    if (!file.file.empty()) out += fmt::format("  {:<26} {} ({} B{})\n", what, file.file, file.bytes, remark);
  };
  line("report", f.html, "; opens offline");
  line("numbers", f.json, "");
  line("trace", f.trace, "; for Perfetto or chrome://tracing");
  return out;
}

std::string report_files_json(const ReportFiles& f) {
  auto object = [](const ReportFiles::File& x) {
    return x.file.empty() ? nlohmann::ordered_json(nullptr)
                          : nlohmann::ordered_json{{"file", x.file}, {"bytes", x.bytes}};
  };
  nlohmann::ordered_json j = nlohmann::ordered_json::parse(result_json("", ""));
  j["report"] = {{"html", object(f.html)}, {"json", object(f.json)}, {"trace", object(f.trace)}};
  return j.dump(2) + "\n";
}

}  // namespace tw::tools
