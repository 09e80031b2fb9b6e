// Arbitrary bytes as a file of FP8 scales: a refusal is an Error{File}; what is accepted has a scale in
// -16..15 for every role or keeps it in F16, and is read again from what is written of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "import/calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tw;
  const std::set<std::string> roles{"embedding", "encoder.layer.mlp.up", "map.mlp.up"};
  try {
    const import::Calibration read =
        import::calibration_from_json(std::string(data, data + size), "calibration.json", roles);
    for (const auto& [role, scale] : read.scales) {
      if (!roles.contains(role) || scale < -16 || scale > 15) std::abort();
    }
    for (const std::string& role : roles)
      if (read.scales.contains(role) == read.fp16.contains(role)) std::abort();
    if (read.scales.size() + read.fp16.size() != roles.size()) std::abort();
    const import::Calibration again = import::calibration_from_json(to_json(read), "again.json", roles);
    if (again.scales != read.scales || again.fp16 != read.fp16) std::abort();
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  return 0;
}
