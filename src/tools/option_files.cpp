#include "tools/option_files.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace tw::tools {
namespace fs = std::filesystem;
namespace {

struct NamedFile {
  std::string option;
  fs::path path;  // canonical; "-": standard output
};
struct NamedFiles {
  std::vector<NamedFile> inputs, outputs;
};

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_single_name() : option.get_name(false, false);
}

fs::path resolved(const fs::path& path) {
  std::error_code code;
  const fs::path found = fs::weakly_canonical(fs::absolute(path, code), code);
  return code ? path : found;
}

// What a report's folder holds, and what --save-reference-inputs writes.
std::vector<const char*> written_in_folder(const CLI::App& app, const std::string& option) {
  if (option == "--save-reference-inputs") return {"weights.bin", "input.bin", "output.bin"};
  if (option == "--report" || option == "--memory-profile-directory") return {"report.html", "report.json"};
  if (option != "--output" || app.get_name() != "report") return {};
  if (app.count("--trace") > 0) return {"report.html", "report.json"};
  return {"report.html", "report.json", "trace.json"};
}

// Of a checkpoint's folder or index, or a fixture's folder: the files that stand there.
void add_folder(std::vector<NamedFile>& inputs, const std::string& option, const fs::path& folder) {
  std::error_code code;
  if (option == "--reference-fixture") {
    for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end;
         entry.increment(code))
      if (entry->is_regular_file(code)) inputs.push_back({option, resolved(entry->path())});
    return;
  }
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
      inputs.push_back({option, resolved(entry->path())});
  }
}

void add(NamedFiles& files, const CLI::App& app, const std::string& option, const std::string& value,
         bool output) {
  if (output && value == "-") {
    files.outputs.push_back({option, value});
    return;
  }
  const fs::path path = resolved(value);
  if (output) {
    const std::vector<const char*> written = written_in_folder(app, option);
    for (const char* name : written) files.outputs.push_back({option, path / name});
    if (written.empty()) files.outputs.push_back({option, path});
    return;
  }
  std::error_code code;
  files.inputs.push_back({option, path});
  if (option != "--weights" && option != "--reference-fixture") return;
  if (fs::is_directory(path, code)) add_folder(files.inputs, option, path);
  if (path.extension() == ".json") add_folder(files.inputs, option, path.parent_path());
}

bool takes_files(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.find("FILE") != std::string::npos || type.find("DIR") != std::string::npos;
}

NamedFiles files_of(const CLI::App& app) {
  const CLI::Option* reuse = app.get_option_no_throw("--reuse-package");
  const bool reuses = reuse != nullptr && reuse->count() > 0;
  NamedFiles files;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = name_of(*option);
    const bool output = is_one_of(name, {"--output", "--json", "--csv", "--trace", "--report",
                                         "--dump-problems", "--save-outputs", "--save-reference-inputs",
                                         "--memory-profile-directory", "--profile-output"}) ||
                        (name == "--package" && !reuses);
    for (std::string value : option->results()) {
      const bool is_model = name == "model" && value.ends_with(".onnx");
      if (!takes_files(*option) && !is_model) continue;
      if (value.empty())
        throw Error(ErrorKind::Usage, fmt::format("{}: the name of the file is empty", name));
      if (name == "--input") value = value.substr(value.find('=') + 1);
      if (name == "--weights" && value == "random") continue;
      add(files, app, name, value, output);
    }
  }
  return files;
}

void require_apart(const NamedFile& a, const NamedFile& b) {
  if (a.path != b.path) return;
  throw SameFile(fmt::format("{} and {} name the same file: {}", a.option, b.option, a.path.string()),
                 a.path != "-" && (a.option == "--json" || b.option == "--json"));
}

}  // namespace

void check_option_files(const CLI::App& app) {
  NamedFiles files = files_of(app);
  // The one that must not be written to comes first.
  std::ranges::stable_partition(files.outputs, [](const NamedFile& f) { return f.option == "--json"; });
  for (std::size_t a = 0; a < files.outputs.size(); ++a) {
    for (const NamedFile& input : files.inputs) require_apart(files.outputs[a], input);
    for (std::size_t b = a + 1; b < files.outputs.size(); ++b)
      require_apart(files.outputs[a], files.outputs[b]);
  }
}

int tell_same_file(const char* program, const SameFile& error) {
  if (!error.json) throw error;
  fmt::print(stderr, "{}: {}\n", program, error.what());
  return exit_code(error.kind);
}

}  // namespace tw::tools
