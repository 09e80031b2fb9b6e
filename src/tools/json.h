// The JSON objects of cli.md (schema_version 1) as text, and the tables people read.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/pipeline.h"

namespace tw::tools {

struct PackageFile {
  std::string file;  // empty: not written
  std::uint64_t bytes = 0;
  std::string sha256;
};

// The figures of compile_json that are the same on every host: no seconds, no memory of the host, no file.
std::string summary_json(const Device& device, const Recipe& recipe, const model::Model& model,
                         const compile::Report& report);
// Of a model that does not fit: what was to be built, and "fits": false.
std::string refused_summary_json(const Device& device, const Recipe& recipe);
std::string compile_json(const Host& host, const Recipe& recipe, const model::Model& model,
                         const compile::Report& report, const PackageFile& file);
// `compiled`: also the cycles of every operation, when the run's package was compiled in the same go.
std::string run_json(const Host& host, const RunReport& report, const compile::Report* compiled = nullptr);
// Wraps objects as {"schema_version", "tool", "compile": ..., "run": ...}; empty texts are left out.
std::string result_json(const std::string& compile, const std::string& run);
std::string error_object_json(const Error& error);  // cli.md's `error` alone
std::string error_json(const Error& error);
std::string internal_error_json(const std::string& what);

std::string compile_table(const Recipe& recipe, const model::Model& model, const compile::Report& report);
std::string run_table(const Host& host, const RunReport& report);

// Estimated, scheduled and simulated cycles of one call side by side, by one rule (compile/operations.h).
struct OperationRow {
  std::string path;
  double estimated = 0, scheduled = 0, simulated = 0;
};
std::vector<OperationRow> operation_rows(const compile::Report& compiled, const RunReport& run);
std::string operation_table(const compile::Report& compiled, const RunReport& run);

}  // namespace tw::tools
