// The files and folders that a command line names, checked before any work.
#pragma once
#include "base/error.h"

namespace CLI {
class App;
}

namespace tw::tools {

// An output that is also an input or another output. `json`: it is the file of --json, to which this error
// must not be written either.
struct SameFile : Error {
  SameFile(const std::string& message, bool is_json) : Error(ErrorKind::Usage, message), json(is_json) {}
  bool json;
};

// Of a parsed program or command. An option takes files when its type name holds FILE or DIR; a folder stands
// for the files that the program reads or writes in it. Paths are compared as canonical ones.
// SameFile names both options. Error{Usage} names an option with an empty value.
void check_option_files(const CLI::App& app);

// The exit code of `error`, told on standard error alone when it must not be written to --json; else throws
// it.
int tell_same_file(const char* program, const SameFile& error);

}  // namespace tw::tools
