// What the programs share around their commands: signals, exit codes, messages and JSON of failures (cli.md).
#pragma once
#include <functional>
#include <string>

namespace tw::tools {

// Runs `body` and returns its exit code; a failure becomes a message on standard error, the error object of
// cli.md when `--json` is among the arguments, and the exit code of its kind.
int run_program(const char* name, int argc, const char* const* argv, const std::function<int()>& body);

}  // namespace tw::tools
