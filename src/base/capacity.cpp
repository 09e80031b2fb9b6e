#include "base/capacity.h"

#include <fmt/format.h>

namespace tw {
namespace {

const char* explanation(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Capacity:
      return "what is alive at one step is larger than the memory that it may use";
    case ErrorKind::Contiguity:
      return "one tensor is larger than any contiguous range";
    case ErrorKind::Fragmentation:
      return "no address order was found; the free bytes are in pieces";
    case ErrorKind::ExchangeTable:
      return "the exchange table of a tile is larger than its budget";
    case ErrorKind::Code:
      return "code leaves no executable memory for exchange rows";
    case ErrorKind::Fragments:
      return "a tile sends and receives more fragments than the limit";
    default:
      return "a limit of the device is exceeded";
  }
}

std::string message(ErrorKind kind, const CapacityDetail& d) {
  const char* unit = kind == ErrorKind::Fragments ? "fragments" : "bytes";
  std::string text = fmt::format("does not fit: {}: {}\n  where: tile {} (physical {})", kind_name(kind),
                                 explanation(kind), d.tile, d.physical_tile);
  if (!d.step_path.empty()) text += fmt::format(", '{}'", d.step_path);
  if (d.steps > 0) text += fmt::format(", step {} of {}", d.step, d.steps);
  if (!d.memory_class.empty()) text += fmt::format(", {} memory", d.memory_class);
  for (const MemoryRange& r : d.ranges)
    text += fmt::format("{}{:#x} to {:#x}", &r == &d.ranges.front() ? ", " : " and ", r.begin, r.end);
  text += fmt::format("\n  {}: needed {}, available {}, missing {}", unit, grouped(d.needed_bytes),
                      grouped(d.available_bytes), grouped(d.missing_bytes));
  if (d.largest_hole_bytes > 0) text += fmt::format(", largest hole {}", grouped(d.largest_hole_bytes));
  if (d.holes > 0) text += fmt::format(" of {}", d.holes);
  if (!d.cause.empty()) text += "\n  cause: " + d.cause;
  for (const LiveTensor& t : d.live) {
    text += fmt::format("\n  live: {:<12} {} {} {}: {} B, padding {}", t.role, t.tensor, t.shape, t.precision,
                        grouped(t.bytes), grouped(t.padding_bytes));
    if (d.steps > 0)
      text += fmt::format(", steps {} to {}", t.first_step,
                          t.last_step < 0 ? "end" : std::to_string(t.last_step));
  }
  for (const Share& part : d.parts) text += fmt::format("\n  part: {}: {}", part.what, grouped(part.amount));
  text += fmt::format("\n  the same on {} {}", d.failing_tiles, d.failing_tiles == 1 ? "tile" : "tiles");
  if (d.first_tiles.size() > 1)
    text += fmt::format(" ({}{})", fmt::join(d.first_tiles, ", "),
                        d.first_tiles.size() < d.failing_tiles ? ", ..." : "");
  for (const Suggestion& s : d.suggestions) {
    text += "\n  try: " + s.change;
    if (s.saves_bytes > 0) text += fmt::format(": saves about {} B", grouped(s.saves_bytes));
  }
  return text;
}

}  // namespace

Error does_not_fit(ErrorKind kind, CapacityDetail detail) {
  const std::string text = message(kind, detail);
  return Error(kind, text, std::move(detail));
}

std::string grouped(std::uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace tw
