#include "tools/program.h"

#include <fmt/core.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/temporary.h"
#include "ref/blas.h"
#include "tools/files.h"
#include "tools/json.h"

namespace tw::tools {
namespace {

// --json is honoured for failures too, also when the command line itself is wrong.
std::string json_target(int argc, const char* const* argv) {
  for (int a = 1; a < argc; ++a) {
    if (std::strcmp(argv[a], "--json") == 0 && a + 1 < argc) return argv[a + 1];
    if (std::strncmp(argv[a], "--json=", 7) == 0) return argv[a] + 7;
  }
  return "";
}

// Starts the program again with the kernels that OpenBLAS missed; where that fails it goes on, more slowly.
void choose_blas_kernels(const char* const* argv) {
  const char* kernels = ref::missed_blas_kernels();
  if (kernels == nullptr || setenv("OPENBLAS_CORETYPE", kernels, 0) != 0) return;
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  execv(self.c_str(), const_cast<char* const*>(argv));
}

}  // namespace

int run_program(const char* name, int argc, const char* const* argv, const std::function<int()>& body) {
  choose_blas_kernels(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a write error, not a death
  std::signal(SIGPIPE, SIG_IGN);
  install_interrupt_handler();
  // Standard output belongs to tables and JSON.
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>(name, std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("%n: %l: %v");
  const std::string json_file = json_target(argc, argv);
  auto report = [&](const std::string& json, const std::string& text) {
    fmt::print(stderr, "{}: {}\n", name, text);
    if (json_file.empty()) return;
    try {
      write_text(json, json_file);
    } catch (const Error& e) {
      fmt::print(stderr, "{}: {}\n", name, e.what());
    }
  };
  try {
    return body();
  } catch (const Error& e) {
    report(error_json(e), e.what());
    return exit_code(e.kind);
  } catch (const std::bad_alloc&) {
    report(internal_error_json("out of host memory"), "out of host memory");
    return 1;
  } catch (const std::exception& e) {
    report(internal_error_json(e.what()),
           fmt::format("internal error: {}\nThis is a bug in {}. Please report it with the command line and "
                       "this message.",
                       e.what(), name));
    return 1;
  }
}

}  // namespace tw::tools
