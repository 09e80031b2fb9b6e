#include "tools/report_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "package/package.h"
#include "report/report.h"
#include "tools/files.h"
#include "tools/json.h"

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

std::vector<std::uint32_t> fullest_and_busiest(const report::Report& r) {
  auto most = [&](auto figure) {
    return static_cast<std::uint32_t>(std::ranges::max_element(r.tiles, {}, figure) - r.tiles.begin());
  };
  const std::uint32_t fullest = most(&report::Tile::peak_bytes), busiest = most(&report::Tile::kernel_cycles);
  return fullest == busiest ? std::vector{fullest} : std::vector{fullest, busiest};
}

}  // namespace

ReportFiles write_report(const Host& host, const std::string& package_file, const std::string& folder,
                         std::vector<std::uint32_t> trace_tiles) {
  ReportFiles files;
  files.html.file = (fs::path(folder) / "report.html").string();
  files.json.file = (fs::path(folder) / "report.json").string();
  files.trace.file = (fs::path(folder) / "trace.json").string();
  const package::Package package = package::read(package_file);
  const report::Report report =
      report::build(host.device, package, fs::path(package_file).filename().string(),
                    fs::file_size(package_file), host.threads);
  for (const std::uint32_t t : trace_tiles)
    if (t >= report.tiles.size())
      throw Error(ErrorKind::Usage,
                  fmt::format("--trace-tile {}: the package has {} tiles", t, report.tiles.size()));
  if (trace_tiles.empty()) trace_tiles = fullest_and_busiest(report);
  make_parents(files.html.file);
  for (const ReportFiles::File* f : {&files.html, &files.json, &files.trace}) require_writable(f->file);
  auto write = [](ReportFiles::File& f, const std::string& text) {
    write_text(text, f.file);
    f.bytes = text.size();
  };
  const std::string json = report::to_json(report);
  write(files.trace, report::to_trace(report, trace_tiles));
  write(files.json, json);
  write(files.html, report::to_html(json));
  return files;
}

std::string report_table(const ReportFiles& f) {
  return fmt::format(
      "  report                     {} ({} B; opens offline)\n"
      "  numbers                    {} ({} B)\n"
      "  trace                      {} ({} B; for Perfetto or chrome://tracing)\n",
      f.html.file, f.html.bytes, f.json.file, f.json.bytes, f.trace.file, f.trace.bytes);
}

std::string report_files_json(const ReportFiles& f) {
  auto object = [](const ReportFiles::File& x) {
    return nlohmann::ordered_json{{"file", x.file}, {"bytes", x.bytes}};
  };
  nlohmann::ordered_json j = nlohmann::ordered_json::parse(result_json("", ""));
  j["report"] = {{"html", object(f.html)}, {"json", object(f.json)}, {"trace", object(f.trace)}};
  return j.dump(2) + "\n";
}

}  // namespace tw::tools
