#include <string>

#include "base/error.h"
#include "report/page.h"
#include "report/report.h"

namespace tw::report {

std::string to_html(const std::string& json) {
  const std::string_view page = page_template();
  const std::size_t at = page.find(kDataMark);
  TW_CHECK(at != std::string_view::npos, "the page has no place for its data");
  std::string html(page.substr(0, at));
  html.reserve(page.size() + json.size());
  for (const char c : json) {  // "</script" inside a name would end the element
    if (c == '<')
      html += "\\u003c";
    else
      html += c;
  }
  return html += page.substr(at + kDataMark.size());
}

}  // namespace tw::report
