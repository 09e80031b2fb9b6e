// The sub-commands of `tilewright`: exit codes and messages of cli.md.
#pragma once

namespace tw::tools {

int tilewright(int argc, const char* const* argv);

}  // namespace tw::tools
