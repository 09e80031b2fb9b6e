// What a program's command line accepts, as help, and as a table for completion scripts and man pages. Both
// are read from the CLI11 definition that parses, so none can miss an option.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tw::tools {

// Prints the footer of `app` and of the sub-commands added afterwards, their examples, before everything
// else (cli.md).
void examples_first(CLI::App& app);

struct OptionEntry {
  std::vector<std::string> names;   // "-o", "--output"; a positional: its one name
  std::string argument;             // FILE, DIR, MODEL, UINT, ...; empty: a flag
  std::vector<std::string> values;  // the accepted ones, where they are words
  std::string range;                // "1 - 4096"; empty: any
  std::string text, default_value;
  bool positional = false, required = false, repeatable = false;
};
struct CommandTable {
  std::string name;  // "tilewright", "compile"
  std::string text, examples;
  std::vector<OptionEntry> options;  // positionals last
  std::vector<CommandTable> commands;
};
CommandTable table_of(const CLI::App& app, const std::string& name);

// Type name of an option whose words are known but checked elsewhere: "MODEL:{a,b}".
std::string type_of_words(const std::string& argument, const std::vector<std::string>& words);

}  // namespace tw::tools
