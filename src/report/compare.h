// A second report for the page's Compare view.
#pragma once
#include <string>

namespace tw::report {

// The JSON of a report as the page compares with it: checked, without the exchange of its phases. `text`: a
// report.json; `name`: of the file, for errors. Error{File} when it is no JSON text, no report, a report of
// another schema version, or one whose columns do not belong together.
std::string comparable(const std::string& text, const std::string& name);

}  // namespace tw::report
