// `tilewright report`: report.html, report.json and trace.json of a package in one folder.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/pipeline.h"

namespace tw::tools {

struct ReportFiles {
  struct File {
    std::string file;
    std::uint64_t bytes = 0;
  };
  File html, json, trace;
};
// `trace_tiles` empty: the fullest tile and the one with most kernel cycles. Creates `folder` where missing.
// Error{File} for the package, Error{Io} for the folder.
ReportFiles write_report(const Host& host, const std::string& package_file, const std::string& folder,
                         std::vector<std::uint32_t> trace_tiles);

std::string report_table(const ReportFiles& files);
std::string report_files_json(const ReportFiles& files);

}  // namespace tw::tools
