#include "tools/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tw::tools {
namespace {

// Of one program, flattened: without commands one entry of an empty name.
struct Context {
  std::string command;
  const CommandTable* table;
};
std::vector<Context> contexts(const CommandTable& program) {
  std::vector<Context> out{{"", &program}};
  for (const CommandTable& c : program.commands) out.push_back({c.name, &c});
  return out;
}

bool takes_file(const OptionEntry& o) { return o.argument == "FILE"; }
bool takes_folder(const OptionEntry& o) { return o.argument == "DIR"; }

std::vector<std::string> command_names(const CommandTable& program) {
  std::vector<std::string> out;
  for (const CommandTable& c : program.commands) out.push_back(c.name);
  return out;
}

std::string function_name(const std::string& program) {
  std::string name = "_" + program;
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string quoted(std::string text) {  // for single quotes of zsh and fish
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

// --- bash ---

std::string bash_candidates(const OptionEntry& o) {
  if (!o.values.empty()) return fmt::format("-W \"{}\"", fmt::join(o.values, " "));
  return takes_file(o) ? "-f" : takes_folder(o) ? "-d" : "";
}

std::string bash_program(const CommandTable& program) {
  std::string values, options, positionals;
  for (const Context& c : contexts(program)) {
    std::vector<std::string> names;
    for (const OptionEntry& o : c.table->options) {
      if (o.positional) {
        if (const std::string what = bash_candidates(o); !what.empty())
          positionals += fmt::format("      \"{}\") _tw_reply \"$cur\" {} ;;\n", c.command, what);
        continue;
      }
      names.insert(names.end(), o.names.begin(), o.names.end());
      if (o.argument.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& n : o.names) patterns.push_back(fmt::format("\"{} {}\"", c.command, n));
      const std::string what = bash_candidates(o);
      values += fmt::format("    {}) {}return ;;\n", fmt::join(patterns, " | "),
                            what.empty() ? "" : fmt::format("_tw_reply \"$cur\" {}; ", what));
    }
    options +=
        fmt::format("      \"{}\") _tw_reply \"$cur\" -W \"{}\" ;;\n", c.command, fmt::join(names, " "));
  }
  const std::vector<std::string> commands = command_names(program);
  if (!commands.empty())
    positionals += fmt::format("      \"\") _tw_reply \"$cur\" -W \"{}\" ;;\n", fmt::join(commands, " "));
  const std::string find_command = commands.empty()
                                       ? ""
                                       : fmt::format(
                                             "  case ${{COMP_WORDS[1]}} in\n    {}) ((COMP_CWORD > 1)) && "
                                             "command=${{COMP_WORDS[1]}} ;;\n  esac\n",
                                             fmt::join(commands, " | "));
  return fmt::format(R"(
{0}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=""
  COMPREPLY=()
  if [[ $cur == = ]]; then cur=""
  elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
{1}  case "$command $before" in
{2}  esac
  if [[ $cur == -* ]]; then
    case $command in
{3}    esac
  else
    case $command in
{4}    esac
  fi
}}
complete -F {0} {5}
)",
                     function_name(program.name), find_command, values, options, positionals, program.name);
}

std::string bash(const std::vector<CommandTable>& programs) {
  std::string out =
      "# Completion for bash: source <(tilewright completion bash)\n"
      "_tw_reply() {  # WORD then what compgen offers\n"
      "  local word=$1\n"
      "  shift\n"
      "  [[ $1 == -f || $1 == -d ]] && compopt -o filenames 2>/dev/null\n"
      "  mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$word\")\n"
      "}\n";
  for (const CommandTable& p : programs) out += bash_program(p);
  return out;
}

// --- zsh ---

