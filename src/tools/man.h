// Manual pages, made from the tables of the command lines.
#pragma once
#include <string>
#include <vector>

#include "tools/help.h"

namespace tw::tools {

struct ManPage {
  std::string file;  // "tilewright-compile.1"
  std::string text;  // roff, man macros
};
// One page for each program and each of its commands.
std::vector<ManPage> man_pages(const std::vector<CommandTable>& programs);

}  // namespace tw::tools
