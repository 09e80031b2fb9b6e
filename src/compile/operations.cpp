#include "compile/operations.h"

#include <map>

#include "base/error.h"

namespace tw::compile {

std::vector<OperationCycles> cycles_by_operation(std::span<const std::string> paths,
                                                 std::span<const double> ends, double total) {
  TW_CHECK(paths.size() == ends.size(), "one operation per phase");
  std::vector<OperationCycles> out;
  std::map<std::string, std::size_t> index;
  double last = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto [it, fresh] = index.try_emplace(paths[i], out.size());
    if (fresh) out.push_back({paths[i], 0});
    const double end = i + 1 == paths.size() ? total : ends[i];
    out[it->second].cycles += end - last;
    last = end;
  }
  return out;
}

double cycles_of(std::span<const OperationCycles> operations, const std::string& path) {
  for (const OperationCycles& o : operations) {
    if (o.path == path) return o.cycles;
  }
  return 0;
}

}  // namespace tw::compile