std::string zsh_text(const std::string& text) {  // inside [...] of _arguments
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_argument(const OptionEntry& o) {
  if (o.argument.empty()) return "";
  const std::string action = !o.values.empty() ? fmt::format("({})", fmt::join(o.values, " "))
                             : takes_file(o)   ? "_files"
                             : takes_folder(o) ? "_files -/"
                                               : " ";
  return fmt::format(":{}:{}", zsh_text(o.positional ? o.names[0] : o.argument), action);
}

std::string zsh_arguments(const CommandTable& table) {
  std::string out = "_arguments";
  for (const OptionEntry& o : table.options) {
    if (o.positional) {
      out += " \\\n        " + quoted(zsh_argument(o));
      continue;
    }
    for (const std::string& n : o.names)
      out +=
          " \\\n        " +
          quoted(fmt::format("{}{}[{}]{}", o.repeatable ? "*" : fmt::format("({})", fmt::join(o.names, " ")),
                             n, zsh_text(o.text), zsh_argument(o)));
  }
  return out;
}

std::string zsh_program(const CommandTable& program) {
  if (program.commands.empty())
    return fmt::format("\n{}() {{\n  {}\n}}\n", function_name(program.name), zsh_arguments(program));
  std::string commands, cases;
  for (const CommandTable& c : program.commands) {
    commands += "    " + quoted(c.name + ":" + zsh_text(c.text)) + "\n";
    cases += fmt::format("    {})\n      {}\n      ;;\n", c.name, zsh_arguments(c));
  }
  return fmt::format(R"(
{0}() {{
  local -a commands=(
{1}  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe -t commands command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{2}    *)
      {3}
      ;;
  esac
}}
)",
                     function_name(program.name), commands, cases, zsh_arguments(program));
}

std::string zsh(const std::vector<CommandTable>& programs) {
  std::vector<std::string> names, functions, cases;
  for (const CommandTable& p : programs) {
    names.push_back(p.name);
    functions.push_back(zsh_program(p));
    cases.push_back(fmt::format("  {}) {} ;;\n", p.name, function_name(p.name)));
  }
  // Works from a folder of $fpath, where the file is the function, and after compinit with `source`.
  return fmt::format(
      "#compdef {0}\n# Completion for zsh: source <(tilewright completion zsh), or as _tilewright in a "
      "folder of "
      "$fpath\n{1}\n_tw_complete() {{\n  case $service in\n{2}  esac\n}}\n"
      "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _tw_complete \"$@\"\nelse\n  compdef "
      "_tw_complete "
      "{0}\nfi\n",
      fmt::join(names, " "), fmt::join(functions, ""), fmt::join(cases, ""));
}

// --- fish ---

std::string fish_option(const std::string& program, const std::string& condition, const OptionEntry& o) {
  std::string out = fmt::format("complete -c {} {}", program, condition);
  const std::string values =
      !o.values.empty() ? fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(o.values, " "))))
      : takes_file(o)   ? " -F"
      : takes_folder(o) ? " -x -a '(__fish_complete_directories)'"
                        : " -x";
  if (o.positional) return out + values + "\n";
  for (const std::string& n : o.names)
    out += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
  if (!o.argument.empty()) out += o.argument == "FILE" ? " -r -F" : values;
  return out + " -d " + quoted(o.text) + "\n";
}

std::string fish(const std::vector<CommandTable>& programs) {
  std::string out = "# Completion for fish: tilewright completion fish | source\n";
  for (const CommandTable& p : programs) {
    out += fmt::format("complete -c {} -f\n", p.name);
    const std::string no_command = p.commands.empty() ? ""
                                                      : fmt::format("-n 'not __fish_seen_subcommand_from {}'",
                                                                    fmt::join(command_names(p), " "));
    for (const CommandTable& c : p.commands)
      out += fmt::format("complete -c {} {} -a {} -d {}\n", p.name, no_command, c.name, quoted(c.text));
    for (const OptionEntry& o : p.options) out += fish_option(p.name, no_command, o);
    for (const CommandTable& c : p.commands)
      for (const OptionEntry& o : c.options)
        out += fish_option(p.name, fmt::format("-n '__fish_seen_subcommand_from {}'", c.name), o);
  }
  return out;
}

}  // namespace

std::string completion_script(const std::string& shell, const std::vector<CommandTable>& programs) {
  if (shell == "bash") return bash(programs);
  if (shell == "zsh") return zsh(programs);
  TW_CHECK(shell == "fish", "unknown shell");
  return fish(programs);
}

}  // namespace tw::tools
