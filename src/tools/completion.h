// Completion scripts for shells, made from the tables of the command lines.
#pragma once
#include <string>
#include <vector>

#include "tools/help.h"

namespace tw::tools {

// `shell`: bash, zsh or fish. The script completes commands, options, their words, and names of files and
// folders.
std::string completion_script(const std::string& shell, const std::vector<CommandTable>& programs);

}  // namespace tw::tools
