// Arbitrary bytes as a device description: a refusal is an Error{Usage} or Error{File}; what is accepted
// obeys the rules between the fields.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "scratch_file.h"
#include "target/device.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tw;
  static fuzz::ScratchFile file(".toml");
  try {
    const Device device = load_device(file.write(data, size));
    if (!validate(device).empty()) std::abort();
    for (const std::uint32_t address : {device.memory_base, device.interleaved_base, device.memory_end - 1})
      element_of(device, address);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File && e.kind != ErrorKind::Usage) std::abort();
  }
  return 0;
}
