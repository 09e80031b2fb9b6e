#include "tools/help.h"

#include <CLI/CLI.hpp>
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

}  // namespace

void examples_first(CLI::App& app) { app.formatter(std::make_shared<ExamplesFirst>()); }

}  // namespace tw::tools
