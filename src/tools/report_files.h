// `tilewright report`: report.html, report.json and trace.json of a package in one folder, or the trace
// alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/pipeline.h"

namespace tw::tools {

struct ReportFiles {
  struct File {
    std::string file;  // empty: not written
    std::uint64_t bytes = 0;
  };
  File html, json, trace;
};
struct ReportPlaces {
  std::string folder;  // for all files, created where missing; empty: the trace only
  std::string trace;   // file of the trace; empty: trace.json in `folder`
};
// report.html and report.json of a package in `folder`, which is created where missing. `package_file`: where
// the package stands; empty: nowhere. Error{File} for the package, Error{Io} for the folder.
ReportFiles write_page(const Host& host, const package::Package& package, const std::string& package_file,
                       const std::string& folder);
// The same of a model that does not fit (report::build_unplaced).
ReportFiles write_unplaced_page(const Host& host, const Recipe& recipe, const compile::Unplaced& unplaced,
                                const std::string& folder);
// `other`: report.json or package to compare with; empty: none. `trace_tiles` empty: the fullest tile, the
// one with most kernel cycles, and the one that the fullest hears most from. Error{File} for the package and
// `other`, Error{Io} for the places, Error{Usage} for tiles.
ReportFiles write_report(const Host& host, const std::string& package_file, const ReportPlaces& places,
                         const std::string& other, std::vector<std::uint32_t> trace_tiles);

std::string report_table(const ReportFiles& files);
std::string report_files_json(const ReportFiles& files);

}  // namespace tw::tools
