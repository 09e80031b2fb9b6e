// Help that begins with its examples (cli.md).
#pragma once

namespace CLI {
class App;
}

namespace tw::tools {

// Prints the footer of `app` and of the sub-commands added afterwards, their examples, before everything
// else.
void examples_first(CLI::App& app);

}  // namespace tw::tools
