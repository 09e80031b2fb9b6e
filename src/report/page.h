// The report page as built from web/ (web/build.mjs writes the source that defines it).
#pragma once
#include <string_view>

namespace tw::report {

inline constexpr std::string_view kDataMark = "@TILEWRIGHT_REPORT_DATA@";
inline constexpr std::string_view kOtherMark = "@TILEWRIGHT_REPORT_OTHER@";  // behind the data
std::string_view page_template();

}  // namespace tw::report
