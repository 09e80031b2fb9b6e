#include "import/problems.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tw::import {

constexpr std::size_t kMostProblems = 50, kLongestName = 200;

void refuse(const std::filesystem::path& file, const std::vector<std::string>& problems) {
  TW_CHECK(!problems.empty(), "a refusal without a problem");
  if (problems.size() == 1)
    throw Error(ErrorKind::File, fmt::format("{}: {}", file.string(), problems.front()));
  std::string text = fmt::format("{}: {} problems", file.string(), problems.size());
  for (std::size_t i = 0; i < problems.size() && i < kMostProblems; ++i) text += "\n  " + problems[i];
  if (problems.size() > kMostProblems)
    text += fmt::format("\n  and {} more", problems.size() - kMostProblems);
  throw Error(ErrorKind::File, text);
}

std::string printable(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  if (out.size() <= kLongestName) return out;
  std::size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80U) --end;  // whole UTF-8 sequences
  return out.substr(0, end) + "...";
}

std::string in_quotes(const std::string& name) { return "\"" + printable(name) + "\""; }

std::string shape_text(std::span<const std::uint64_t> shape) {
  constexpr std::size_t kMost = 16;
  const auto first = shape.first(std::min(shape.size(), kMost));
  return fmt::format("[{}{}]", fmt::join(first, ","), shape.size() > kMost ? ",..." : "");
}

}  // namespace tw::import
