#include <string>

#include "base/error.h"
#include "report/page.h"
#include "report/report.h"

namespace tw::report {
namespace {

// "</script" inside a name would end the element.
void append_escaped(std::string& html, std::string_view json) {
  for (const char c : json) {
    if (c == '<')
      html += "\\u003c";
    else
      html += c;
  }
}

}  // namespace

std::string to_html(const std::string& json, const std::string& other) {
  const std::string_view page = page_template();
  const std::size_t data = page.find(kDataMark), second = page.find(kOtherMark);
  TW_CHECK(data < second && second != std::string_view::npos, "the page has no place for its data");
  std::string html(page.substr(0, data));
  html.reserve(page.size() + json.size() + other.size());
  append_escaped(html, json);
  const std::size_t behind = data + kDataMark.size();
  html += page.substr(behind, second - behind);
  append_escaped(html, other.empty() ? "null" : other);
  return html += page.substr(second + kOtherMark.size());
}

}  // namespace tw::report
