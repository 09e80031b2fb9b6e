#include "tools/man.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/version.h"

namespace tw::tools {
namespace {

// Text that roff takes literally: no macros at the start of a line, hyphens that can be copied.
std::string plain(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_start = c == '\n';
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string option_text(const OptionEntry& o) {
  std::vector<std::string> names;
  for (const std::string& n : o.names) names.push_back(o.positional ? italic(upper(n)) : bold(n));
  std::string out = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!o.positional && !o.argument.empty()) out += " " + italic(o.argument);
  out += "\n" + plain(o.text) + ".\n";
  if (!o.values.empty()) {
    std::vector<std::string> values;
    for (const std::string& v : o.values) values.push_back(bold(v));
    out += fmt::format("One of {}.\n", fmt::join(values, ", "));
  }
  if (!o.range.empty()) out += fmt::format("Range: {}.\n", plain(o.range));
  if (!o.default_value.empty()) out += fmt::format("Default: {}.\n", bold(o.default_value));
  return out;
}

// The examples without the word above them; they are indented already.
std::string examples(const std::string& text) {
  const std::size_t begin = text.find('\n');
  return ".SH EXAMPLES\n.EX\n" + plain(begin == std::string::npos ? text : text.substr(begin + 1)) + ".EE\n";
}

const char* const kExitStatus =
    ".SH EXIT STATUS\n"
    ".TP\n0\nSuccess; every check passed.\n"
    ".TP\n1\nA bug, or out of host memory.\n"
    ".TP\n2\nUsage.\n"
    ".TP\n3\nThe model does not fit or exceeds a limit.\n"
    ".TP\n4\nBad input or output.\n"
    ".TP\n5\nA check failed: cosine, bits, device fault.\n"
    ".TP\n130\nInterrupted.\n";

ManPage page(const std::string& title, const std::string& invocation, const CommandTable& t,
             const std::vector<std::string>& others) {
  std::string out =
      fmt::format(".TH {} 1 \"\" \"tilewright {}\" \"Tilewright\"\n", plain(upper(title)), kVersion);
  out += fmt::format(".SH NAME\n{} \\- {}\n", plain(title), plain(t.text));
  out += fmt::format(".SH SYNOPSIS\n{}", bold(invocation));
  if (!t.commands.empty()) out += " " + italic("COMMAND");
  out += " [" + italic("OPTION") + "]...";
  for (const OptionEntry& o : t.options)
    if (o.positional) out += (o.required ? " " : " [") + italic(upper(o.names[0])) + (o.required ? "" : "]");
  out += "\n" + examples(t.examples);
  if (!t.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandTable& c : t.commands) out += fmt::format(".TP\n{}\n{}.\n", bold(c.name), plain(c.text));
  out += ".SH OPTIONS\n";
  for (const OptionEntry& o : t.options) out += option_text(o);
  out += kExitStatus;
  std::vector<std::string> also;
  for (const std::string& other : others)
    if (other != title) also.push_back(bold(other) + "(1)");
  out += fmt::format(".SH SEE ALSO\n{}\n", fmt::join(also, ",\n"));
  return {title + ".1", out};
}

}  // namespace

std::vector<ManPage> man_pages(const std::vector<CommandTable>& programs) {
  std::vector<std::string> titles;
  for (const CommandTable& p : programs) {
    titles.push_back(p.name);
    for (const CommandTable& c : p.commands) titles.push_back(p.name + "-" + c.name);
  }
  std::vector<ManPage> out;
  for (const CommandTable& p : programs) {
    out.push_back(page(p.name, p.name, p, titles));
    for (const CommandTable& c : p.commands)
      out.push_back(page(p.name + "-" + c.name, p.name + " " + c.name, c, titles));
  }
  return out;
}

}  // namespace tw::tools
