#include "tools/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace tw::tools {
namespace {

class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return app->get_footer() + "\n" + CLI::Formatter::make_help(app, std::move(name), mode);
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
};

// The part of a CLI11 type name between two texts: "TEXT:{a,b}", "UINT:UINT in [1 - 8]".
std::string between(const std::string& type, const std::string& open, const std::string& close) {
  const std::size_t begin = type.find(open);
  if (begin == std::string::npos) return "";
  const std::size_t end = type.find(close, begin);
  return type.substr(begin + open.size(), end == std::string::npos ? end : end - begin - open.size());
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry e;
  const std::string type = option.get_type_name();
  e.positional = option.get_positional();
  if (e.positional) e.names.push_back(option.get_single_name());
  for (const std::string& n : option.get_snames()) e.names.push_back("-" + n);
  for (const std::string& n : option.get_lnames()) e.names.push_back("--" + n);
  e.argument = type.substr(0, type.find(':'));
  if (const std::string words = between(type, "{", "}"); !words.empty())
    e.values = CLI::detail::split(words, ',');
  e.range = between(type, "in [", "]");
  e.text = option.get_description();
  e.default_value = option.get_default_str();
  e.required = option.get_required();
  e.repeatable = option.get_expected_max() > 1;
  return e;
}

}  // namespace

void examples_first(CLI::App& app) { app.formatter(std::make_shared<ExamplesFirst>()); }

CommandTable table_of(const CLI::App& app, const std::string& name) {
  CommandTable t{name, app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* o : app.get_options()) t.options.push_back(entry_of(*o));
  std::ranges::stable_partition(t.options, [](const OptionEntry& e) { return !e.positional; });
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    t.commands.push_back(table_of(*sub, sub->get_name()));
  return t;
}

std::string type_of_words(const std::string& argument, const std::vector<std::string>& words) {
  return fmt::format("{}:{{{}}}", argument, fmt::join(words, ","));
}

}  // namespace tw::tools
